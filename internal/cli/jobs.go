package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
)

const jobsLong = `List jobs, in the order in which they came in, or with --newest the latest first.
Lists leave the payloads and results out; "penstock jobs show ID" has everything.

A list shows the first 100 jobs. For the next ones, give the last id with --after, or,
with --newest, with --before.`

const jobsExample = `  # what waits or runs, and draws on one limit
  penstock jobs --state waiting,running --limit api.example.com

  # dead for more than two hours, as JSON lines
  penstock jobs --state dead --older-than 2h --json

  # the last ten that came in
  penstock jobs --newest -n 10

  # one job, with its whole history
  penstock jobs show 17

  # stop some
  penstock jobs cancel 17 18`

func newJobs() *cobra.Command {
	var f jobsFlags
	cmd := &cobra.Command{
		Use:     "jobs",
		Short:   "List jobs, show one with its history, cancel some",
		Long:    jobsLong,
		Example: jobsExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listJobs(cmd, &f)
		},
	}
	o := cmd.Flags()
	o.SortFlags = false
	o.Var((*filledList)(&f.states), "state", "only jobs in these `states`: waiting, running, done, dead, cancelled")
	f.add(o)
	o.Var((*filled)(&f.reason), "reason", "only jobs that are dead for this `reason`")
	f.addPage(o)
	cmd.PersistentFlags().SortFlags = false
	addDB(cmd.PersistentFlags(), &f.db)
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON lines")
	completeFilter(cmd)
	_ = cmd.RegisterFlagCompletionFunc("state", fixed("waiting", "running", "done", "dead", "cancelled"))
	cmd.AddCommand(newJobsShow(&f), newJobsCancel(&f))
	return cmd
}

// jobsFlags are the options of the commands that list jobs.
type jobsFlags struct {
	jobFilter
	db    string
	json  bool
	after int64
	n     int

	before int64
	newest bool
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// pageJobs is how many jobs are read at a time.
const pageJobs = 500

// listJobs prints a page of jobs.
func listJobs(cmd *cobra.Command, f *jobsFlags) error {
	ctx := cmd.Context()
	if f.n < 1 {
		return usagef("-n: expected at least 1, got %d", f.n)
	}
	if f.before < 1 && cmd.Flags().Changed("before") {
		return usagef("--before: expected the id of a job, got %d", f.before)
	}
	c, db, err := openThere(ctx, f.db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.Store().Now(ctx)
	if err != nil {
		return storeFailure(db, err)
	}
	filter, err := f.filter(now)
	if err != nil {
		return err
	}
	filter.AfterID, filter.BeforeID, filter.Newest = f.after, f.before, f.newest
	p := jobPrinter{out: cmd.OutOrStdout(), now: now, json: f.json, oneState: len(filter.States) == 1}
	last, more := int64(0), false
	for left := f.n; left > 0 && !more; {
		filter.N = min(left, pageJobs) + 1 // one more tells whether there are more
		jobs, err := c.Jobs(ctx, filter)
		if err != nil {
			return storeFailure(db, err)
		}
		full := len(jobs) == filter.N
		if full {
			jobs = jobs[:len(jobs)-1]
		}
		if err := p.print(jobs); err != nil {
			return err
		}
		if left -= len(jobs); len(jobs) > 0 {
			last = jobs[len(jobs)-1].ID
		}
		if !full {
			break
		}
		if more = left == 0; f.newest {
			filter.BeforeID = last
		} else {
			filter.AfterID = last
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if more {
		flag := "after"
		if f.newest {
			flag = "before"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "penstock: there are more: go on with --%s %d\n", flag, last)
	}
	return nil
}

// jobPrinter prints lists of jobs. Lines of JSON go out as they come; a table
// needs all its rows.
type jobPrinter struct {
	out  io.Writer
	now  int64
	json bool
	rows []penstock.JobInfo

	oneState bool // all are in the same state
}

func (p *jobPrinter) print(jobs []penstock.JobInfo) error {
	if !p.json {
		p.rows = append(p.rows, jobs...)
		return nil
	}
	lines := show.NewLines(p.out)
	for i := range jobs {
		if err := lines.Print(newJobLine(&jobs[i])); err != nil {
			return err
		}
	}
	return nil
}

func (p *jobPrinter) end() error {
	if p.json {
		return nil
	}
	if len(p.rows) == 0 {
		_, err := fmt.Fprintln(p.out, "no such jobs")
		return err
	}
	return jobTable(p.rows, p.now, p.oneState).Print(show.On(p.out))
}

// eachJob calls fn with the jobs of a filter, a chunk at a time, in the order of
// their ids, for as long as it wants more.
func eachJob(ctx context.Context, c *penstock.Client, f penstock.Filter, fn func(jobs []penstock.JobInfo) (more bool, err error)) error {
	f.N = bulkChunk
	for {
		jobs, err := c.Jobs(ctx, f)
		if err != nil || len(jobs) == 0 {
			return err
		}
		more, err := fn(jobs)
		if err != nil || !more || len(jobs) < f.N {
			return err
		}
		f.AfterID = jobs[len(jobs)-1].ID
	}
}
