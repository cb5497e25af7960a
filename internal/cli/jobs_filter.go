package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// jobFilter are the options that select jobs.
type jobFilter struct {
	states               []string
	queue, kind, limit   string
	run, reason, text    string
	olderThan, newerThan age
}

// add gives a command the options, all but the state.
func (f *jobFilter) add(o *pflag.FlagSet) {
	o.Var((*filled)(&f.queue), "queue", "only jobs of this `queue`")
	o.Var((*filled)(&f.kind), "kind", "only jobs of this `kind`, such as http")
	o.Var((*filled)(&f.limit), "limit", "only jobs that draw on the limit of this `name`; NAME/* is all its keys")
	o.Var((*filled)(&f.run), "run", "only calls of this `run`")
	o.Var((*filled)(&f.text), "text", "only jobs whose last error holds this `text`")
	o.Var(&f.olderThan, "older-than", "only jobs that ended (or, not ended, came in) longer ago than this `age`, such as 90s, 2h or 7d")
	o.Var(&f.newerThan, "newer-than", "only jobs that ended (or, not ended, came in) within this `age`")
}

// addPage gives a command that lists jobs the options for its pages.
func (f *jobsFlags) addPage(o *pflag.FlagSet) {
	o.BoolVar(&f.newest, "newest", false, "the newest first")
	o.Int64Var(&f.after, "after", 0, "only jobs with an `id` above this one: the next page")
	o.Int64Var(&f.before, "before", 0, "only jobs with an `id` below this one: the next page of --newest")
	o.IntVarP(&f.n, "n", "n", 100, "at most so many jobs")
}

// empty says that nothing was asked for.
func (f *jobFilter) empty() bool {
	return len(f.states) == 0 && f.queue+f.kind+f.limit+f.run+f.reason+f.text == "" && f.olderThan == 0 && f.newerThan == 0
}

var deadReasons = []string{"exhausted", "rejected", "throttled", "expired", "lost", "in_doubt"}

// filter is the store's form of the options, at an instant of its clock.
func (f *jobFilter) filter(now int64) (penstock.Filter, error) {
	out := penstock.Filter{Queue: f.queue, Kind: f.kind, Limit: f.limit, Run: f.run, Text: f.text, Reason: penstock.Reason(f.reason)}
	for _, name := range f.states {
		s, err := store.ParseState(name)
		if err != nil {
			return out, usagef("--state: %v", err)
		}
		out.States = append(out.States, s)
	}
	if f.reason != "" {
		known := false
		for _, r := range deadReasons {
			known = known || r == f.reason
		}
		if !known {
			return out, usagef("--reason: expected one of %s, got %q", strings.Join(deadReasons, ", "), f.reason)
		}
	}
	if f.olderThan > 0 {
		out.Before = now - time.Duration(f.olderThan).Microseconds()
	}
	if f.newerThan > 0 {
		out.After = now - time.Duration(f.newerThan).Microseconds()
	}
	if f.olderThan > 0 && f.newerThan > 0 && out.After >= out.Before {
		return out, usagef("--older-than %s and --newer-than %s leave nothing: older-than must be the shorter one", &f.olderThan, &f.newerThan)
	}
	return out, nil
}

// age is a duration that may have days.
type age time.Duration

// String implements pflag.Value.
func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type implements pflag.Value.
func (a *age) Type() string { return "age" }

// Set implements pflag.Value: a duration of Go, with days before it.
func (a *age) Set(text string) error {
	rest, days := text, 0.0
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || !(n >= 0 && n < 100_000) {
			return badAge(text)
		}
		rest, days = after, n
	}
	d := time.Duration(days * float64(24*time.Hour))
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil {
			return badAge(text)
		}
		d += more
	}
	if d <= 0 {
		return badAge(text)
	}
	*a = age(d)
	return nil
}

func badAge(text string) error {
	return fmt.Errorf("expected an age above 0 such as 90s, 2h or 7d, got %q", text)
}

// checkIDs refuses what can be no name of a job: an id, or RUN/CALL-ID.
func checkIDs(args []string) error {
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if (err != nil || id < 1) && len(splitCall(arg)) == 0 {
			return usagef("expected the id of a job, a number, or RUN/CALL-ID, got %q", arg)
		}
	}
	return nil
}

// splitCall splits RUN/CALL-ID. Both names may hold slashes, so there can be
// several ways.
func splitCall(arg string) (ways [][2]string) {
	for i, r := range arg {
		if r == '/' && i > 0 && i+1 < len(arg) {
			ways = append(ways, [2]string{arg[:i], arg[i+1:]})
		}
	}
	return ways
}

// findIDs returns the ids of the jobs that are named, each once. A number may be
// that of no job; a call must be there.
func findIDs(ctx context.Context, c *penstock.Client, args []string) ([]int64, error) {
	ids := make([]int64, 0, len(args))
	seen := map[int64]bool{}
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			j, err := findJob(ctx, c, "", arg)
			if err != nil {
				return nil, err
			}
			id = j.ID
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
