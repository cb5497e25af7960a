package cli

import (
	"context"
	"errors"
	"strconv"

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
	addDB(cmd.PersistentFlags(), &f.db)
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
		return inputf("%v in %s: penstock limits lists them", unknownLimitText(unknown), nameOf(db))
	case errors.Is(err, store.ErrNotFound):
		return inputf("%v in %s", err, nameOf(db))
	}
	return storeFailure(db, err)
}

func unknownLimitText(e *store.UnknownLimitError) string {
	text := "there is no limit " + strconv.Quote(e.Name)
	switch {
	case e.Pattern != "":
		text += ", but " + e.Hint()
	case len(e.Nearest) > 0:
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
	none := penstock.JobInfo{}
	if run != "" {
		if arg == "" {
			return none, usagef("expected the id of a call of run %q, got none", run)
		}
		return findCall(ctx, c, [][2]string{{run, arg}})
	}
	if err := checkIDs([]string{arg}); err != nil {
		return none, err
	}
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return findCall(ctx, c, splitCall(arg))
	}
	j, err := c.Job(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return j, inputf("there is no job %d", id)
	}
	return j, err
}

// findCall reads the one call that a run and an id lead to, of those that can be
// meant.
func findCall(ctx context.Context, c *penstock.Client, ways [][2]string) (penstock.JobInfo, error) {
	var found []penstock.JobInfo
	for _, way := range ways {
		jobs, err := c.Jobs(ctx, penstock.Filter{Run: way[0], Refs: []string{way[1]}, N: 1})
		if err != nil {
			return penstock.JobInfo{}, err
		}
		found = append(found, jobs...)
	}
	switch len(found) {
	case 0:
		return penstock.JobInfo{}, inputf("there is no call %q of run %q", ways[0][1], ways[0][0])
	case 1:
		return c.Job(ctx, found[0].ID)
	}
	a, b := &found[0], &found[1]
	return penstock.JobInfo{}, inputf("it is call %q of run %q, and call %q of run %q: name it by its id, %d or %d", a.Ref, a.Run, b.Ref, b.Run, a.ID, b.ID)
}
