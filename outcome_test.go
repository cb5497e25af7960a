package penstock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
)

const second = int64(time.Second / time.Microsecond)

// on is a decision about a start that began at 100 s and ended at 101 s, with
// draws on three limits: 5 in flight, 10/s and 20/s.
func on(err error) verdictOn {
	specs := map[string]string{"slots": "5 in flight", "rate": "10/s", "more": "20/s", "free": "unlimited"}
	return verdictOn{
		job: store.Claimed{
			Job: store.Job{ID: 1, LaneKey: store.LaneKey{Draws: []Draw{{Limit: "slots", Cost: 1}, {Limit: "rate", Cost: 1}, {Limit: "more", Cost: 2}}}},
			Charges: []dispatch.Charge{{Limit: "slots", Cost: 1, Slot: 99 * second}, {Limit: "rate", Cost: 1, Slot: 99 * second},
				{Limit: "more", Cost: 2, Slot: 99 * second}},
		},
		err: err, began: 100 * second, now: 101 * second, local: time.Unix(101, 0),
		policy: retry.Policy{Jitter: -1}, budget: 6 * time.Hour, random: 0.5,
		passing: func(string) int64 { return 0 },
		spec: func(name string) (limit.Spec, bool) {
			text, ok := specs[name]
			if !ok {
				return limit.Spec{}, false
			}
			sp, err := limit.Parse(text)
			return sp, err == nil
		},
	}
}

