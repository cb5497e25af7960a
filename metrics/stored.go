package metrics

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// stored reads the store and writes what it holds: of what cannot be read, what was
// read before. The limits come last, since there may be a hundred thousand keys.
func (m *Metrics) stored(ctx context.Context) (*page, error) {
	st := m.client.Store()
	p := &page{}
	now, err := st.Now(ctx)
	if err != nil {
		return p, err
	}
	queues, err := st.Queues(ctx)
	if err != nil {
		return p, err
	}
	writeQueues(p, together(queues), now)
	workers, err := st.Workers(ctx)
	if err != nil {
		return p, err
	}
	p.family("workers", gauge, "Workers that live: each is a process, or one Work of several in a process.")
	p.sample("workers", float64(living(workers)))
	state, err := st.Checkup(ctx)
	if err != nil {
		return p, err
	}
	p.family("sweep_finds_total", counter, "Lanes that a sweep found asleep though they had work, ever and by any process: each is a fault of the store.")
	p.sample("sweep_finds_total", float64(state.SweepFinds))
	limits, err := readLimits(ctx, st, now)
	if err != nil {
		return p, err
	}
	writeLimits(p, limits)
	return p, nil
}

// living counts the workers that live. What a process keeps for Acquire is
// registered, too, but works no jobs.
func living(workers []store.WorkerInfo) (n int) {
	for _, w := range workers {
		works := slices.ContainsFunc(w.Kinds, func(kind string) bool { return !strings.HasPrefix(kind, store.PrivateKind) })
		if works && !w.Dead {
			n++
		}
	}
	return n
}

// together puts the queues beyond the first ones into one.
func together(queues []store.QueueInfo) []store.QueueInfo {
	if len(queues) <= labelsMost {
		return queues
	}
	rest := store.QueueInfo{Name: labelRest}
	all := make([]store.QueueInfo, 0, labelsMost+1)
	for i, q := range queues {
		if i < labelsMost && q.Name != labelRest {
			all = append(all, q)
			continue
		}
		rest.Due, rest.Scheduled, rest.Running = rest.Due+q.Due, rest.Scheduled+q.Scheduled, rest.Running+q.Running
		rest.Done, rest.Dead, rest.Cancelled = rest.Done+q.Done, rest.Dead+q.Dead, rest.Cancelled+q.Cancelled
		rest.Paused = rest.Paused || q.Paused
		if rest.OldestDue == 0 || q.OldestDue != 0 && q.OldestDue < rest.OldestDue {
			rest.OldestDue = q.OldestDue
		}
	}
	return append(all, rest)
}

func writeQueues(p *page, queues []store.QueueInfo, now int64) {
	p.family("queue_jobs", gauge, "Jobs stored, by state: due (waiting, and due now), scheduled (waiting, due later), running, done, dead, cancelled.")
	for _, q := range queues {
		for _, s := range []struct {
			state string
			n     int64
		}{{"due", q.Due}, {"scheduled", q.Scheduled}, {"running", q.Running}, {"done", q.Done}, {"dead", q.Dead}, {"cancelled", q.Cancelled}} {
			p.sample("queue_jobs", float64(s.n), "queue", q.Name, "state", s.state)
		}
	}
	p.family("queue_oldest_due_age_seconds", gauge, "For how long the oldest job that is due has been due; 0 if none is.")
	for _, q := range queues {
		age := 0.0
		if q.OldestDue != 0 {
			age = seconds(max(0, now-q.OldestDue))
		}
		p.sample("queue_oldest_due_age_seconds", age, "queue", q.Name)
	}
	p.family("queue_paused", gauge, "1 if a person paused the queue, else 0.")
	for _, q := range queues {
		p.sample("queue_paused", flag(q.Paused), "queue", q.Name)
	}
}

// limitUse is a limit, or all keys of a pattern together.
type limitUse struct {
	keys      int64 // limits in it
	inFlight  int64
	most      int64            // calls in flight that are allowed, 0: any number
	used      map[string]int64 // permits, by window
	permits   map[string]int64 // that are allowed, by window
	ratio     float64          // the largest share in use, of any key and window
	paused    map[string]int64 // by whom
	remaining float64          // seconds; the longest pause
	guard     float64          // seconds; the largest guard
}

