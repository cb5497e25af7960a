package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/progress"
	"github.com/penstockhq/penstock/internal/cli/show"
)

// watch shows, on a terminal, how the work stands, until ctx ends.
func (w *labour) watch(ctx context.Context) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	waiting, counted := "", time.Time{}
	for {
		w.tally.take() // nobody writes results
		if w.screen.term != nil {
			if time.Since(counted) > countEvery {
				waiting = w.waiting(ctx)
				counted = time.Now()
			}
			width := w.screen.width()
			line := progress.Cut(w.line(waiting), width-1)
			w.screen.term.Draw([]string{line}, width)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// waiting says what is in line, if the store says so.
func (w *labour) waiting(ctx context.Context) string {
	queues, err := w.client.Store().Queues(ctx)
	if err != nil {
		return ""
	}
	due, later := int64(0), int64(0)
	for _, q := range queues {
		due, later = due+q.Due, later+q.Scheduled
	}
	text := ", " + show.Number(due) + " due"
	if later > 0 {
		text += ", " + show.Number(later) + " for later"
	}
	return text
}

func (w *labour) line(waiting string) string {
	t := w.tally.counts()
	text := fmt.Sprintf("%s, %s running%s; here: %s done", progress.Rate(w.tally.rate(w.begun, time.Now())),
		show.Number(t.running), waiting, show.Number(t.ended[penstock.Done]))
	text += t.more()
	if w.signal.stopped() {
		text += "; ending, running calls may finish"
	}
	return text
}

// more lists the counts that are not always there.
func (t *tallied) more() string {
	var b strings.Builder
	for _, part := range []struct {
		n    int64
		what string
	}{{t.ended[penstock.Dead], "dead"}, {t.ended[penstock.Cancelled], "cancelled"}, {t.retried, "failed and tried again"}, {t.refused, "refused"}} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %s %s", show.Number(part.n), part.what)
		}
	}
	return b.String()
}

// workReport is what --json prints: the work of this command.
type workReport struct {
	Done      int64   `json:"done"`
	Dead      int64   `json:"dead"`
	Cancelled int64   `json:"cancelled"`
	Starts    int64   `json:"starts"`
	Retried   int64   `json:"retried"`
	Refused   int64   `json:"refused"`
	Elapsed   float64 `json:"elapsed_seconds"`
	Rate      float64 `json:"rate"` // starts per second
}

// report says how it went, and gives the exit code.
func (w *labour) report(workErr error) error {
	elapsed := time.Since(w.begun)
	t := w.tally.counts()
	r := workReport{
		Done: t.ended[penstock.Done], Dead: t.ended[penstock.Dead], Cancelled: t.ended[penstock.Cancelled],
		Starts: t.starts, Retried: t.retried, Refused: t.refused, Elapsed: float64(elapsed.Milliseconds()) / 1000,
	}
	if r.Elapsed > 0 {
		r.Rate = float64(int64(float64(r.Starts)/r.Elapsed*1000+0.5)) / 1000
	}
	if w.plan.json {
		if err := show.NewLines(w.io.out).Print(r); err != nil {
			return failure(err)
		}
	}
	w.screen.say("%s, %s done%s, in %s", count(r.Starts, "start"), show.Number(r.Done), t.more(), show.Duration(elapsed))
	switch {
	case workErr != nil:
		return storeFailure(w.db, oneLineOf(workErr))
	case w.signal.stopped():
		return &exitError{Code: w.signal.code()}
	case w.plan.drain && r.Dead > 0:
		return &exitError{Code: exitFailed}
	}
	return nil
}
