package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/limit"
)

const limitsLong = `List the limits of a database: what each allows, how much of it is used now, how
many calls are in flight, the guard (extra room kept in each window, learned from
refusals), how many due jobs are in line at it, who paused it and why, and what the
API says is left.

A line with a "*" is a pattern: each key after the slash has a budget of its own,
and is listed while it is in use.`

const limitsExample = `  penstock limits
  penstock limits show api.example.com

  # less than the code declares, for all processes, until it is reset
  penstock limits set api.example.com "2/s, 10 in flight"
  penstock limits reset api.example.com

  penstock limits pause api.example.com --for 10m --reason "they deploy"
  penstock limits resume api.example.com`

func newLimits() *cobra.Command {
	var f opsFlags
	var after string
	var n int
	cmd := &cobra.Command{
		Use: "limits", Short: "List limits, change, pause and resume them",
		Long: limitsLong, Example: limitsExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 {
				return usagef("-n: expected at least 1, got %d", n)
			}
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				return listLimits(ctx, cmd, c, f.json, now, after, n)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().Var((*filled)(&after), "after", "only limits whose `name` comes after this one: the next page")
	cmd.Flags().IntVarP(&n, "n", "n", 100, "at most so many limits")
	cmd.AddCommand(newLimitsShow(&f), newLimitsSet(&f), newLimitsReset(&f), newLimitsPause(&f), newLimitsResume(&f))
	return cmd
}

func listLimits(ctx context.Context, cmd *cobra.Command, c *penstock.Client, json bool, now int64, after string, n int) error {
	infos, err := c.Store().ListLimits(ctx, after, n+1) // one more tells whether there are more
	if err != nil {
		return err
	}
	more := len(infos) > n
	infos = infos[:min(n, len(infos))]
	lines, err := c.Store().Lines(ctx)
	if err != nil {
		return err
	}
	out := make([]limitLine, len(infos))
	for i := range infos {
		out[i] = newLimitLine(&infos[i], lines[infos[i].Name], now)
	}
	if err := printLimits(cmd, json, out, now); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "penstock: there are more: go on with --after %q\n", out[n-1].Name)
	}
	return nil
}

func printLimits(cmd *cobra.Command, json bool, limits []limitLine, now int64) error {
	if json {
		lines := show.NewLines(cmd.OutOrStdout())
		for i := range limits {
			if err := lines.Print(&limits[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(limits) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no limits")
		return err
	}
	t := &show.Table{Columns: []show.Column{{Name: "limit", Flex: true}, {Name: "allows", Flex: true}, {Name: "used", Flex: true},
		{Name: "in flight", Right: true}, {Name: "in line", Right: true}, {Name: "guard", Right: true}, {Name: "state", Flex: true}}}
	for i := range limits {
		l := &limits[i]
		t.Add(l.Name, l.Spec, l.used(), l.inFlight(), show.Some(l.Waiting), l.guard(), l.state(now))
	}
	return t.Print(show.On(cmd.OutOrStdout()))
}

// limitLine is a limit in a list, as JSON.
type limitLine struct {
	Name        string       `json:"name"`
	Spec        string       `json:"spec"` // in force
	Declared    string       `json:"declared"`
	Set         string       `json:"set,omitempty"` // by a person
	Pattern     bool         `json:"pattern"`
	Rates       []rateUse    `json:"rates"`
	InFlight    int64        `json:"in_flight"`
	InFlightMax int64        `json:"in_flight_max,omitempty"`
	Waiting     int64        `json:"due_jobs_in_line"`
	Guard       show.Seconds `json:"guard_seconds"`
	LastSlot    show.Time    `json:"last_slot_at"`
	LastSuccess show.Time    `json:"last_success_at"`
	Paused      *limitPause  `json:"paused"` // the one that ends last; null: it is not
	Pauses      []limitPause `json:"pauses"`
	Left        *limitLeft   `json:"left"` // null: the API did not say
}

// rateUse is how much of one rate is used.
type rateUse struct {
	Rate string `json:"rate"`
	Used int64  `json:"used"`
	Of   int64  `json:"of"`
}

// limitPause says until when a limit is paused, by whom and why.
type limitPause struct {
	By     string    `json:"by"` // api, person, spec
	Since  show.Time `json:"since"`
	Until  show.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

func newLimitLine(l *penstock.LimitInfo, waiting, now int64) limitLine {
	out := limitLine{
		Name: l.Name, Spec: l.Spec.String(), Declared: l.Declared, Set: l.Set, Pattern: strings.HasSuffix(l.Name, "/*"),
		Rates: []rateUse{}, InFlight: l.State.InFlight(), InFlightMax: l.Spec.InFlight, Waiting: waiting,
		Guard: show.Seconds(l.State.Guard(l.Spec)), LastSlot: show.Time(l.State.LastSlot()), LastSuccess: show.Time(l.State.LastSuccess()),
	}
	for _, r := range l.Spec.Rates {
		used, of := l.State.Use(r, now)
		out.Rates = append(out.Rates, rateUse{Rate: r.String(), Used: used, Of: of})
	}
	out.Left = leftOf(l, now)
	out.Pauses = pausesOf(l, now)
	if len(out.Pauses) > 0 {
		out.Paused = &out.Pauses[0]
	}
	return out
}

// pausesOf are the pauses that last, each with its own end; the one that ends last
// is the first.
func pausesOf(l *penstock.LimitInfo, now int64) []limitPause {
	all := []limitPause{}
	add := func(by string, p limit.Pause) {
		if p.Until != 0 {
			all = append(all, limitPause{By: by, Since: show.Time(p.Since), Until: show.Time(p.Until), Reason: p.Reason})
		}
	}
	person, api := l.State.Pauses(now)
	add("person", person)
	if l.Spec.Paused {
		add("spec", limit.Pause{Until: never})
	}
	add("api", api)
	slices.SortStableFunc(all, func(a, b limitPause) int { return cmp.Compare(b.Until, a.Until) })
	return all
}

func (l *limitLine) used() string {
	if l.Pattern {
		return ""
	}
	var all []string
	for _, r := range l.Rates {
		all = append(all, fmt.Sprintf("%s/%s", show.Number(r.Used), show.Number(r.Of)))
	}
	return strings.Join(all, " ")
}

func (l *limitLine) inFlight() string {
	switch {
	case l.Pattern:
		return ""
	case l.InFlightMax > 0:
		return fmt.Sprintf("%s/%s", show.Number(l.InFlight), show.Number(l.InFlightMax))
	}
	return show.Some(l.InFlight)
}

func (l *limitLine) guard() string {
	if l.Pattern || len(l.Rates) == 0 {
		return ""
	}
	return show.Duration(durationOf(l.Guard))
}

// state is what is out of the ordinary about a limit.
func (l *limitLine) state(now int64) string {
	var parts []string
	for _, p := range l.Pauses {
		parts = append(parts, p.text(now))
	}
	if l.Left != nil && l.Left.Binds {
		parts = append(parts, l.Left.text(now))
	}
	switch {
	case l.Set == l.Declared && l.Set != "":
		parts = append(parts, "set by hand")
	case l.Set != "":
		parts = append(parts, "set by hand, declared is "+l.Declared)
	}
	return strings.Join(parts, "; ")
}

// text is "paused by the API for 12s: reason".
func (p *limitPause) text(now int64) string {
	if p.By == "spec" {
		return "paused by its spec"
	}
	text := "paused by a person"
	if p.By == "api" {
		text = "paused by the API"
	}
	if p.Until < never {
		text += " for " + show.Duration(show.Between(now, int64(p.Until)))
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
