package limit

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulated is what a strict API saw of a client that keeps a limit, in
// virtual time.
type simulated struct {
	calls, refused int
	elapsed        Instant // from the first slot to the last
	pauses         Instant // time that the API asked to wait
	guard          time.Duration
	maxBytes       int
	slots, arrived []Instant // of the calls, and of those that were accepted
	told           int       // answers whose word on what is left mattered
	over           int       // slots too many in the window before them, by the spec of their time
}

// between is how many of these, in ascending order, are from and before.
func between(all []Instant, from, before Instant) int {
	i, _ := slices.BinarySearch(all, from)
	j, _ := slices.BinarySearch(all, before)
	return j - i
}

// throughput is the accepted rate as a part of the limit, with the pauses that
// the API announced taken out of the time.
func (r simulated) throughput(n int64, w time.Duration) float64 {
	return float64(r.calls-r.refused) / (float64(r.elapsed-r.pauses) / float64(micros(w))) / float64(n)
}

type arrival struct {
	at, slot Instant
	response bool
	refused  bool
	retryAt  Instant
	said     Observation // what the answer says is left
}

type arrivals []arrival

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i].at < a[j].at }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// strict is an API that lets n calls arrive in any window of w, or, if fixed,
// in each of its own.
type strict struct {
	n      int64
	w      time.Duration
	fixed  bool
	bucket float64                  // above 0: a bucket of so many permits, refilled at n per w, instead (GCRA is one, too)
	travel func(*rand.Rand) Instant // from the start of a call to its arrival
	says   bool                     // each answer says how many calls are left, and when the window is over,
	unit   Instant                  // rounded up to this
	others Instant                  // above 0: a call of somebody else arrives every so often, on average
	newest bool                     // the reset of a sliding window is when it is empty, not when its oldest call leaves
	answer Instant                  // from the arrival to the answer; 0: 10 ms
}

// left is what the API says when so much of its window is used.
func (api *strict) left(used int, at, over Instant) Observation {
	if !api.says {
		return Observation{}
	}
	d := over - at
	if u := max(api.unit, 1); d%u != 0 {
		d += u - d%u
	}
	return Observation{LeftKnown: true, Left: api.n - int64(used), Whole: api.n, ResetAt: d}
}

// exponential travel takes 20 ms plus jitter of 10 ms on average.
func exponential(rnd *rand.Rand) Instant { return Instant(20_000 + rnd.ExpFloat64()*10_000) }

// jittery travel takes so long, plus jitter of a tenth of it on average.
func jittery(d Instant) func(*rand.Rand) Instant {
	return func(rnd *rand.Rand) Instant { return d + Instant(rnd.ExpFloat64()*min(float64(d)/10, 10_000)) }
}

// distant travel has thirty calls under way at 100 a second.
func distant(rnd *rand.Rand) Instant { return Instant(300_000 + rnd.ExpFloat64()*10_000) }

// setting is a spec that somebody sets at an instant.
type setting struct {
	at   Instant
	spec string
}

// simStart is when simulations begin.
const simStart = Instant(1_700_000_000_000_000)

