package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/show"
)

const showLong = `Show all that is known of a job, named by its id or, if it is a call of a run, as
RUN/CALL-ID: what it is, its payload, each of its starts with the status, the
headers about limits and the first 2 KiB of the answer, why it waited and until
when, and how it ended. The history keeps the first five and the last fifteen
entries.

Values that look like secrets by their names are shown as ***; --unmasked shows
them. ${NAME} stands for a variable of the environment, which is never stored.`

func newJobsShow(f *jobsFlags) *cobra.Command {
	return newShow(f, "Show a job with its whole history", "  penstock jobs show 17\n  penstock jobs show nightly/order-17", 0)
}

// newShow makes the command that shows one job, of a state if one is given.
func newShow(f *jobsFlags, short, example string, state penstock.State) *cobra.Command {
	unmasked := false
	cmd := &cobra.Command{
		Use: "show JOB", Short: short, Long: showLong, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("expected one job: its id, or RUN/CALL-ID; got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return showJob(cmd, f, args, state, unmasked)
		},
	}
	if state != 0 {
		cmd.ValidArgsFunction = completeJobs(state)
	} else {
		cmd.ValidArgsFunction = completeJobs()
	}
	cmd.Flags().BoolVar(&unmasked, "unmasked", false, "show secrets, too")
	return cmd
}

