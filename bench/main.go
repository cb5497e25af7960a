// Command bench measures Penstock beside other job systems: on SQLite beside two,
// and beside what the same SQLite driver does without any job system; on PostgreSQL
// beside two, on one server.
//
// Every figure comes from a process of its own, on a database of its own. The
// systems take turns, round by round, so that a machine that slows down for a
// while slows all of them; ratios are taken within a round. The last output is
// a table in Markdown for each kind of database, or JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A scenario is one thing that is measured, in all rounds.
type scenario struct {
	on    string // the kind of database
	name  string
	about string
	run   func(ctx context.Context, l *lab) error
}

// The kinds of database. Either stands for all its scenarios.
const (
	onSQLite   = "sqlite"
	onPostgres = "postgres"
)

// scenarios in the order in which they run.
var scenarios = []scenario{
	{onSQLite, "drain", "jobs that do nothing, 100 at once; with and without a limit; memory; floor", drainScenario},
	{onSQLite, "enqueue", "enqueueing one by one and in batches", enqueueScenario},
	{onSQLite, "pickup", "from the enqueue call to the handler's start, nothing else to do", pickupScenario},
	{onSQLite, "limited", "an API that counts strictly, three processes under one limit", limitedScenario},
	{onSQLite, "blocked", "1,000 free jobs behind 100,000 that wait for a limit", blockedScenario},
	{onSQLite, "keys", "100,000 keyed limits with a job each", keysScenario},
	{onSQLite, "fair", "eight processes on one file", fairScenario},
	{onSQLite, "run", "the command run on a file of calls", runScenario},

	{onPostgres, "pg-drain", "jobs that do nothing, 100 at once; with a limit; under a snapshot that stays open", pgDrainScenario},
	{onPostgres, "pg-enqueue", "enqueueing one by one and in batches", pgEnqueueScenario},
	{onPostgres, "pg-pickup", "from the enqueue call to the handler's start, nothing else to do", pgPickupScenario},
	{onPostgres, "pg-limited", "an API that counts strictly, three processes under one limit", pgLimitedScenario},
	{onPostgres, "pg-blocked", "1,000 free jobs behind 100,000 that wait for a limit", pgBlockedScenario},
	{onPostgres, "pg-million", "claims beside 1,000,000 blocked jobs", pgMillionScenario},
	{onPostgres, "pg-keys", "100,000 keyed limits with a job each", pgKeysScenario},
	{onPostgres, "pg-groups", "rows that a claim writes with 10,000 fairness groups on one limit", pgGroupsScenario},
	{onPostgres, "pg-wakes", "jobs enqueued by transactions that stay open for two seconds", pgWakesScenario},
	{onPostgres, "pg-fair", "eight processes under one limit of 1,000/s", pgFairScenario},
}

func main() {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(runChild(name))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	l := &lab{report: &report{Machine: machine(), At: time.Now().UTC().Truncate(time.Second)}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated scenarios, or sqlite or postgres for all of these; all if empty")
	asJSON := flags.Bool("json", false, "print JSON instead of a table")
	doc := flags.String("doc", "", "Markdown file in which the tables of what was run are replaced, between their marks")
	dir := flags.String("dir", "", "where databases are made, and the server's files; the system's directory for temporary files if empty")
	flags.IntVar(&l.rounds, "rounds", 3, "rounds of each measurement")
	flags.BoolVar(&l.quick, "quick", false, "one small round, to see that all works; its figures mean little")
	flags.StringVar(&l.profiles, "profiles", "", "directory for CPU profiles of Penstock's processes")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: go run . [flags]\n\n")
		flags.PrintDefaults()
		for i, s := range scenarios {
			if i == 0 || s.on != scenarios[i-1].on {
				fmt.Fprintf(flags.Output(), "\nscenarios on %s:\n", s.on)
			}
			fmt.Fprintf(flags.Output(), "  %-10s %s\n", s.name, s.about)
		}
		fmt.Fprintf(flags.Output(), "\nThose on PostgreSQL start a throwaway server from binaries that they find, with its default settings, or take\n"+
			"the one that %s names by the URL of a role that may create databases.\n", serverEnv)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if l.quick {
		l.rounds = 1
	}
	l.report.Rounds, l.report.Quick = l.rounds, l.quick
	if *dir != "" {
		if err := os.Setenv("TMPDIR", *dir); err != nil { // a throwaway server looks there
			return err
		}
	}
	if l.dir, err = os.MkdirTemp("", "penstock-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.report.Machine.probeDisk(l.dir); err != nil {
		return err
	}

	var failed []error
	for _, s := range chosen {
		l.on, l.scenario = s.on, s.name
		l.say("%s", s.about)
		if err := s.run(ctx, l); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			l.say("failed: %v", err)
		}
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(l.report)
	} else {
		err = l.report.writeMarkdown(os.Stdout)
	}
	if *doc != "" {
		err = errors.Join(err, l.report.replaceIn(*doc))
	}
	return errors.Join(append(failed, err)...)
}

// choose returns the scenarios of a comma-separated list.
func choose(list string) ([]scenario, error) {
	if list == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		known := false
		for _, s := range scenarios {
			if s.name == name || s.on == name {
				chosen, known = append(chosen, s), true
			}
		}
		if !known {
			return nil, fmt.Errorf("there is no scenario %q; see -help for their names", name)
		}
	}
	return chosen, nil
}
