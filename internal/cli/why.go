package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const whyLong = `Say why a job is not running: everything it waits for and until when, and its place in
line. Of one that runs: who has it and since when. Of one that ended: how and why.

JOB is the id of a job, or RUN/CALL-ID for a call of a run; with --run RUN it is the
call's id alone.

The line is that of jobs with the same queue, kind, priority, run, group and limits:
either all of them may run or none, and the first one goes first. Jobs of other
lines take turns with them.`

const whyExample = `  penstock why 17
  penstock why calls.jsonl/order-17
  penstock why --run calls.jsonl order-17`

func newWhy() *cobra.Command {
	var f opsFlags
	run := ""
	cmd := &cobra.Command{
		Use: "why JOB", Short: "Say what a job waits for and until when",
		Long: whyLong, Example: whyExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("expected one job, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: firstOnly(completeJobs()),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				w, err := whyOf(ctx, c, run, args[0], now)
				if err != nil {
					return err
				}
				if f.json {
					return show.NewLines(cmd.OutOrStdout()).Print(w)
				}
				return w.print(show.On(cmd.OutOrStdout()), now)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().Var((*filled)(&run), "run", "the `name` of the run that the call belongs to")
	return cmd
}

// whyPage says why a job is where it is, as JSON.
type whyPage struct {
	ID       int64           `json:"id"`
	Run      string          `json:"run,omitempty"`
	Ref      string          `json:"ref,omitempty"`
	Kind     string          `json:"kind"`
	Queue    string          `json:"queue"`
	State    penstock.State  `json:"state"`
	Waits    []wait          `json:"waits"`            // of a waiting job, what people must do first
	Ahead    *int64          `json:"ahead"`            // due jobs before it in its line
	RunsIn   *holder         `json:"runs_in"`          // of a running one
	Cancel   bool            `json:"told_to_stop"`     // of a running one
	EndedAt  show.Time       `json:"ended_at"`         // of one that ended
	Reason   penstock.Reason `json:"reason,omitempty"` // of a dead one
	Starts   int             `json:"starts"`
	Attempts int             `json:"attempts"`
	Refusals int             `json:"refusals"`
	Error    string          `json:"error,omitempty"` // the last failure
}

// wait is one thing that a job waits for.
type wait struct {
	Cause string    `json:"cause"`
	Limit string    `json:"limit,omitempty"`
	Until show.Time `json:"until"` // null: not known; "never": only an event ends it
	Text  string    `json:"text"`
}

// holder is the process that has a job.
type holder struct {
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Since show.Time `json:"since"`
	Slot  show.Time `json:"slot"` // not to be started before
	Seen  show.Time `json:"last_seen_at"`
	Lost  bool      `json:"lost"` // the process is gone, or silent for too long
}

func whyOf(ctx context.Context, c *penstock.Client, run, arg string, now int64) (*whyPage, error) {
	j, err := findJob(ctx, c, run, arg)
	if err != nil {
		return nil, err
	}
	p := &whyPage{
		ID: j.ID, Run: j.Run, Ref: j.Ref, Kind: j.Kind, Queue: j.Queue, State: j.State, Waits: []wait{}, Cancel: j.Cancel && j.State == penstock.Running,
		EndedAt: show.Time(j.FinishedAt), Reason: j.Reason, Starts: j.Starts, Attempts: j.Attempts, Refusals: j.Throttles, Error: j.Error,
	}
	switch j.State {
	case penstock.Waiting:
		waits, err := c.Store().Why(ctx, j.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && waits == nil { // it started or ended meanwhile
			return whyOf(ctx, c, run, arg, now)
		}
		if err != nil {
			return nil, err
		}
		p.takeWaits(waits)
	case penstock.Running:
		workers, err := c.Store().Workers(ctx)
		if err != nil {
			return nil, err
		}
		p.RunsIn = holderOf(&j, workers)
	}
	return p, nil
}

func (p *whyPage) takeWaits(waits []dispatch.Wait) {
	ahead := int64(0)
	for _, w := range waits {
		if w.Cause == dispatch.CausePlace {
			ahead = w.Ahead
		}
		p.Waits = append(p.Waits, wait{Cause: string(w.Cause), Limit: w.Limit, Until: show.Time(w.Until), Text: w.Text})
	}
	p.Ahead = &ahead
}

func holderOf(j *penstock.JobInfo, workers []store.WorkerInfo) *holder {
	h := &holder{Since: show.Time(j.LeasedAt), Slot: show.Time(j.Slot), Lost: true}
	for _, w := range workers {
		if w.ID == j.Worker {
			h.Host, h.PID, h.Seen, h.Lost = w.Host, w.PID, show.Time(w.SeenAt), w.Dead
		}
	}
	return h
}

func (p *whyPage) print(s *show.Screen, now int64) error {
	var f show.Facts
	name := fmt.Sprintf("%d, %v", p.ID, p.State)
	if p.Run != "" {
		name += fmt.Sprintf(" (%s/%s)", p.Run, p.Ref)
	}
	f.Add("job", name)
	switch {
	case p.State == penstock.Waiting:
		p.printWaits(&f, now)
	case p.State == penstock.Running:
		p.printRunning(&f, now)
	default:
		f.Add("ended", show.When(now, int64(p.EndedAt)))
		f.Add("because", p.because())
	}
	if p.Starts > 0 {
		f.Add("starts", p.counts())
	}
	if p.Error != "" {
		f.Add("last failure", strings.ReplaceAll(strings.TrimSpace(p.Error), "\n", "; "))
	}
	return f.Print(s)
}

func (p *whyPage) printWaits(f *show.Facts, now int64) {
	name := "waits"
	for _, w := range p.Waits {
		text := w.Text
		switch at := int64(w.Until); {
		case w.Cause == string(dispatch.CausePlace): // said below
			continue
		case at > now && at < never-1:
			text += ", until " + show.When(now, at)
		}
		f.Add(name, text)
		name = ""
	}
	switch n := *p.Ahead; n {
	case 0:
		f.Add("in line", "it is the first one")
	default:
		f.Add("in line", show.Count(n, "due job")+" before it")
	}
}

func (p *whyPage) printRunning(f *show.Facts, now int64) {
	h := p.RunsIn
	switch {
	case h.PID == 0:
		f.Add("runs in", "a process that is not known any more: the next rescue of a worker takes it back")
	case h.Lost:
		f.Add("runs in", fmt.Sprintf("process %d on %s, which is gone or stands still: any worker takes the job back", h.PID, h.Host))
	default:
		f.Add("runs in", fmt.Sprintf("process %d on %s", h.PID, h.Host))
	}
	f.Add("since", show.When(now, int64(h.Since)))
	if int64(h.Slot) > now {
		f.Add("starts at", show.When(now, int64(h.Slot)))
	}
	if p.Cancel {
		f.Add("cancel", "it was told to stop")
	}
}

var reasonTexts = map[penstock.Reason]string{
	store.Exhausted: "it failed on its last attempt",
	store.Rejected:  "it failed in a way that no further attempt can help",
	store.Throttled: "the API went on refusing it until its throttle budget was spent",
	store.Expired:   "it was not started before it expired",
	store.Lost:      "its process died under it again and again",
	store.InDoubt:   "a call that may happen only once was begun, and nobody knows its end",
}

func (p *whyPage) because() string {
	switch p.State {
	case penstock.Done:
		return "it succeeded"
	case penstock.Cancelled:
		if p.Error != "" {
			return "it was cancelled or replaced"
		}
		return "somebody cancelled it"
	}
	if text := reasonTexts[p.Reason]; text != "" {
		return fmt.Sprintf("%s (%s)", text, p.Reason)
	}
	return string(p.Reason)
}

func (p *whyPage) counts() string {
	text := show.Number(int64(p.Starts))
	if p.Attempts > 0 {
		text += ", " + show.Count(int64(p.Attempts), "failed attempt")
	}
	if p.Refusals > 0 {
		text += ", refused by the API " + show.Count(int64(p.Refusals), "time")
	}
	return text
}
