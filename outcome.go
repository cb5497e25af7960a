package penstock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
)

type chargeOf = dispatch.Charge

// errExpired is why a start is not made whose job has expired.
var errExpired = errors.New("not started before its expiry")

// ending is all that the outcome of a start depends on. decide is pure: the
// clock and the dice are here, too.
type verdictOn struct {
	job      store.Claimed
	err      error // what the handler returned, or why it never began
	cause    error // why its context ended, if it did
	began    int64 // 0: the handler never began
	now      int64 // the store's clock
	local    time.Time
	policy   retry.Policy
	budget   time.Duration
	classify func(error) error               // the kind's classifier, or nil
	spec     func(string) (limit.Spec, bool) // of a limit
	passing  func(limit string) (at int64)   // when a call under the limit last passed
	random   float64
	private  bool
}

// verdict is the outcome of a start.
type verdict struct {
	store.Finish
	paused string // the limit that the outcome pauses
}

// decide turns what a handler returned into an outcome. See the table in its test.
func decide(v verdictOn) verdict {
	if v.private && (v.began != 0 || errors.Is(v.err, ErrCancelled)) {
		return verdict{Finish: store.Finish{Outcome: store.OutcomeDiscarded}}
	}
	if v.began == 0 {
		return neverBegan(v)
	}
	if v.err == nil {
		return verdict{Finish: store.Finish{Outcome: store.OutcomeDone, Passed: v.now}}
	}
	text := cleanText(v.err.Error())
	if errors.Is(v.cause, ErrCancelled) {
		return verdict{Finish: store.Finish{Outcome: store.OutcomeCancelled, Error: text}}
	}
	err := v.classified()
	var (
		doubt     *InDoubtError
		permanent *PermanentError
		limited   *RateLimitedError
		snooze    *SnoozeError
		again     *RetryError
	)
	switch {
	case errors.As(err, &doubt):
		return dead(store.InDoubt, text)
	case errors.As(err, &permanent):
		return dead(store.Rejected, text)
	case errors.As(err, &limited):
		return throttled(v, limited, text)
	case errors.As(err, &snooze):
		return verdict{Finish: store.Finish{Outcome: store.OutcomeSnoozed, At: later(v.now, snooze.Wait), Error: text, Passed: v.now}}
	case errors.Is(v.cause, ErrStopped), errors.Is(v.cause, ErrLeaseLost):
		// We broke it off: that says nothing about the job.
		return verdict{Finish: store.Finish{Outcome: store.OutcomeSnoozed, At: v.now, Error: cleanText(v.cause.Error() + ": " + v.err.Error())}}
	}
	attempts := v.job.Attempts + 1
	if v.policy.Exhausted(attempts) || retry.Classify(err) == retry.Permanent {
		if !v.policy.Exhausted(attempts) {
			return dead(store.Rejected, text)
		}
		return dead(store.Exhausted, text)
	}
	wait := v.policy.Delay(attempts, v.random)
	if errors.As(err, &again) {
		wait = again.Wait
	}
	return verdict{Finish: store.Finish{Outcome: store.OutcomeRetry, At: later(v.now, wait), Error: text}}
}

// neverBegan is the outcome of a start whose handler never began.
func neverBegan(v verdictOn) verdict {
	if errors.Is(v.err, errExpired) {
		return dead(store.Expired, cleanText(v.err.Error()))
	}
	// Of a cancelled job the store makes a cancelled one; its permits are given back.
	return verdict{Finish: store.Finish{Outcome: store.OutcomeReturned}}
}

// throttled is the outcome of a refusal: the limit is paused and the job keeps
// its place. Refused again, it also lets others go first, or a refusal that is
// about this job alone would hold up everybody for ever. If others pass, it
// waits alone: the limit is not paused for it any more.
func throttled(v verdictOn, e *RateLimitedError, text string) verdict {
	wait := e.Wait
	if !e.Until.IsZero() {
		wait = e.Until.Sub(v.local)
	}
	wait = min(max(wait, 0), maxPause)
	d := verdict{Finish: store.Finish{Outcome: store.OutcomeThrottled, Error: text, Pause: wait}}
	if since := v.job.ThrottledAt; since != 0 {
		spent := v.now - since - v.job.ThrottleSum
		if spent > v.budget.Microseconds() {
			d = dead(store.Throttled, text)
		}
	}
	named := e.Limit
	if named != "" {
		if _, declared := v.spec(named); !declared {
			d.Error = cleanText(fmt.Sprintf("%s (the refusal names the limit %q, which is not declared: the job's own is paused)", text, named))
			named = ""
		}
	}
	name, slot := v.refusing(named)
	again := v.job.RefusedRun > 0
	if d.Outcome == store.OutcomeThrottled && (again || name == "") {
		d.At = later(v.now, v.policy.DelayAtLeast(v.job.RefusedRun+1, wait, v.random))
	}
	if name == "" || again && v.passing(name) > v.job.RefusedAt {
		return d
	}
	o := limit.Observation{At: v.now, Slot: slot, Refused: true, Reason: firstLine(text)}
	if wait > 0 {
		o.RetryAt = later(v.now, wait)
	}
	d.Observations = []store.Observed{{Limit: name, Observation: o, Random: v.random}}
	d.paused = name
	return d
}

