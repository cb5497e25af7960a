package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/progress"
)

// runReport is what --json prints.
type runReport struct {
	Run       string  `json:"run"`
	Total     int64   `json:"total"` // calls of the run
	Done      int64   `json:"done"`
	Dead      int64   `json:"dead"`
	Cancelled int64   `json:"cancelled"`
	Invalid   int64   `json:"invalid"` // lines left out
	Pruned    int64   `json:"pruned"`  // calls of the file that ended before and are not kept
	Starts    int64   `json:"starts"`  // of this command, as all that follows
	Refused   int64   `json:"refused"`
	Elapsed   float64 `json:"elapsed_seconds"`
	Rate      float64 `json:"rate"` // starts per second

	open int64 // calls that have not ended
}

// report writes the last results, says how it went, and gives the exit code.
func (r *runner) report(ctx context.Context, workErr error) error {
	elapsed := time.Since(r.working)
	if errors.Is(workErr, errGaveUp) {
		return r.storeEnd(workErr) // it would only wait for the store again
	}
	outErr := r.finishResults(ctx)
	counts, err := r.client.Store().CountRun(ctx, r.plan.run)
	if err != nil {
		return r.storeEnd(errors.Join(workErr, err))
	}
	t := r.tally.counts()
	rep := runReport{
		Run: r.plan.run, Done: counts[penstock.Done], Dead: counts[penstock.Dead], Cancelled: counts[penstock.Cancelled],
		Invalid: r.loader.bad.n, Pruned: r.loader.stager.gone, Starts: t.starts, Refused: t.refused,
		Elapsed: float64(elapsed.Milliseconds()) / 1000,
		open:    counts[penstock.Waiting] + counts[penstock.Running],
	}
	rep.Total = rep.Done + rep.Dead + rep.Cancelled + rep.open
	if rep.Elapsed > 0 {
		rep.Rate = float64(int64(float64(rep.Starts)/rep.Elapsed*1000+0.5)) / 1000
	}
	if r.plan.json {
		line, err := json.Marshal(rep)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(r.io.out, "%s\n", line); err != nil {
			return failure(err)
		}
	}
	r.screen.say("%s", rep.text(r.signal.stopped()))
	switch {
	case workErr != nil:
		return r.storeEnd(workErr)
	case outErr != nil:
		return r.outFailure(outErr)
	case r.signal.stopped():
		return &exitError{Code: r.signal.code()}
	case rep.Done < rep.Total || rep.Invalid > 0:
		return &exitError{Code: exitFailed}
	}
	return nil
}

// finishResults brings the file of results up to date. It is not hurried by a
// signal: what is missing would only be written by the next run.
func (r *runner) finishResults(ctx context.Context) error {
	if r.out == nil {
		return nil
	}
	return r.out.Finish(ctx)
}

// storeEnd is for a store that failed while calls were made.
func (r *runner) storeEnd(err error) error {
	return storeFailure(r.plan.db, oneLineOf(err))
}

// text is the report for people.
func (rep *runReport) text(interrupted bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s done", rep.Run, progress.Digits(rep.Done), count(rep.Total, "call"))
	for _, part := range []struct {
		n    int64
		what string
	}{{rep.Dead, "dead"}, {rep.Cancelled, "cancelled"}, {rep.open, "to do"}, {rep.Invalid, "invalid lines left out"},
		{rep.Pruned, "ended before and pruned since"}} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %s %s", progress.Digits(part.n), part.what)
		}
	}
	if rep.Starts == 0 {
		b.WriteString("; nothing was called")
	} else {
		fmt.Fprintf(&b, "; %s in %s (%s), %s refused", count(rep.Starts, "start"),
			progress.Duration(time.Duration(rep.Elapsed*float64(time.Second))), progress.Rate(rep.Rate), progress.Digits(rep.Refused))
	}
	if interrupted && rep.open > 0 {
		b.WriteString("; interrupted, the same command goes on")
	}
	return b.String()
}