// readLimits reads all limits, keys in use included, a page at a time.
func readLimits(ctx context.Context, st store.Store, now int64) (map[string]*limitUse, error) {
	const pageLen = 500
	all, known := map[string]*limitUse{}, labels{}
	for after := ""; ; {
		infos, err := st.ListLimits(ctx, after, pageLen)
		if err != nil {
			return nil, err
		}
		for i := range infos {
			l := &infos[i]
			name := known.of(pattern(l.Name))
			if all[name] == nil {
				all[name] = &limitUse{used: map[string]int64{}, permits: map[string]int64{}, paused: map[string]int64{"api": 0, "person": 0, "spec": 0}}
			}
			if !strings.HasSuffix(l.Name, "/*") { // the row of a pattern is no limit itself: it only makes it known
				all[name].add(l, now)
			}
		}
		if len(infos) < pageLen {
			return all, nil
		}
		after = infos[len(infos)-1].Name
	}
}

// add adds a limit.
func (u *limitUse) add(l *store.LimitInfo, now int64) {
	u.keys++
	inFlight := l.State.InFlight()
	u.inFlight += inFlight
	if n := l.Spec.InFlight; n > 0 {
		u.most += n
		u.ratio = max(u.ratio, float64(inFlight)/float64(n))
	}
	seen := map[string]bool{}
	for _, r := range l.Spec.Rates {
		n, window := r.Limit()
		label := number(window.Seconds())
		if window == 0 {
			label, window = calendar(r, now)
		}
		if seen[label] { // a day of another zone is another day
			label += "@" + r.Zone
		}
		seen[label] = true
		used := l.State.Used(window, now)
		u.used[label] += used
		u.permits[label] += n
		u.ratio = max(u.ratio, float64(used)/float64(max(n, 1)))
	}
	u.guard = max(u.guard, l.State.Guard(l.Spec).Seconds())
	person, api := l.State.Pauses(now)
	if l.Spec.Paused {
		u.paused["spec"]++
		u.remaining = math.Inf(1)
	}
	if person.Until != 0 {
		u.paused["person"]++
	}
	if api.Until != 0 {
		u.paused["api"]++
	}
	until := max(person.Until, api.Until)
	if until == limit.Never {
		u.remaining = math.Inf(1)
	} else if until > now {
		u.remaining = max(u.remaining, seconds(until-now))
	}
}

// calendar names the period of a calendar quota, and says how much of it is over.
func calendar(r limit.Rate, now int64) (label string, over time.Duration) {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC // a spec with an unknown zone is refused, so this does not come
	}
	t := time.UnixMicro(now).In(zone)
	if r.Calendar == limit.Month {
		return "month", t.Sub(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, zone))
	}
	return "day", t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, zone))
}

func writeLimits(p *page, all map[string]*limitUse) {
	names := slices.Sorted(maps.Keys(all))
	each := func(name, help string, fn func(limit string, u *limitUse)) {
		p.family(name, gauge, help)
		for _, n := range names {
			fn(n, all[n])
		}
	}
	plain := func(name, help string, value func(u *limitUse) float64) {
		each(name, help, func(l string, u *limitUse) { p.sample(name, value(u), "limit", l) })
	}
	plain("limit_keys", "Limits under this name: 1, or for a pattern the keys in use.", func(u *limitUse) float64 { return float64(u.keys) })
	plain("limit_in_flight", "Calls in flight, by all processes.", func(u *limitUse) float64 { return float64(u.inFlight) })
	each("limit_in_flight_allowed", "Calls in flight that the limit allows; not there if it allows any number.", func(l string, u *limitUse) {
		if u.most > 0 {
			p.sample("limit_in_flight_allowed", float64(u.most), "limit", l)
		}
	})
	windows := func(name, help string, of func(u *limitUse) map[string]int64) {
		each(name, help, func(l string, u *limitUse) {
			m := of(u)
			for _, w := range slices.Sorted(maps.Keys(m)) {
				p.sample(name, float64(m[w]), "limit", l, "window", w)
			}
		})
	}
	windows("limit_permits_used", "Permits used in the window, which is in seconds, or the day or month so far; for a pattern all keys together.", func(u *limitUse) map[string]int64 { return u.used })
	windows("limit_permits_allowed", "Permits that the limit allows in the window.", func(u *limitUse) map[string]int64 { return u.permits })
	plain("limit_use_ratio", "The largest share of its permits or calls in flight that is in use; for a pattern of any one key.", func(u *limitUse) float64 { return u.ratio })
	each("limit_paused", "Limits under this name that are paused: by the API, a person or the spec.", func(l string, u *limitUse) {
		for _, by := range slices.Sorted(maps.Keys(u.paused)) {
			p.sample("limit_paused", float64(u.paused[by]), "limit", l, "by", by)
		}
	})
	plain("limit_pause_remaining_seconds", "How much longer the pause lasts, the longest of a pattern; +Inf without an end.", func(u *limitUse) float64 { return u.remaining })
	plain("limit_guard_seconds", "The room that is kept between windows, the largest of a pattern.", func(u *limitUse) float64 { return u.guard })
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