// simulate sends calls as fast as the spec lets it, until so many are accepted. Each starts up to 2 ms
// after its slot. The state goes through its stored form now and then, as it
// would in a store.
func simulate(t *testing.T, spec string, api strict, calls int, seed uint64, later ...setting) simulated {
	sp := mustParse(t, spec)
	rnd := rand.New(rand.NewPCG(seed, seed))
	strangers := rand.New(rand.NewPCG(seed, ^seed))
	t.Logf("%s, seed %d", spec, seed)
	var s State
	var r simulated
	var events arrivals
	var window []Instant // accepted arrivals at the API
	level, filled := api.bucket, Instant(0)
	now, other := simStart, simStart
	for r.calls-r.refused < calls || len(events) > 0 {
		at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
		if r.calls-r.refused >= calls {
			at = Never
		}
		next := at
		if len(events) > 0 {
			next = min(next, events[0].at)
		}
		if len(later) > 0 && next >= later[0].at {
			now, sp = max(now, later[0].at), mustParse(t, later[0].spec)
			later = later[1:]
			continue
		}
		if len(events) > 0 && events[0].at <= at {
			e := heap.Pop(&events).(arrival)
			now = max(now, e.at)
			if e.response {
				o := e.said
				o.At, o.Slot, o.Refused, o.RetryAt = now, e.slot, e.refused, e.retryAt
				if o.ResetAt != 0 { // the client counts from the answer on
					o.ResetAt += now
				}
				if !o.Matters(sp) {
					o.LeftKnown = false
				} else if o.LeftKnown {
					r.told++
				}
				s.Observe(sp, o, rnd.Float64())
				s.Release(sp, 1, e.slot, now, false)
				continue
			}
			w := micros(api.w)
			since := e.at - w // arrivals up to here do not count any more
			if api.fixed {
				since = e.at - e.at%w - 1
			}
			for len(window) > 0 && window[0] <= since {
				window = window[1:]
			}
			back := arrival{at: e.at + max(api.answer, 10_000), slot: e.slot, response: true}
			if api.bucket > 0 {
				perPermit := float64(w) / float64(api.n)
				level = min(api.bucket, level+float64(e.at-filled)/perPermit)
				if filled = e.at; level >= 1 {
					level--
				} else {
					r.refused++
					back.refused = true
					back.retryAt = e.at + Instant((1-level)*perPermit) + 1
					r.pauses += max(0, back.retryAt-back.at)
				}
				if api.says {
					back.said = api.left(int(api.n)-int(level), e.at, e.at+Instant((api.bucket-level)*perPermit))
					back.said.Whole = int64(api.bucket)
				}
				heap.Push(&events, back)
				continue
			}
			for api.others > 0 && other <= e.at { // somebody else's, in between
				if other > since && int64(len(window)) < api.n {
					window = append(window, other)
				}
				other += Instant(strangers.ExpFloat64() * float64(api.others))
			}
			if int64(len(window)) >= api.n {
				r.refused++
				back.refused = true
				back.retryAt = window[0] + w
				if api.fixed {
					back.retryAt = since + 1 + w
				}
				r.pauses += max(0, back.retryAt-back.at)
			} else {
				window = append(window, e.at)
				r.arrived = append(r.arrived, e.at)
			}
			over := window[0] + w
			if api.newest {
				over = window[len(window)-1] + w
			}
			if api.fixed {
				over = since + 1 + w
			}
			back.said = api.left(len(window), e.at, over)
			heap.Push(&events, back)
			continue
		}
		now = max(now, at)
		s.Take(sp, Ask{Cost: 1}, at)
		r.calls++
		r.elapsed = at - simStart
		n, w := sp.guarded()
		if r.slots = append(r.slots, at); int64(between(r.slots, at-w+1, at+1)) > n {
			r.over++
		}
		heap.Push(&events, arrival{at: at + Instant(rnd.IntN(2000)) + api.travel(rnd), slot: at})
		if r.calls%50 == 0 {
			b, _ := s.MarshalBinary()
			r.maxBytes = max(r.maxBytes, len(b))
			s = State{}
			if err := s.UnmarshalBinary(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.InFlight() != 0 {
		t.Errorf("%d calls left in flight", s.InFlight())
	}
	r.guard = s.Guard(sp)
	return r
}

func TestThroughputAgainstAStrictWindow(t *testing.T) {
	for _, c := range []struct {
		spec       string
		n          int64
		w          time.Duration
		calls      int
		refused    float64 // at most
		throughput float64 // at least
	}{
		{"5/s", 5, time.Second, 20000, 0.01, 0.93},
		{"50/s", 50, time.Second, 20000, 0.003, 0.93},
		{"1000/s", 1000, time.Second, 20000, 0.003, 0.93},
		{"1000/s", 1000, time.Second, 200000, 0.003, 0.95},
		{"100/m", 100, time.Minute, 2000, 0.003, 0.95},
	} {
		t.Run(c.spec, func(t *testing.T) {
			r := simulate(t, c.spec, strict{n: c.n, w: c.w, travel: exponential}, c.calls, 1)
			refused, throughput := float64(r.refused)/float64(r.calls), r.throughput(c.n, c.w)
			t.Logf("%d calls: %.3f %% refused, %.1f %% of the limit, guard %v, at most %d bytes stored", r.calls, 100*refused, 100*throughput, r.guard, r.maxBytes)
			if refused > c.refused {
				t.Errorf("refused %.3f %%, want at most %.3f %%", 100*refused, 100*c.refused)
			}
			if throughput < c.throughput {
				t.Errorf("throughput %.1f %%, want at least %.1f %%", 100*throughput, 100*c.throughput)
			}
		})
	}
}

// APIs that count with a bucket: of the whole limit, or (GCRA) of a tenth of it.
func TestThroughputAgainstBuckets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bucket float64
	}{{"token bucket of N", 50}, {"GCRA, burst N/10", 5}} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 10; seed++ {
				r := simulate(t, "50/s", strict{n: 50, w: time.Second, bucket: tt.bucket, travel: exponential}, 1500, seed)
				refused, through := 100*float64(r.refused)/float64(r.calls), 100*r.throughput(50, time.Second)
				t.Logf("%.2f %% refused, %.1f %% of the limit, guard %v", refused, through, r.guard)
				if refused > 0.2 || through < 94 {
					t.Errorf("%.2f %% refused at %.1f %% of the limit, want at most 0.2 %% at 94 %%", refused, through)
				}
			}
		})
	}
}