func TestOutcome(t *testing.T) {
	boom := errors.New("boom")
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name    string
		err     error
		change  func(v *verdictOn)
		outcome store.Outcome
		reason  store.Reason
		after   int64 // Finish.At less now, in seconds; -1: 0 is wanted
	}{
		{"success", nil, nil, store.OutcomeDone, "", -1},
		{"unknown error retries", boom, nil, store.OutcomeRetry, "", 1},
		{"second attempt waits longer", boom, func(v *verdictOn) { v.job.Attempts = 1 }, store.OutcomeRetry, "", 2},
		{"last attempt", boom, func(v *verdictOn) { v.job.Attempts = 4 }, store.OutcomeDead, store.Exhausted, -1},
		{"one attempt", boom, func(v *verdictOn) { v.policy.MaxAttempts = 1 }, store.OutcomeDead, store.Exhausted, -1},
		{"permanent", Permanent(boom), nil, store.OutcomeDead, store.Rejected, -1},
		{"permanent, wrapped", fmt.Errorf("send: %w", Permanent(boom)), nil, store.OutcomeDead, store.Rejected, -1},
		{"permanent on the last attempt", Permanent(boom), func(v *verdictOn) { v.job.Attempts = 4 }, store.OutcomeDead, store.Rejected, -1},
		{"permanent by its nature", errors.ErrUnsupported, nil, store.OutcomeDead, store.Rejected, -1},
		{"never began retries", dial, nil, store.OutcomeRetry, "", 1},
		{"not sent retries", NotSent(boom), nil, store.OutcomeRetry, "", 1},
		{"not sent and permanent", NotSent(Permanent(boom)), nil, store.OutcomeDead, store.Rejected, -1},
		{"retry in", RetryIn(7*time.Second, boom), nil, store.OutcomeRetry, "", 7},
		{"retry in, exhausted", RetryIn(7*time.Second, boom), func(v *verdictOn) { v.job.Attempts = 4 }, store.OutcomeDead, store.Exhausted, -1},
		{"retry in, negative is now", RetryIn(-time.Hour, boom), nil, store.OutcomeRetry, "", 0},
		{"snooze", Snooze(time.Minute), func(v *verdictOn) { v.job.Attempts = 4 }, store.OutcomeSnoozed, "", 60},
		{"in doubt", &InDoubtError{Key: "k", Err: boom}, nil, store.OutcomeDead, store.InDoubt, -1},
		{"rate limited keeps its place", RateLimited(time.Minute), func(v *verdictOn) { v.job.Attempts = 4 }, store.OutcomeThrottled, "", -1},
		{"rate limited, wrapped", fmt.Errorf("x: %w", RateLimited(0)), nil, store.OutcomeThrottled, "", -1},
		{"refused again while others pass", RateLimited(time.Minute), func(v *verdictOn) {
			v.job.RefusedRun, v.job.RefusedAt = 1, 50*second
			v.passing = func(string) int64 { return 60 * second }
			v.policy.Jitter = -1
		}, store.OutcomeThrottled, "", 60},
		{"refused again and nobody passes", RateLimited(time.Minute), func(v *verdictOn) { v.job.RefusedRun, v.job.RefusedAt = 1, 50*second }, store.OutcomeThrottled, "", 60},
		{"rate limited without a limit", RateLimited(time.Minute), func(v *verdictOn) { v.job.Draws = nil }, store.OutcomeThrottled, "", 60},
		{"only a pure in-flight limit", RateLimited(time.Minute), func(v *verdictOn) { v.job.Draws = v.job.Draws[:1] }, store.OutcomeThrottled, "", 60},
		{"throttle budget spent", RateLimited(0), func(v *verdictOn) { v.budget = 10 * time.Second; v.job.ThrottledAt = 90 * second }, store.OutcomeDead, store.Throttled, -1},
		{"announced pauses do not count", RateLimited(0), func(v *verdictOn) {
			v.budget, v.job.ThrottledAt, v.job.ThrottleSum = 10*time.Second, 90*second, 5*second
		}, store.OutcomeThrottled, "", -1},
		{"cancelled", boom, func(v *verdictOn) { v.cause = ErrCancelled }, store.OutcomeCancelled, "", -1},
		{"cancelled, rate limited", RateLimited(0), func(v *verdictOn) { v.cause = ErrCancelled }, store.OutcomeCancelled, "", -1},
		{"cancelled, but it succeeded", nil, func(v *verdictOn) { v.cause = ErrCancelled }, store.OutcomeDone, "", -1},
		{"stopped spends no attempt", context.Canceled, func(v *verdictOn) { v.cause, v.job.Attempts = ErrStopped, 4 }, store.OutcomeSnoozed, "", 0},
		{"lease nearly lost spends no attempt", context.Canceled, func(v *verdictOn) { v.cause, v.job.Attempts = ErrLeaseLost, 4 }, store.OutcomeSnoozed, "", 0},
		{"stopped, but permanent", Permanent(boom), func(v *verdictOn) { v.cause = ErrStopped }, store.OutcomeDead, store.Rejected, -1},
		{"panic", &PanicError{Value: "x"}, nil, store.OutcomeRetry, "", 1},
		{"classified permanent", boom, func(v *verdictOn) { v.classify = Permanent }, store.OutcomeDead, store.Rejected, -1},
		{"classified as nothing", boom, func(v *verdictOn) { v.classify = func(error) error { return nil } }, store.OutcomeRetry, "", 1},
		{"not classified when it says itself", Snooze(time.Second), func(v *verdictOn) { v.classify = Permanent }, store.OutcomeSnoozed, "", 1},
		{"never began", errNotBegun, func(v *verdictOn) { v.began = 0 }, store.OutcomeReturned, "", -1},
		{"cancelled before it began", ErrCancelled, func(v *verdictOn) { v.began = 0 }, store.OutcomeReturned, "", -1},
		{"expired before it began", errExpired, func(v *verdictOn) { v.began = 0 }, store.OutcomeDead, store.Expired, -1},
		{"permit", nil, func(v *verdictOn) { v.private = true }, store.OutcomeDiscarded, "", -1},
		{"permit not begun", errNotBegun, func(v *verdictOn) { v.private, v.began = true, 0 }, store.OutcomeReturned, "", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(tt.err)
			if tt.change != nil {
				tt.change(&v)
			}
			want := int64(0)
			if tt.after >= 0 {
				want = v.now + tt.after*second
			}
			d := decide(v)
			if d.Outcome != tt.outcome || d.Reason != tt.reason || d.At != want {
				t.Errorf("got %v %q at %d, want %v %q at %d", d.Outcome, d.Reason, d.At, tt.outcome, tt.reason, want)
			}
		})
	}
}

