package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const cancelLong = `Cancel jobs, named by their ids or as RUN/CALL-ID. One that waits is cancelled at
once and never starts. One that runs gets its signal within a second: an HTTP call is
broken off, a handler's context ends, a command of penstock exec gets TERM. A job that
ended before stays as it ended.

The command waits for a running job to say what became of it, for up to --wait.
A job that succeeds although it was told to stop is done, not cancelled.`

func newJobsCancel(f *jobsFlags) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:     "cancel JOB...",
		Short:   "Cancel jobs that wait or run",
		Long:    cancelLong,
		Example: "  penstock jobs cancel 17 18",
		Args:    someIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cancelJobs(cmd, f, args, wait)
		},
		ValidArgsFunction: completeJobs(penstock.Waiting, penstock.Running),
	}
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Second, "how long to wait for a running job to end")
	return cmd
}

func someIDs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("expected a job: its id, or RUN/CALL-ID")
	}
	return nil
}

// cancelled is what became of one job, as JSON.
type cancelled struct {
	ID    int64           `json:"id"`
	State *penstock.State `json:"state"` // null: no such job, or not any more
	Now   bool            `json:"cancelled_now"`
	Text  string          `json:"text"`

	permit bool // of penstock exec, which is not kept when it ends
	gone   bool // it ended, and is not kept
}

func cancelJobs(cmd *cobra.Command, f *jobsFlags, args []string, wait time.Duration) error {
	if err := checkIDs(args); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, db, err := openThere(ctx, f.db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	ids, err := findIDs(ctx, c, args)
	if err != nil {
		return storeFailure(db, err)
	}
	asked := make([]cancelled, len(ids))
	for i, id := range ids {
		before, err := c.Job(ctx, id)
		if err == nil {
			var after penstock.State
			err = saysIfLocked(lockedOn(cmd), func() (err error) {
				after, err = c.Cancel(ctx, id)
				return err
			})
			if err == nil {
				asked[i] = cancelled{
					ID: id, State: &after, Now: after == penstock.Running || after == penstock.Cancelled && !before.State.Ended(),
					permit: strings.HasPrefix(before.Kind, store.PrivateKind),
				}
				continue
			}
		}
		if !errors.Is(err, penstock.ErrNotFound) {
			return storeFailure(db, err)
		}
		asked[i] = cancelled{ID: id, Text: "there is no such job"}
	}
	if err := awaitEnds(ctx, c, asked, wait); err != nil {
		return storeFailure(db, err)
	}
	lines := show.NewLines(cmd.OutOrStdout())
	failed := false
	for i := range asked {
		a := &asked[i]
		a.explain()
		failed = failed || a.State == nil || *a.State != penstock.Cancelled
		if f.json {
			err = lines.Print(a)
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %d: %s\n", a.ID, a.Text)
		}
		if err != nil {
			return err
		}
	}
	if failed {
		return &exitError{Code: exitFailed}
	}
	return nil
}

// awaitEnds waits for the jobs that run to end, and notes how.
func awaitEnds(ctx context.Context, c *penstock.Client, asked []cancelled, wait time.Duration) error {
	const look = 50 * time.Millisecond
	for deadline := time.Now().Add(wait); ; {
		running := map[int64]*cancelled{}
		var ids []int64
		for i := range asked {
			if a := &asked[i]; a.State != nil && *a.State == penstock.Running && !a.gone {
				running[a.ID] = a
				ids = append(ids, a.ID)
			}
		}
		if len(ids) == 0 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		jobs, err := c.Jobs(ctx, penstock.Filter{IDs: ids, N: len(ids)})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			state := j.State
			running[j.ID].State = &state
			delete(running, j.ID)
		}
		for _, a := range running {
			a.gone = true
		}
	}
}

func (a *cancelled) explain() {
	switch {
	case a.State == nil:
	case a.gone && a.permit:
		*a.State, a.Text = penstock.Cancelled, "cancelled; a permit is not kept"
	case a.gone:
		a.State, a.Text = nil, "it ended, and was removed before it could be seen how"
	case *a.State == penstock.Cancelled && a.Now:
		a.Text = "cancelled"
	case *a.State == penstock.Cancelled:
		a.Text = "it was cancelled before"
	case *a.State == penstock.Running:
		a.Text = "told to stop, and still running: look again with penstock jobs show"
	case *a.State == penstock.Waiting:
		a.Text = "its start was lost meanwhile, and it waits again: cancel it again"
	case a.Now:
		a.Text = fmt.Sprintf("%v: it ended before it heard that it was cancelled", *a.State)
	default:
		a.Text = fmt.Sprintf("%v: it had ended before", *a.State)
	}
}
