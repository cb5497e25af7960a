package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const limitsShowLong = `Show one limit: what it allows and by whose word, how much of it is used, who paused
it, the call whose refusal made the last pause, how many permits were granted and how
many calls refused lately, and what was changed by hand.

Permits are counted by cost. What is further back was merged to keep the state
small, and is shown evenly spread. Refusals are kept for an hour.`

// historyBars is how many periods the history of a limit is shown in.
const historyBars = 60

// causeShown is how much of a refusal's text people are shown, in characters.
const causeShown = 160

// changesShown is how many changes by hand are shown.
const changesShown = 5

func newLimitsShow(f *opsFlags) *cobra.Command {
	last := age(10 * time.Minute)
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a limit with its recent past", Long: limitsShowLong,
		Example: "  penstock limits show api.example.com\n  penstock limits show api.example.com --last 1h",
		Args:    oneName("limit"), ValidArgsFunction: firstOnly(completeLimits),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				p, err := newLimitPage(ctx, c, args[0], now, time.Duration(last))
				if err != nil {
					return err
				}
				if f.json {
					return show.NewLines(cmd.OutOrStdout()).Print(p)
				}
				return p.print(show.On(cmd.OutOrStdout()))
			})
		},
	}
	cmd.Flags().Var(&last, "last", "how far back the history goes")
	return cmd
}

// limitPage is all of a limit, as JSON.
type limitPage struct {
	limitLine
	Cause   *pauseCause `json:"last_pause_caused_by"` // null: the API never paused it
	History struct {
		Period  show.Seconds `json:"period_seconds"`
		Granted []int64      `json:"granted"` // permits by period, the newest last
		Refused []int64      `json:"refused"`
	} `json:"history"`
	Changes []limitChange `json:"changes"`

	now int64
}

// pauseCause is the refused call that set the API's last pause.
type pauseCause struct {
	At     show.Time `json:"at"`
	Job    int64     `json:"job,omitempty"` // none: it belonged to no job
	Run    string    `json:"run,omitempty"`
	Ref    string    `json:"ref,omitempty"`
	Status int       `json:"status,omitempty"`
	Error  string    `json:"error,omitempty"`
	Gone   bool      `json:"job_is_gone,omitempty"`
}

type limitChange struct {
	At   show.Time `json:"at"`
	Text string    `json:"text"`
}

func newLimitPage(ctx context.Context, c *penstock.Client, name string, now int64, last time.Duration) (p limitPage, err error) {
	info, err := c.LimitByName(ctx, name)
	if err != nil {
		return p, err
	}
	lines, err := c.Store().Lines(ctx)
	if err != nil {
		return p, err
	}
	p.now, p.limitLine = now, newLimitLine(&info, lines[name], now)
	if r, ok := info.State.Cause(); ok {
		if p.Cause, err = causeOf(ctx, c, r.Job, r.At); err != nil {
			return p, err
		}
	}
	period := max(last/historyBars, time.Millisecond)
	p.History.Period = show.Seconds(period)
	p.History.Granted, p.History.Refused = info.State.History(now, period, historyBars)
	notes, err := c.Store().Notes(ctx, store.NoteLimit+name, changesShown)
	if err != nil {
		return p, err
	}
	p.Changes = []limitChange{}
	for _, n := range notes {
		p.Changes = append(p.Changes, limitChange{show.Time(n.At), n.Text})
	}
	return p, nil
}

// causeOf tells of a refused call what is still known of it.
func causeOf(ctx context.Context, c *penstock.Client, id, at int64) (*pauseCause, error) {
	cause := &pauseCause{At: show.Time(at), Job: id}
	if id == 0 {
		return cause, nil
	}
	j, err := c.Job(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		cause.Gone = true
		return cause, nil
	}
	if err != nil {
		return nil, err
	}
	cause.Run, cause.Ref = j.Run, j.Ref
	events, err := c.Events(ctx, id)
	if err != nil {
		return nil, err
	}
	// The event was written by the commit that took the refusal in, a little after it.
	for _, t := range history(&j, events) {
		if int64(t.At) >= at && t.StartedAt != 0 && int64(t.StartedAt) <= at {
			cause.Status, cause.Error = t.Status, t.Error
			break
		}
	}
	return cause, nil
}

