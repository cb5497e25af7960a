package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

const limitsSetLong = `Set what a limit allows. It wins over what code and --limit declare, at once, for
all processes and through restarts, until it is reset. What was sent before goes
on counting. The change is noted, see penstock limits show.

A SPEC is like 5/s, 100/m, "10/s, 10000/day@UTC", "40/10s burst 8", "20 in flight",
unlimited, paused. The name "shop/*" sets it for each key that has none of its own.`

func newLimitsSet(f *opsFlags) *cobra.Command {
	create := false
	cmd := &cobra.Command{
		Use: "set NAME SPEC", Short: "Override what code declares of a limit", Long: limitsSetLong,
		Example: `  penstock limits set api.example.com "2/s, 10 in flight"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("expected a name and a SPEC (in quotes if it has spaces), got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: firstOnly(completeLimits),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := limit.Parse(args[1])
			if err != nil {
				return usagef("%v", oneLine(err))
			}
			return f.change(cmd, args[0], func(ctx context.Context, st store.Store, _ int64) error {
				if !create {
					if _, err := st.Limit(ctx, args[0]); err != nil {
						return withNewHint(err)
					}
				}
				if err := st.SetLimit(ctx, args[0], spec); err != nil {
					return err
				}
				return tellOfTooCostly(ctx, cmd.ErrOrStderr(), st, args[0], spec)
			})
		},
	}
	cmd.Flags().BoolVar(&create, "new", false, "set a limit that no code has declared yet")
	return cmd
}

// costlyLooked is how many waiting jobs are looked at for their costs.
const costlyLooked = 10_000

// tellOfTooCostly warns of waiting jobs that cost more than the limit can ever grant
// now: they wait until it is raised, and nothing else says so.
func tellOfTooCostly(ctx context.Context, w io.Writer, st store.Store, name string, spec limit.Spec) error {
	first, n := int64(0), int64(0)
	filter := store.Filter{States: []store.State{store.Waiting}, Limit: name, N: pageJobs}
	for range costlyLooked / pageJobs {
		jobs, err := st.Jobs(ctx, filter)
		if err != nil {
			return err
		}
		for i := range jobs {
			filter.AfterID = jobs[i].ID
			if !tooCostly(&jobs[i], name, spec) {
				continue
			}
			if n++; n == 1 {
				first = jobs[i].ID
			}
		}
		if len(jobs) < filter.N {
			break
		}
	}
	switch {
	case n == 1:
		fmt.Fprintf(w, "penstock: job %d costs more than that can ever grant: it waits until the limit is raised\n", first)
	case n > 1:
		fmt.Fprintf(w, "penstock: job %d and %s more cost more than that can ever grant: they wait until the limit is raised\n", first, show.Number(n-1))
	}
	return nil
}

// tooCostly says whether a job draws more on the limit, or on a key of the pattern,
// than the spec can grant.
func tooCostly(j *store.Job, name string, spec limit.Spec) bool {
	keys, pattern := strings.CutSuffix(name, "*")
	for _, d := range j.Draws {
		if (d.Limit == name || pattern && strings.HasPrefix(d.Limit, keys)) && spec.CheckCost(d.Cost) != nil {
			return true
		}
	}
	return false
}

// withNewHint tells who sets an unknown limit how to do that if it is meant.
func withNewHint(err error) error {
	var unknown *store.UnknownLimitError
	if errors.As(err, &unknown) {
		return inputf("%s: --new sets it for when code declares it", unknownLimitText(unknown))
	}
	return err
}

func newLimitsReset(f *opsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "reset NAME", Short: "Go back to what code declares of a limit",
		Long:    "Take away what was set by hand: the limit allows again what code or --limit\ndeclares of it, at once, for all processes.",
		Example: "  penstock limits reset api.example.com",
		Args:    oneName("limit"), ValidArgsFunction: firstOnly(completeLimits),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args[0], func(ctx context.Context, st store.Store, _ int64) error { return st.ResetLimit(ctx, args[0]) })
		},
	}
}

func newLimitsPause(f *opsFlags) *cobra.Command {
	var during age
	reason := ""
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Stop all starts under a limit",
		Long: `Stop all starts under a limit, for all processes and through restarts, until the
time is over or it is resumed. Calls that are on their way are not touched. After
the pause calls start at the limit's pace, without a burst.`,
		Example: `  penstock limits pause api.example.com --for 10m --reason "they deploy"`,
		Args:    oneName("limit"), ValidArgsFunction: firstOnly(completeLimits),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args[0], func(ctx context.Context, st store.Store, now int64) error {
				until := limit.Never
				if during > 0 {
					until = now + time.Duration(during).Microseconds()
				}
				return st.PauseLimit(ctx, args[0], until, reason)
			})
		},
	}
	cmd.Flags().Var(&during, "for", "how long, such as 90s, 10m or 2h (default until it is resumed)")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for those who wonder")
	return cmd
}

func newLimitsResume(f *opsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "Lift a pause, a person's or the API's",
		Long:    "Lift the pause of a limit, whoever set it: a person, or the API by asking to wait.\nIf the API refuses the next call, too, it is paused again.",
		Example: "  penstock limits resume api.example.com",
		Args:    oneName("limit"), ValidArgsFunction: firstOnly(completeLimits),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args[0], func(ctx context.Context, st store.Store, _ int64) error {
				err := st.ResumeLimit(ctx, args[0])
				if l, e := st.Limit(ctx, args[0]); err == nil && e == nil && l.Spec.Paused {
					fmt.Fprintf(cmd.ErrOrStderr(), "penstock: its spec is \"paused\", so it is paused still: penstock limits set or reset changes that\n")
				}
				return err
			})
		},
	}
}

// change changes a limit and shows how it is then.
func (f *opsFlags) change(cmd *cobra.Command, name string, fn func(context.Context, store.Store, int64) error) error {
	return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
		if err := saysIfLocked(lockedOn(cmd), func() error { return fn(ctx, c.Store(), now) }); err != nil {
			var unknown *store.UnknownLimitError
			if !isStoreFailure(err) && !errors.As(err, &unknown) && ctx.Err() == nil {
				err = inputf("%v", oneLine(err))
			}
			return err
		}
		info, err := c.LimitByName(ctx, name)
		if err != nil {
			return err
		}
		lines, err := c.Store().Lines(ctx)
		if err != nil {
			return err
		}
		return printLimits(cmd, f.json, []limitLine{newLimitLine(&info, lines[name], now)}, now)
	})
}

// firstOnly completes the first argument.
func firstOnly(f completer) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}