// C10: calls are paced by local send time while the vendor counts arrivals on
// its own clock (discord/discord-api-docs#5144, #2132). Fixed windows of a
// second, 2 s and a bit off ours, limit 50, random delay up to 250 ms: the
// guard learns to cover it.
func TestC10_JitterIsLearned(t *testing.T) {
	travel := func(rnd *rand.Rand) Instant { return 2_300_000 + rnd.Int64N(250_000) }
	for _, calls := range []int{1000, 20000} {
		r := simulate(t, "50/s", strict{n: 50, w: time.Second, fixed: true, travel: travel}, calls, 1)
		refused := float64(r.refused) / float64(r.calls)
		t.Logf("%d calls: %.2f %% refused, %.1f %% of the limit, guard %v", r.calls, 100*refused, 100*r.throughput(50, time.Second), r.guard)
		if refused > 0.02 {
			t.Errorf("refused %.2f %%, want at most 2 %%", 100*refused)
		}
	}
}

// An API takes fewer calls than is configured, or somebody else calls it, too, and
// says in each answer what is left: then it hardly ever has to refuse.
func TestWhatIsLeftPreventsRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		spec    string
		api     strict
		calls   int
		refused float64 // of those refused without the headers, at most
		through float64 // of the API's limit, at least
	}{
		{"10/s configured, 6/s true", "10/s", strict{n: 6, w: time.Second}, 600, 0.1, 0.6},
		{"10/s configured, 6/s true, fixed", "10/s", strict{n: 6, w: time.Second, fixed: true}, 600, 0.1, 0.6},
		// Of a window as short as its reset is coarse nothing can be learned.
		{"10/s configured, 6/s true, fixed, whole seconds", "10/s", strict{n: 6, w: time.Second, fixed: true, unit: second}, 600, 1, 0.9},
		{"100/m configured, 60/m true, fixed", "100/m", strict{n: 60, w: time.Minute, fixed: true, unit: second}, 600, 0.1, 0.8},
		{"10/s configured, 1000/h, too", "10/s", strict{n: 1000, w: time.Hour, fixed: true, unit: second}, 4000, 0.1, 0.8},
		{"200/m, another program takes 80", "200/m", strict{n: 200, w: time.Minute, fixed: true, unit: second, others: minute / 80}, 2000, 0.4, 0.55},
		{"100/s configured, 200/10s true, far away", "100/s", strict{n: 200, w: 10 * time.Second, fixed: true, travel: distant}, 4000, 0.1, 0.8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.api.travel == nil {
				tt.api.travel = exponential
			}
			without := simulate(t, tt.spec, tt.api, tt.calls, 1)
			tt.api.says = true
			with := simulate(t, tt.spec, tt.api, tt.calls, 1)
			through := float64(with.calls-with.refused) / (float64(with.elapsed) / float64(micros(tt.api.w))) / float64(tt.api.n)
			before := float64(without.calls-without.refused) / (float64(without.elapsed) / float64(micros(tt.api.w))) / float64(tt.api.n)
			t.Logf("%d of %d calls refused at %.0f %% of the limit, %d without what is left, at %.0f %%; %d answers mattered", with.refused, with.calls, 100*through, without.refused, 100*before, with.told)
			if float64(with.refused) > tt.refused*float64(without.refused) || without.refused == 0 {
				t.Errorf("%d refused, %d without what is left", with.refused, without.refused)
			}
			if through < tt.through {
				t.Errorf("%.2f of the limit, want %.2f", through, tt.through)
			}
		})
	}
}

