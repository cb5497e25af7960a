package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// opsFlags are the options of all commands that look at a database, or change
// how it is worked.
type opsFlags struct {
	db   string
	json bool
}

// add gives a command and those below it the options.
func (f *opsFlags) add(cmd *cobra.Command) {
	cmd.PersistentFlags().SortFlags = false
	cmd.PersistentFlags().StringVar(&f.db, "db", "", dbUsage)
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON lines")
}

// with runs fn on the database, which must be there, at an instant of its clock.
func (f *opsFlags) with(cmd *cobra.Command, fn func(ctx context.Context, c *penstock.Client, now int64) error) error {
	ctx := cmd.Context()
	c, db, err := openThere(ctx, f.db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.Store().Now(ctx)
	if err == nil {
		err = fn(ctx, c, now)
	}
	return opsFailure(db, err)
}

// opsFailure tells what was asked for wrongly from a store that failed.
func opsFailure(db string, err error) error {
	var unknown *store.UnknownLimitError
	var coded *exitError
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.As(err, &unknown):
		return inputf("%v in %s: penstock limits lists them", unknownLimitText(unknown), db)
	case errors.Is(err, store.ErrNotFound):
		return inputf("%v in %s", err, db)
	}
	return storeFailure(db, err)
}

func unknownLimitText(e *store.UnknownLimitError) string {
	text := "there is no limit " + strconv.Quote(e.Name)
	if len(e.Nearest) > 0 {
		text += ", but there is " + strconv.Quote(e.Nearest[0])
	}
	return text
}

// oneName is for commands that take one name.
func oneName(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("expected the name of one %s, got %d arguments", what, len(args))
		}
		return nil
	}
}

// findJob reads the job that a person named: by its id, or as RUN/CALL-ID, or,
// with a run given, by the call's id alone.
func findJob(ctx context.Context, c *penstock.Client, run, arg string) (penstock.JobInfo, error) {
	ref := arg
	if run == "" {
		if id, err := strconv.ParseInt(arg, 10, 64); err == nil {
			j, err := c.Job(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				return j, inputf("there is no job %d", id)
			}
			return j, err
		}
		var ok bool
		if run, ref, ok = strings.Cut(arg, "/"); !ok || run == "" || ref == "" {
			return penstock.JobInfo{}, usagef("expected the id of a job, a number, or RUN/CALL-ID, got %q", arg)
		}
	}
	jobs, err := c.Jobs(ctx, penstock.Filter{Run: run, Refs: []string{ref}, N: 1})
	if err != nil {
		return penstock.JobInfo{}, err
	}
	if len(jobs) == 0 {
		return penstock.JobInfo{}, inputf("there is no call %q of run %q", ref, run)
	}
	return c.Job(ctx, jobs[0].ID)
}