// Which limit a refusal pauses, and until when.
func TestOutcomeRefusedLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		draws  []string
		limit  string
		pause  time.Duration
		nobody bool
	}{
		{"first with a rate, stated", RateLimited(30 * time.Second), []string{"slots", "rate", "more"}, "rate", 30 * time.Second, false},
		{"not stated", RateLimited(0), []string{"slots", "rate"}, "rate", 0, false},
		{"order of naming", RateLimited(0), []string{"more", "rate"}, "more", 0, false},
		{"named", &RateLimitedError{Limit: "more", Wait: time.Second}, []string{"rate", "more"}, "more", time.Second, false},
		{"named, not drawn on", &RateLimitedError{Limit: "free"}, []string{"rate"}, "free", 0, false},
		{"no rate: the first not pure in flight", RateLimited(0), []string{"slots", "free"}, "free", 0, false},
		{"until", RateLimitedUntil(time.Unix(111, 0)), []string{"rate"}, "rate", 10 * time.Second, false},
		{"until the past is not stated", RateLimitedUntil(time.Unix(90, 0)), []string{"rate"}, "rate", 0, false},
		{"capped", RateLimited(1000 * time.Hour), []string{"rate"}, "rate", 24 * time.Hour, false},
		{"pure in flight", RateLimited(time.Second), []string{"slots"}, "", time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(tt.err)
			v.job.Draws = Draws(tt.draws...)
			d := decide(v)
			if d.Pause != tt.pause || d.paused != tt.limit {
				t.Errorf("pauses %q for %v, want %q for %v", d.paused, d.Pause, tt.limit, tt.pause)
			}
			if tt.nobody {
				if len(d.Observations) != 0 {
					t.Errorf("observed %+v", d.Observations)
				}
				return
			}
			if len(d.Observations) != 1 {
				t.Fatalf("observed %+v", d.Observations)
			}
			o, until := d.Observations[0], int64(0)
			if tt.pause > 0 {
				until = v.now + tt.pause.Microseconds()
			}
			if o.Limit != tt.limit || !o.Refused || o.RetryAt != until || o.At != v.now {
				t.Errorf("observed %+v, want a refusal of %q until %d", o, tt.limit, until)
			}
			if tt.limit != "free" && o.Slot != 99*second {
				t.Errorf("slot %d", o.Slot)
			}
		})
	}
}

// A success lets the guards of limits with rates shrink.
func TestOutcomeObservesSuccess(t *testing.T) {
	v := on(nil)
	if d := decide(v); d.Passed != v.now || len(d.Observations) != 0 {
		t.Errorf("passed at %d, observed %+v; want passed at %d", d.Passed, d.Observations, v.now)
	}
}

func TestCleanText(t *testing.T) {
	for name, in := range map[string]string{
		"NUL": "a\x00b", "broken UTF-8": "a\xff\xfeb", "megabytes": strings.Repeat("é", 1<<20), "NUL and long": strings.Repeat("\x00", 1<<20),
		"both ends kept": "begin" + strings.Repeat("x", 1<<20) + "end",
	} {
		out := cleanText(in)
		if strings.ContainsRune(out, 0) || strings.ToValidUTF8(out, "") != out || len(out) > 3*maxText {
			t.Errorf("%s: %d bytes, %.40q", name, len(out), out)
		}
		if name == "both ends kept" && (!strings.HasPrefix(out, "begin") || !strings.HasSuffix(out, "end")) {
			t.Errorf("%s: %.20q…", name, out)
		}
	}
	if got := cleanText("plain, ü"); got != "plain, ü" {
		t.Errorf("changed %q", got)
	}
}