func showJob(cmd *cobra.Command, f *jobsFlags, args []string, state penstock.State, unmasked bool) error {
	if err := checkIDs(args); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, db, err := openThere(ctx, f.db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	j, err := findJob(ctx, c, "", args[0])
	if err == nil && state != 0 && j.State != state {
		return inputf("job %d is %v, not %v: see penstock jobs show %[1]d", j.ID, j.State, state)
	}
	var page jobPage
	if err == nil {
		page, err = newJobPage(cmd, c, j, unmasked)
	}
	if err != nil {
		return storeFailure(db, err)
	}
	if f.json {
		return show.NewLines(cmd.OutOrStdout()).Print(page)
	}
	return page.print(show.On(cmd.OutOrStdout()))
}

// jobPage is all of a job, as JSON.
type jobPage struct {
	jobLine
	Unique         string          `json:"unique,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	AtMostOnce     bool            `json:"at_most_once"`
	MaxAttempts    int             `json:"max_attempts,omitempty"`
	Timeout        show.Seconds    `json:"timeout_seconds,omitempty"`
	ThrottleBudget show.Seconds    `json:"throttle_budget_seconds,omitempty"`
	Worker         string          `json:"worker,omitempty"` // host and process
	Waits          []string        `json:"waits_for,omitempty"`
	Payload        json.RawMessage `json:"payload"`
	Result         json.RawMessage `json:"result"`
	History        []turn          `json:"history"`

	now int64
}

func newJobPage(cmd *cobra.Command, c *penstock.Client, j penstock.JobInfo, unmasked bool) (p jobPage, err error) {
	ctx := cmd.Context()
	if p.now, err = c.Store().Now(ctx); err != nil {
		return p, err
	}
	events, err := c.Events(ctx, j.ID)
	if err != nil {
		return p, err
	}
	o := j.Options
	p.jobLine, p.History = newJobLine(&j), history(&j, events)
	p.Unique, p.IdempotencyKey, p.AtMostOnce, p.MaxAttempts = j.Unique, o.IdempotencyKey, o.AtMostOnce, o.MaxAttempts
	p.Timeout, p.ThrottleBudget = show.Seconds(time.Duration(o.Timeout)*time.Microsecond), show.Seconds(time.Duration(o.ThrottleBudget)*time.Microsecond)
	p.Payload, p.Result = rawOrText(j.Payload), rawOrText(j.Result)
	if !unmasked {
		p.Payload, p.Result = maskJSON(p.Payload), maskJSON(p.Result)
		for i := range p.History {
			t := &p.History[i]
			t.Response, t.Detail = maskText(t.Response), maskJSON(t.Detail)
		}
	}
	switch j.State {
	case penstock.Waiting:
		waits, err := c.Store().Why(ctx, j.ID)
		if err != nil && !errors.Is(err, penstock.ErrNotFound) {
			return p, err
		}
		for _, w := range waits {
			p.Waits = append(p.Waits, w.Text)
		}
	case penstock.Running:
		workers, err := c.Store().Workers(ctx)
		if err != nil {
			return p, err
		}
		for _, w := range workers {
			if w.ID == j.Worker {
				p.Worker = fmt.Sprintf("process %d on %s", w.PID, w.Host)
			}
		}
	}
	return p, nil
}

// shownBytes is how much of a payload or a result is shown to people.
const shownBytes = 2 << 10

func (p *jobPage) print(s *show.Screen) error {
	var f show.Facts
	f.Add("job", fmt.Sprintf("%d, %v", p.ID, p.State))
	if p.Reason != "" {
		f.Add("reason", string(p.Reason))
	}
	f.Add("error", firstLineOf(p.Error))
	f.Add("kind", p.Kind)
	f.Add("queue", fmt.Sprintf("%s, priority %d", p.Queue, p.Priority))
	f.Add("group", p.Group)
	if p.Run != "" {
		f.Add("run", fmt.Sprintf("%s, id %s", p.Run, p.Ref))
	}
	for i, d := range p.limits() {
		name := "limits"
		if i > 0 {
			name = ""
		}
		f.Add(name, d)
	}
	f.Add("enqueued", show.When(p.now, int64(p.EnqueuedAt)))
	switch {
	case p.State == penstock.Waiting && int64(p.DueAt) < farOff:
		f.Add("due", show.When(p.now, int64(p.DueAt)))
	case p.State.Ended():
		f.Add("ended", show.When(p.now, int64(p.FinishedAt)))
	}
	f.Add("expires", show.When(p.now, int64(p.ExpiresAt)))
	f.Add("starts", p.counts())
	f.Add("unique", p.Unique)
	f.Add("key", p.IdempotencyKey)
	if p.AtMostOnce {
		f.Add("at most once", "yes")
	}
	if p.Timeout > 0 {
		f.Add("timeout", show.Duration(time.Duration(p.Timeout)))
	}
	f.Add("runs in", p.Worker)
	if p.Cancel && p.State == penstock.Running {
		f.Add("cancel", "it was told to stop")
	}
	for i, w := range p.Waits {
		name := "waits for"
		if i > 0 {
			name = ""
		}
		f.Add(name, w)
	}
	f.Add("payload", beginning(p.Payload))
	f.Add("result", beginning(p.result()))
	if err := f.Print(s); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(s, "\nhistory"); err != nil {
		return err
	}
	for i := range p.History {
		n := ""
		if t := &p.History[i]; t.N > 0 {
			n = fmt.Sprint(t.N)
		}
		if i+1 < len(p.History) {
			p.History[i].again = int64(p.History[i+1].StartedAt)
		}
		if err := p.History[i].print(s, p.now, n); err != nil {
			return err
		}
	}
	return nil
}

func (p *jobPage) limits() []string {
	var all []string
	for _, name := range sortedNames(p.Limits) {
		text := name
		if cost := p.Limits[name]; cost > 1 {
			text = fmt.Sprintf("%s, cost %s", name, show.Number(cost))
		}
		all = append(all, text)
	}
	return all
}

func (p *jobPage) counts() string {
	text := show.Number(int64(p.Starts))
	if p.MaxAttempts > 0 {
		text += fmt.Sprintf(", %d of %d attempts used", p.Attempts, p.MaxAttempts)
	} else if p.Attempts > 0 {
		text += ", " + show.Count(int64(p.Attempts), "failed attempt")
	}
	if p.Refusals > 0 {
		text += ", " + show.Count(int64(p.Refusals), "refusal") + " by the API"
	}
	if p.Losses > 0 {
		text += fmt.Sprintf(", its process lost %s", show.Count(int64(p.Losses), "time"))
	}
	return text
}

// result leaves out what only repeats the history: a call without an answer.
func (p *jobPage) result() []byte {
	if p.Kind == httpcall.Kind {
		if r, err := httpcall.ParseResult(p.Result); err == nil && r.Status == 0 {
			return nil
		}
	}
	return p.Result
}

// beginning is as much of a JSON value as people are shown.
func beginning(b []byte) string {
	if len(b) == 0 || string(b) == "null" {
		return ""
	}
	if len(b) <= shownBytes {
		return string(b)
	}
	return fmt.Sprintf("%s (%s in all: see --json)", toValid(b[:shownBytes]), show.Bytes(int64(len(b))))
}
