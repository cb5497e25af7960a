// Command bench measures Penstock beside two other job systems on SQLite and
// beside what the same SQLite driver does without any job system.
//
// Every figure comes from a process of its own, on a database of its own. The
// systems take turns, round by round, so that a machine that slows down for a
// while slows all of them; ratios are taken within a round. The last output is
// one table in Markdown, or JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A scenario is one thing that is measured, in all rounds.
type scenario struct {
	name  string
	about string
	run   func(ctx context.Context, l *lab) error
}

// scenarios in the order in which they run.
var scenarios = []scenario{
	{"drain", "jobs that do nothing, 100 at once; with and without a limit; memory; floor", drainScenario},
	{"enqueue", "enqueueing one by one and in batches", enqueueScenario},
	{"pickup", "from the enqueue call to the handler's start, nothing else to do", pickupScenario},
	{"limited", "an API that counts strictly, three processes under one limit", limitedScenario},
	{"blocked", "1,000 free jobs behind 100,000 that wait for a limit", blockedScenario},
	{"keys", "100,000 keyed limits with a job each", keysScenario},
	{"fair", "eight processes on one file", fairScenario},
	{"run", "the command run on a file of calls", runScenario},
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
	only := flags.String("only", "", "comma-separated scenarios; all if empty")
	asJSON := flags.Bool("json", false, "print JSON instead of a table")
	doc := flags.String("doc", "", "Markdown file whose table between the marks is replaced, too")
	dir := flags.String("dir", "", "where databases are made; the system's directory for temporary files if empty")
	flags.IntVar(&l.rounds, "rounds", 3, "rounds of each measurement")
	flags.BoolVar(&l.quick, "quick", false, "one small round, to see that all works; its figures mean little")
	flags.StringVar(&l.profiles, "profiles", "", "directory for CPU profiles of Penstock's processes")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: go run . [flags]\n\n")
		flags.PrintDefaults()
		fmt.Fprintf(flags.Output(), "\nscenarios:\n")
		for _, s := range scenarios {
			fmt.Fprintf(flags.Output(), "  %-8s %s\n", s.name, s.about)
		}
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
	if l.dir, err = os.MkdirTemp(*dir, "penstock-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if err := l.report.Machine.probeDisk(l.dir); err != nil {
		return err
	}

	var failed []error
	for _, s := range chosen {
		l.scenario = s.name
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
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q; see -help for their names", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}