// maxPause caps what an API may ask for.
const maxPause = 24 * time.Hour

// refusing returns the limit that a refusal is about, with the slot it granted:
// the one that was named, else the first that has a rate, else the first.
func (v verdictOn) refusing(named string) (name string, slot int64) {
	slotOf := func(name string) int64 {
		for _, ch := range v.job.Charges {
			if ch.Limit == name {
				return ch.Slot
			}
		}
		return 0
	}
	if named != "" {
		return named, slotOf(named)
	}
	first := ""
	for _, d := range v.job.Draws {
		sp, ok := v.spec(d.Limit)
		if !ok {
			continue
		}
		if sp.HasRate() {
			return d.Limit, slotOf(d.Limit)
		}
		if first == "" && sp.InFlight == 0 {
			first = d.Limit
		}
	}
	return first, slotOf(first)
}

// classified asks the kind about errors that do not say themselves what is to
// happen.
func (v verdictOn) classified() error {
	if v.classify == nil || saysWhat(v.err) {
		return v.err
	}
	if mapped := v.classify(v.err); mapped != nil {
		return mapped
	}
	return v.err
}

func saysWhat(err error) bool {
	var (
		doubt     *InDoubtError
		permanent *PermanentError
		limited   *RateLimitedError
		snooze    *SnoozeError
		again     *RetryError
		unsent    *NotSentError
	)
	return errors.As(err, &doubt) || errors.As(err, &permanent) || errors.As(err, &limited) ||
		errors.As(err, &snooze) || errors.As(err, &again) || errors.As(err, &unsent)
}

func dead(r store.Reason, text string) verdict {
	return verdict{Finish: store.Finish{Outcome: store.OutcomeDead, Reason: r, Error: text}}
}

// later adds a duration to an instant without running over.
func later(at int64, d time.Duration) int64 { return at + max(d, 0).Microseconds() }

// decide gathers what the decision depends on, and adds to it what the API said is
// left.
func (w *worker) decide(s *start, began int64, err error) verdict {
	now := time.Now()
	v := s.verdictOn(w.life)
	v.err, v.cause, v.began = err, context.Cause(s.ctx), began
	v.now, v.local = w.c.clock.toStore(now), now
	v.policy, v.budget, v.classify = s.kind.policy(s.job.Job), s.kind.budget(s.job.Job), w.classifier(s.kind)
	v.passing = func(name string) int64 {
		info, err := w.st.Limit(w.life, name)
		if err != nil {
			return 0
		}
		return info.State.LastSuccess()
	}
	v.random, v.private = w.c.cfg.Random(), w.private
	d := decide(v)
	d.Observations = append(d.Observations, w.left(s, v, d)...)
	return d
}

// verdictOn is what is known of a start's limits.
func (s *start) verdictOn(ctx context.Context) verdictOn {
	return verdictOn{job: s.job, spec: func(name string) (limit.Spec, bool) { return s.w.c.specs.get(ctx, name) }}
}

// classifier is the kind's Classify, whose panic must not take the worker down.
func (w *worker) classifier(k *kindEntry) func(error) error {
	if k.Classify == nil {
		return nil
	}
	return func(err error) (mapped error) {
		defer func() {
			if v := recover(); v != nil {
				w.log.Error("Classify panicked: the error is taken as unknown", "kind", k.name, "panic", v)
				mapped = nil
			}
		}()
		return k.Classify(err)
	}
}

// maxText is how much of an error is stored.
const maxText = 4 << 10

// cleanText makes an error's text fit to be stored: valid UTF-8 without NUL, its
// middle left out where it is too long.
func cleanText(s string) string {
	if len(s) > maxText {
		const mark = " … "
		half := (maxText - len(mark)) / 2
		s = s[:half] + mark + s[len(s)-half:]
	}
	if utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// firstLine is the first line of a text, at most 200 bytes.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return firstLine(cleanText(err.Error()))
}
