package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const doctorLong = `Look whether all is well with a database, and say what to do where it is not: its
schema, whether the file fits together, its log, room on the disk, the clock,
processes, leases, what sweeps found, limits and queues that people paused, jobs
that nobody can run, and dead letters. Of a PostgreSQL server: its clock, the oldest
open transaction, which keeps dead rows from being cleaned, dead rows of the tables
that claims walk, and whether processes are notified of new jobs.

Each check is ok, a note (worth knowing), or a problem. It changes nothing, but for
bringing the older schema of a file up to date as every command does. SQLite reads
the whole file for its check; --fast leaves that out.

Exit code: 0 no problem, 1 a problem, 2 bad usage or no such database, 3 the
database cannot be read.`

const doctorExample = `  penstock doctor
  penstock doctor --json | jq 'select(.level == "problem")'
  penstock doctor --json | jq 'select(.check == "oldest").details.age_seconds'`

func newDoctor() *cobra.Command {
	var f opsFlags
	fast := false
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether all is well with a database",
		Long: doctorLong, Example: doctorExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				d := doctor{ctx: ctx, st: c.Store(), now: now, fast: fast}
				if err := d.examine(); err != nil {
					return err
				}
				return d.report(cmd, f.json)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&fast, "fast", false, "do not read the whole file")
	return cmd
}

// level is how bad a finding is.
type level string

const (
	fine    level = "ok"
	noted   level = "note"
	problem level = "problem"
)

// worse is the worse of two levels.
func worse(a, b level) level {
	if a == problem || b == problem {
		return problem
	}
	if a == noted || b == noted {
		return noted
	}
	return fine
}

// finding is what one check found, as JSON.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what helps
	// Details are what was found, in fields of their own; docs/postgres.md lists them.
	Details any `json:"details,omitempty"`
}

// doctor examines a database.
type doctor struct {
	ctx  context.Context
	st   store.Store
	now  int64
	fast bool

	workers  []store.WorkerInfo
	queues   []store.QueueInfo
	findings []finding
}

func (d *doctor) find(check string, l level, do, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Level: l, Text: fmt.Sprintf(format, args...), Do: do})
}

// examine makes all checks. An error is the store's.
func (d *doctor) examine() (err error) {
	if d.workers, err = d.st.Workers(d.ctx); err != nil {
		return err
	}
	if d.queues, err = d.st.Queues(d.ctx); err != nil {
		return err
	}
	for _, check := range []func() error{
		d.file, d.server, d.clock, d.processes, d.leases, d.sweeps, d.limits, d.pausedQueues, d.unserved, d.deadLetters,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *doctor) report(cmd *cobra.Command, json bool) error {
	problems := int64(0)
	for _, f := range d.findings {
		if f.Level == problem {
			problems++
		}
	}
	var err error
	if out := cmd.OutOrStdout(); json {
		lines := show.NewLines(out)
		for i := range d.findings {
			if err = lines.Print(&d.findings[i]); err != nil {
				return err
			}
		}
	} else if err = printFindings(show.On(out), d.findings); err != nil {
		return err
	}
	if problems > 0 {
		return &exitError{Code: exitFailed, Err: fmt.Errorf("%s", show.Count(problems, "problem"))}
	}
	return nil
}

// printFindings writes them for people, what helps below what is wrong.
func printFindings(s *show.Screen, findings []finding) error {
	const indent = "                     "
	for _, f := range findings {
		mark := string(f.Level)
		if f.Level == problem {
			mark = "PROBLEM"
		}
		texts := show.Wrap(show.Text(f.Text), max(s.Width-len(indent), 0))
		if f.Do != "" {
			texts = append(texts, show.Wrap(show.Text(f.Do), max(s.Width-len(indent), 0))...)
		}
		for i, text := range texts {
			head := indent
			if i == 0 {
				head = fmt.Sprintf("%-7s  %-10s  ", mark, f.Check)
			}
			if _, err := io.WriteString(s, head+text+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}
