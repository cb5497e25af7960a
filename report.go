package penstock

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/penstockhq/penstock/store"
)

// ended tells everybody who wants to know that a start ended: the log, the hook
// of Work, and, for a dead letter, that of the client.
func (w *worker) ended(e *End) {
	if w.private {
		return
	}
	w.logEnd(e)
	if h := w.o.OnEnd; h != nil {
		w.guard("OnEnd", func() { h(e) })
	}
	if h := w.c.cfg.OnDead; h != nil && e.Recorded && e.State == store.Dead {
		if !w.addHook() {
			w.log.Error("OnDead was not called: the worker has ended its calls", "job", e.Job.ID)
			return
		}
		go w.tellDead(h, e.Job.ID)
	}
}

// addHook counts one more call of OnDead, unless those that are made are awaited already.
func (w *worker) addHook() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.hooksOver {
		w.hooks.Add(1)
	}
	return !w.hooksOver
}

// endedInVain tells OnEnd of a start whose outcome is not stored, since its
// lease is lost.
func (w *worker) endedInVain(s *start, began int64, err error) {
	h := w.o.OnEnd
	if h == nil || w.private {
		return
	}
	end := &End{Job: s.job.Job, Outcome: store.OutcomeLost, Error: oneLine(err), Ended: time.Now()}
	if began != 0 {
		end.Started = s.beganAt
	}
	w.guard("OnEnd", func() { h(end) })
}

// guard calls a hook, whose panic must not take the worker down.
func (w *worker) guard(name string, hook func()) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error("a hook panicked", "hook", name, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	hook()
}

// logEnd writes the one line per ended start.
func (w *worker) logEnd(e *End) {
	level := slog.LevelInfo
	switch e.Outcome {
	case store.OutcomeReturned:
		level = slog.LevelDebug
	case store.OutcomeRetry, store.OutcomeDead:
		level = slog.LevelWarn
	}
	if e.Swallowed != "" {
		level = slog.LevelWarn
	}
	if !w.log.Enabled(w.life, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("kind", e.Job.Kind), slog.Int64("job", e.Job.ID), slog.Int("start", e.Job.Starts),
		slog.String("outcome", e.Outcome.String()))
	if !e.Started.IsZero() {
		attrs = append(attrs, slog.Duration("took", e.Ended.Sub(e.Started)))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", string(e.Reason)))
	}
	if !e.NextAt.IsZero() {
		attrs = append(attrs, slog.Time("next", e.NextAt))
	}
	if e.Error != "" {
		attrs = append(attrs, slog.String("error", firstLine(e.Error)))
	}
	if e.Swallowed != "" {
		attrs = append(attrs, slog.String("swallowed", e.Swallowed))
	}
	w.log.LogAttrs(w.life, level, "start ended", attrs...)
}

// tellDead calls the dead-letter hook with the job as it is stored now. At most
// a few run at a time.
func (w *worker) tellDead(hook func(context.Context, JobInfo), id int64) {
	defer w.hooks.Done()
	select {
	case w.hookRoom <- struct{}{}:
	case <-w.telling.Done():
		w.log.Error("OnDead was not called: the worker ended while earlier calls of it were under way", "job", id)
		return
	}
	defer func() { <-w.hookRoom }()
	ctx, cancel := context.WithTimeout(w.telling, time.Minute)
	defer cancel()
	job, err := w.st.Job(ctx, id)
	if err != nil {
		w.log.Error("OnDead was not called: the dead job could not be read", "job", id, "error", err)
		return
	}
	w.guard("OnDead", func() { hook(ctx, job) })
}

// awaitHooks lets the calls of OnDead end: for as long as handlers get, and a
// little longer once their context has ended. One that ignores that is left.
func (w *worker) awaitHooks() {
	w.mu.Lock()
	w.hooksOver = true
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() { w.hooks.Wait(); close(ended) }()
	for _, patience := range []time.Duration{w.grace(), lastGrace} {
		if within(ended, patience) {
			return
		}
		w.stopTelling()
	}
	w.log.Error("OnDead ignores that its context has ended: the worker ends without it", "calls", len(w.hookRoom))
}

// within says whether done is closed before d has passed.
func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