func (p *limitPage) print(s *show.Screen) error {
	var f show.Facts
	f.Add("limit", p.Name)
	f.Add("allows", p.allows())
	for i, r := range p.Rates {
		name := "used"
		if i > 0 {
			name = ""
		}
		if !p.Pattern {
			f.Add(name, fmt.Sprintf("%s of %s, for %s", show.Number(r.Used), show.Number(r.Of), r.Rate))
		}
	}
	if !p.Pattern {
		text := show.Number(p.InFlight)
		if p.InFlightMax > 0 {
			text += " of " + show.Number(p.InFlightMax)
		}
		f.Add("in flight", text)
		f.Add("in line", show.Count(p.Waiting, "due job"))
	}
	f.Add("guard", p.guard())
	for _, q := range p.Pauses {
		f.Add("state", q.text(p.now))
		if q.By != "spec" {
			f.Add("since", show.When(p.now, int64(q.Since)))
			f.Add("until", untilText(p.now, int64(q.Until)))
		}
	}
	if p.Left != nil {
		f.Add("left", p.Left.text(p.now))
	}
	if p.Cause != nil {
		f.Add("last pause", p.Cause.text(p.now))
	}
	f.Add("last slot", show.When(p.now, int64(p.LastSlot)))
	f.Add("last success", show.When(p.now, int64(p.LastSuccess)))
	if err := f.Print(s); err != nil || p.Pattern {
		return err
	}
	return p.printPast(s)
}

func (p *limitPage) allows() string {
	switch {
	case p.Set == "":
		return p.Spec
	case p.Set == p.Declared:
		return p.Spec + ", set by hand; code declares the same"
	}
	return p.Spec + ", set by hand; code declares " + p.Declared
}

// pastRoom is how many columns stand beside the bars: "granted  " and a sum.
const pastRoom = 9 + 1 + 7

// pairs adds up neighbours. An odd one at the old end stays alone.
func pairs(v []int64) (out []int64) {
	if len(v)%2 == 1 {
		out, v = append(out, v[0]), v[1:]
	}
	for i := 0; i+1 < len(v); i += 2 {
		out = append(out, v[i]+v[i+1])
	}
	return out
}

func (p *limitPage) printPast(s *show.Screen) error {
	sum := func(v []int64) (n int64) {
		for _, x := range v {
			n += x
		}
		return n
	}
	g, r, period := p.History.Granted, p.History.Refused, durationOf(p.History.Period)
	for s.Width > 0 && len(g) > 8 && len(g)+pastRoom > s.Width {
		g, r, period = pairs(g), pairs(r), 2*period
	}
	fmt.Fprintf(s, "\nthe last %s, %s each\n", show.Duration(historyBars*durationOf(p.History.Period)), show.Duration(period))
	fmt.Fprintf(s, "granted  %s %s\n", s.Sparkline(g), show.Number(sum(g)))
	if _, err := fmt.Fprintf(s, "refused  %s %s\n", s.Sparkline(r), show.Number(sum(r))); err != nil {
		return err
	}
	if len(p.Changes) == 0 {
		return nil
	}
	if _, err := io.WriteString(s, "\nchanges\n"); err != nil {
		return err
	}
	t := show.Facts{}
	for _, c := range p.Changes {
		t.Add(show.Clock(p.now, int64(c.At)), c.Text)
	}
	return t.Print(s)
}

// text tells of the call for people.
func (c *pauseCause) text(now int64) string {
	text := "by a call of no job"
	switch {
	case c.Job != 0 && c.Run != "":
		text = fmt.Sprintf("by job %d (%s/%s)", c.Job, c.Run, c.Ref)
	case c.Job != 0 && c.Gone:
		text = fmt.Sprintf("by job %d, which is not kept any more", c.Job)
	case c.Job != 0:
		text = fmt.Sprintf("by job %d", c.Job)
	}
	text += ", refused at " + show.When(now, int64(c.At))
	if c.Status != 0 {
		text += fmt.Sprintf(", status %d", c.Status)
	}
	if c.Error != "" {
		text += ": " + (&show.Screen{Unicode: true}).Cut(firstLineOf(c.Error), causeShown)
	}
	return text
}

// untilText is when something ends by itself.
func untilText(now, at int64) string {
	if at >= never {
		return "somebody resumes it"
	}
	return show.When(now, at)
}

func durationOf(s show.Seconds) time.Duration { return time.Duration(s) }

// never is the store's instant that does not come by waiting.
const never = 1<<63 - 1