// An API that always says "none left, come in a second" and lets each call through is
// slowed down a little, not stopped.
func TestABucketOfOneIsNotStopped(t *testing.T) {
	api := strict{n: 10, w: time.Second, bucket: 1, unit: second, travel: exponential}
	without := simulate(t, "10/s", api, 3000, 1)
	api.says = true
	with := simulate(t, "10/s", api, 3000, 1)
	slower := float64(with.elapsed)/float64(without.elapsed) - 1
	t.Logf("%.0f %% slower; %d and %d refused", 100*slower, with.refused, without.refused)
	if slower > 0.5 || with.refused > 0 {
		t.Errorf("%.2f slower, %d refused", slower, with.refused)
	}
}

// Where the limit is right and nobody else's, what the API says changes nothing.
func TestWhatIsLeftCostsNothingWhereTheSpecIsRight(t *testing.T) {
	for _, tt := range []struct {
		spec string
		api  strict
	}{
		{"50/s", strict{n: 50, w: time.Second, fixed: true, unit: second}},
		{"50/s", strict{n: 50, w: time.Second, fixed: true}},
		{"5/s", strict{n: 5, w: time.Second, fixed: true, unit: second}},
		{"1000/s", strict{n: 1000, w: time.Second, unit: second}},
		{"50/s", strict{n: 50, w: time.Second}},
		{"5/s", strict{n: 5, w: time.Second}},
		{"100/m", strict{n: 100, w: time.Minute, fixed: true, unit: second}},
		{"50/s", strict{n: 50, w: time.Second, bucket: 50, unit: second}},
		{"50/s", strict{n: 50, w: time.Second, bucket: 5, unit: second}},
		{"50/s", strict{n: 50, w: time.Second, bucket: 5}},
		{"50/s", strict{n: 50, w: time.Second, bucket: 5, unit: second, travel: distant}},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			if tt.api.travel == nil {
				tt.api.travel = exponential
			}
			without := simulate(t, tt.spec, tt.api, 3000, 1)
			tt.api.says = true
			with := simulate(t, tt.spec, tt.api, 3000, 1)
			slower := float64(with.elapsed)/float64(without.elapsed) - 1
			t.Logf("%.2f %% slower; %d answers mattered; %d and %d refused", 100*slower, with.told, with.refused, without.refused)
			if slower > 0.02 || with.told > 60 {
				t.Errorf("%.2f %% slower, %d of 3000 answers mattered", 100*slower, with.told)
			}
		})
	}
}
