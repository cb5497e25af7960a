package cli

import (
	"context"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/progress"
	"github.com/penstockhq/penstock/internal/cli/show"
)

const (
	limitsShown = 20                     // limits that are looked at for the display
	limitsEvery = 500 * time.Millisecond // how often
	countEvery  = 2 * time.Second        // how often the run is counted, at most
	countShare  = 20                     // counting may take one part in so many of the time
)

// watcher follows a run while it works, and shows how it stands.
type watcher struct {
	r      *runner
	counts map[penstock.State]int64 // of the last count
	base   [penstock.Cancelled + 1]int64
	next   time.Time // when to count again

	limits []penstock.LimitInfo
}

// watch runs until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	var looked time.Time
	for {
		now := time.Now()
		if now.Sub(looked) >= limitsEvery {
			looked = now
			w.lookAtLimits(ctx)
		}
		if now.After(w.next) {
			w.count(ctx)
		}
		snap := w.snapshot(time.Now())
		w.r.screen.show(&snap)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// count counts the run in the store, where other processes may work on it, too.
// Between counts the ends in this process are added.
func (w *watcher) count(ctx context.Context) {
	begun := time.Now()
	ended := w.r.tally.counts().ended
	counts, err := w.r.client.Store().CountRun(ctx, w.r.plan.run)
	took := time.Since(begun)
	w.next = time.Now().Add(max(countEvery, countShare*took))
	if err == nil {
		w.counts, w.base = counts, ended
	}
}

func (w *watcher) lookAtLimits(ctx context.Context) {
	var infos []penstock.LimitInfo
	for _, name := range w.r.loader.limits.names(limitsShown) {
		if info, err := w.r.client.LimitByName(ctx, name); err == nil {
			infos = append(infos, info)
		}
	}
	w.limits = infos
}

// snapshot is how the run stands now.
func (w *watcher) snapshot(now time.Time) progress.Snapshot {
	t := w.r.tally.counts()
	of := func(s penstock.State) int64 { return w.counts[s] + t.ended[s] - w.base[s] }
	s := progress.Snapshot{
		Run: w.r.plan.run, Done: of(penstock.Done), Dead: of(penstock.Dead), Cancelled: of(penstock.Cancelled),
		Running: t.running, Refused: t.refused, Retried: t.retried,
		Rate:     w.r.tally.rate(w.r.working, now),
		Stopping: w.r.signal.stopped(),
	}
	for _, n := range w.counts {
		s.Total += n
	}
	s.Total = max(s.Total, s.Ended())
	s.Waiting = max(s.Total-s.Ended()-s.Running, 0)
	s.Limit = w.theLimit()
	paused := w.paused(now)
	if s.Why = paused; paused == "" {
		s.Why = w.atLimit(&s)
	}
	if s.Why == "" && t.failure != "" {
		s.Why = "last failure: " + t.failure
	}
	if s.Why == "" && s.Waiting > 0 && s.Running == 0 && s.Rate == 0 {
		s.Why = "no call is due yet, or each waits for its limit"
	}
	if trouble := w.r.health.trouble(now); trouble != "" {
		s.Why = trouble
	}
	if s.Rate > 0 && s.Waiting > 0 && paused == "" {
		s.Left = time.Duration(float64(s.Total-s.Ended()) / s.Rate * float64(time.Second))
	}
	return s
}

// paused says which limit is paused, for how long and by whom; "" if none is.
func (w *watcher) paused(now time.Time) string {
	for i := range w.limits {
		l := &w.limits[i]
		pauses := pausesOf(l, penstock.Micros(now))
		if len(pauses) == 0 {
			continue
		}
		p := pauses[0]
		text := l.Name + " is paused"
		switch p.By {
		case "person":
			text += " by a person"
		case "api":
			text += " by the API"
		}
		if p.Until < never {
			text += " for " + progress.Duration(show.Between(penstock.Micros(now), int64(p.Until)))
		}
		if p.By == "person" && p.Reason != "" {
			text += " (" + p.Reason + ")"
		}
		return text
	}
	return ""
}

// atLimit says whether the run's only limit is what holds it back.
func (w *watcher) atLimit(s *progress.Snapshot) string {
	if len(w.limits) != 1 || s.Waiting == 0 {
		return ""
	}
	l := &w.limits[0]
	full := l.Spec.InFlight > 0 && l.State.InFlight() >= l.Spec.InFlight
	if full || atPace(s.Rate, l.Spec.PerSecond()) {
		return "at the limit"
	}
	return ""
}

// theLimit is the limit to hold the rate against; "" if there are several, or
// none.
func (w *watcher) theLimit() string {
	if len(w.limits) != 1 {
		return ""
	}
	if spec := w.limits[0].Spec; spec.HasRate() || spec.InFlight > 0 {
		return spec.String()
	}
	return ""
}

// atPace says whether calls start about as fast as the limit lets them.
func atPace(rate, limit float64) bool { return limit > 0 && rate >= 0.8*limit }

// oneLineOf keeps an error's identity and writes its text on one line.
func oneLineOf(err error) error { return textError{oneLine(err).Error(), err} }

type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }
