package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var limitTests = []test{
	{"Limit/DeclareAndGet", testLimitDeclare},
	{"Limit/SetWinsUntilReset", testLimitSet},
	{"Limit/SetTakesHoldAtOnce", testLimitSetAtOnce},
	{"Limit/RaiseWakes", testLimitRaise},
	{"Limit/CutCountsWhatWasSent", testLimitCut},
	{"Limit/PauseAndResume", testLimitPause},
	{"Limit/PauseForEver", testLimitPauseForEver},
	{"Limit/PauseThatIsOver", testLimitPauseOver},
	{"Limit/PausesAtOnce", testLimitPausesAtOnce},
	{"Limit/Patterns", testLimitPatterns},
	{"Limit/PatternChangeReachesKeys", testLimitPatternChange},
	{"Limit/Unknown", testLimitUnknown},
	{"Limit/Impossible", testLimitImpossible},
	{"Limit/List", testLimitList},
	{"Limit/SweepForgetsIdleKeys", testLimitSweep},
}

func (e *env) info(name string) store.LimitInfo {
	e.Helper()
	l, err := e.Limit(e.ctx, name)
	e.must(err)
	return l
}

func testLimitDeclare(e *env) {
	e.limit("api", "10/s, 1000/h, 20 in flight")
	l := e.info("api")
	if l.Name != "api" || l.Declared != "10/s, 1000/h, 20 in flight" || l.Set != "" || l.Spec.String() != l.Declared {
		e.Errorf("came back as %+v", l)
	}
	e.limit("api", "5/s")
	if l := e.info("api"); l.Declared != "5/s" || l.Spec.String() != "5/s" {
		e.Errorf("declared anew: %+v", l)
	}
	e.limit("free", "unlimited")
	e.one(draw("free", 1))
}

// C6: the old value does not come back from a process that still declares it.
func testLimitSet(e *env) {
	e.limit("api", "10/s")
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "2/s")))
	e.limit("api", "10/s")
	e.limit("api", "20/s")
	if l := e.info("api"); l.Declared != "20/s" || l.Set != "2/s" || l.Spec.String() != "2/s" {
		e.Errorf("a set limit: %+v", l)
	}
	e.must(e.ResetLimit(e.ctx, "api"))
	if l := e.info("api"); l.Set != "" || l.Spec.String() != "20/s" {
		e.Errorf("after the reset: %+v", l)
	}
	e.must(e.ResetLimit(e.ctx, "api"))
}

func testLimitSetAtOnce(e *env) {
	e.limit("api", "10/s burst 10")
	e.insert(times(50, draw("api", 1))...)
	w := e.worker("w")
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "2 in flight")))
	if got := e.take(w); len(got) != 2 {
		e.Errorf("%d jobs under the limit set, expected 2", len(got))
	}
}

func testLimitRaise(e *env) {
	e.limit("api", "1/h")
	e.insert(times(50, draw("api", 1))...)
	w := e.worker("w")
	e.done(e.take(w)...)
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "1000/h")))
	if got := e.take(w); len(got) != 49 {
		e.Errorf("%d jobs after the raise, expected 49", len(got))
	}
}

func testLimitCut(e *env) {
	e.limit("api", "100/h")
	e.insert(times(50, draw("api", 1))...)
	w := e.worker("w")
	e.done(e.claim(w, places(20)).Jobs...)
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "20/h")))
	if got := e.take(w); len(got) != 0 {
		e.Errorf("%d jobs after the cut, 20 of 20 were sent before", len(got))
	}
	e.must(e.ResetLimit(e.ctx, "api"))
	if got := e.take(w); len(got) != 30 {
		e.Errorf("%d jobs after the reset, expected 30", len(got))
	}
}

// A pause that would end before it began changes nothing, and says so.
func testLimitPauseOver(e *env) {
	e.limit("api", "100/s")
	e.must(e.PauseLimit(e.ctx, "api", e.clock.Now()+60_000_000, "tea"))
	for _, until := range []int64{0, -5, e.clock.Now() - 1, e.clock.Now()} {
		if err := e.PauseLimit(e.ctx, "api", until, "late"); err == nil || !strings.Contains(err.Error(), "is over already") {
			e.Errorf("until %s: got %v", e.when(until), err)
		}
	}
	if until, _, reason := e.state("api").Paused(e.clock.Now()); until != e.clock.Now()+60_000_000 || reason != "tea" {
		e.Errorf("the pause before it is until %s now, %q", e.when(until), reason)
	}
	if notes, err := e.Notes(e.ctx, store.NoteLimit+"api", 10); err != nil || len(notes) != 1 {
		e.Errorf("notes are %+v, %v, expected that of the first pause", notes, err)
	}
}

// A person's pause and the API's keep their own ends and reasons.
func testLimitPausesAtOnce(e *env) {
	e.limit("api", "100/s")
	now := e.clock.Now()
	e.must(e.Observe(e.ctx, []store.Observed{{Limit: "api", Observation: refusal(now, time.Hour)}}))
	e.must(e.PauseLimit(e.ctx, "api", now+60_000_000, "deploy"))
	person, api := e.state("api").Pauses(now)
	if person != (limit.Pause{Until: now + 60_000_000, Since: now, Reason: "deploy"}) {
		e.Errorf("a person's pause is %+v", person)
	}
	if api.Until != now+time.Hour.Microseconds() || api.Since != now || api.Reason == "deploy" {
		e.Errorf("the API's pause is %+v", api)
	}
}

func testLimitPause(e *env) {
	e.limit("api", "100/s burst 100")
	e.insert(times(3, draw("api", 1))...)
	w := e.worker("w")
	e.must(e.PauseLimit(e.ctx, "api", e.clock.Now()+60_000_000, "tea\x00"))
	if until, byPerson, reason := e.state("api").Paused(e.clock.Now()); until != e.clock.Now()+60_000_000 || !byPerson || reason == "" {
		e.Errorf("paused until %s, by a person: %v, %q", e.when(until), byPerson, reason)
	}
	e.wantIDs("during the pause", e.take(w))
	e.must(e.ResumeLimit(e.ctx, "api"))
	if got := e.take(w); len(got) == 0 {
		e.Error("nothing came after the resumption")
	}
	// Resuming lifts the API's pause, too.
	e.must(e.Observe(e.ctx, []store.Observed{{Limit: "api", Observation: refusal(e.clock.Now(), time.Hour)}}))
	e.one(draw("api", 1))
	e.wantIDs("during the API's pause", e.take(w))
	e.must(e.ResumeLimit(e.ctx, "api"))
	e.clock.Advance(time.Second)
	if got := e.take(w); len(got) == 0 {
		e.Error("nothing came after the second resumption")
	}
}

func testLimitPauseForEver(e *env) {
	e.limit("api", "100/s")
	id := e.one(draw("api", 1))
	w := e.worker("w")
	e.must(e.PauseLimit(e.ctx, "api", limit.Never, "broken"))
	e.take(w)
	if next := e.claim(w).NextAt; next != limit.Never {
		e.Errorf("next at %s, expected never", e.when(next))
	}
	e.clock.Advance(300 * 24 * time.Hour)
	e.wantIDs("300 days on", e.take(w))
	e.must(e.ResumeLimit(e.ctx, "api"))
	e.wantIDs("resumed", e.take(w), id)
}

func testLimitPatterns(e *env) {
	e.limit("shop/*", "1 in flight")
	e.limit("shop/big", "3 in flight")
	for _, key := range []string{"shop/a", "shop/b", "shop/big", "shop/x/y"} {
		e.insert(times(5, draw(key, 1))...)
	}
	counts := map[string]int{}
	for _, j := range e.take(e.worker("w")) {
		counts[j.Draws[0].Limit]++
	}
	if counts["shop/a"] != 1 || counts["shop/b"] != 1 || counts["shop/big"] != 3 || counts["shop/x/y"] != 1 {
		e.Errorf("running are %v", counts)
	}
	if l := e.info("shop/never-used"); l.Spec.InFlight != 1 {
		e.Errorf("a key not used yet: %+v", l)
	}
	if err := e.PauseLimit(e.ctx, "shop/*", limit.Never, ""); err == nil {
		e.Error("a pattern was paused, which has no state of its own")
	}
	e.must(e.PauseLimit(e.ctx, "shop/c", limit.Never, ""))
	e.one(draw("shop/c", 1))
	e.wantIDs("a paused key", e.take("w"))
}

func testLimitPatternChange(e *env) {
	e.limit("shop/*", "1 in flight")
	e.limit("shop/own", "1 in flight")
	for _, key := range []string{"shop/a", "shop/b", "shop/own"} {
		e.insert(times(5, draw(key, 1))...)
	}
	w := e.worker("w")
	if got := e.take(w); len(got) != 3 {
		e.Fatalf("%d run, expected 3", len(got))
	}
	e.must(e.SetLimit(e.ctx, "shop/*", parse(e.T, "2 in flight")))
	counts := map[string]int{}
	for _, j := range e.take(w) {
		counts[j.Draws[0].Limit]++
	}
	if counts["shop/a"] != 1 || counts["shop/b"] != 1 || counts["shop/own"] != 0 {
		e.Errorf("the raise of the pattern let %v go, expected one more of a and of b", counts)
	}
}

func testLimitUnknown(e *env) {
	e.limit("stripe", "10/s")
	var unknown *store.UnknownLimitError
	for what, err := range map[string]error{
		"get":    second(e.Limit(e.ctx, "strip")),
		"reset":  e.ResetLimit(e.ctx, "strip"),
		"pause":  e.PauseLimit(e.ctx, "strip", limit.Never, ""),
		"resume": e.ResumeLimit(e.ctx, "strip"),
	} {
		if !errors.As(err, &unknown) && !errors.Is(err, store.ErrNotFound) {
			e.Errorf("%s: got %v", what, err)
		}
	}
	if unknown != nil && (len(unknown.Nearest) == 0 || unknown.Nearest[0] != "stripe") {
		e.Errorf("nearest are %q", unknown.Nearest)
	}
	e.limit("k/*", "10/s")
	for i := range 600 { // more than are compared
		e.limit(fmt.Sprintf("a%03d", i), "10/s")
	}
	for what, err := range map[string]error{
		"get":    second(e.Limit(e.ctx, "k")),
		"reset":  e.ResetLimit(e.ctx, "k"),
		"pause":  e.PauseLimit(e.ctx, "k", limit.Never, ""),
		"insert": second(e.Insert(e.ctx, []store.NewJob{job(draw("k", 1))})),
	} {
		if !errors.As(err, &unknown) || unknown.Pattern != "k/*" {
			e.Errorf("%s without the key: got %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func testLimitImpossible(e *env) {
	for _, name := range []string{"", "/*", "a/b/*", "a\x00", "a\xff"} {
		if err := e.DeclareLimit(e.ctx, name, parse(e.T, "1/s")); err == nil {
			e.Errorf("the name %q was accepted", name)
		}
	}
	bad := limit.Spec{Rates: []limit.Rate{{N: 5, Window: time.Second, Burst: 9}}}
	if err := e.DeclareLimit(e.ctx, "api", bad); err == nil {
		e.Error("a burst above its rate was accepted")
	}
	if err := e.SetLimit(e.ctx, "api", bad); err == nil {
		e.Error("a burst above its rate was set")
	}
	if ls, err := e.ListLimits(e.ctx, "", 10); err != nil || len(ls) != 0 {
		e.Errorf("left behind: %v, %v", ls, err)
	}
}

func testLimitList(e *env) {
	want := []string{"api", "shop/*"}
	for i := range 10 {
		want = append(want, fmt.Sprintf("z%d", i))
	}
	for _, name := range want {
		e.limit(name, "10/s")
	}
	e.one(draw("shop/a", 1))
	e.take(e.worker("w"))
	want = append(want, "shop/a")
	slices.Sort(want)
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := e.ListLimits(e.ctx, after, 4)
		e.must(err)
		for _, l := range page {
			got = append(got, l.Name)
		}
		if len(page) < 4 {
			break
		}
	}
	if !slices.Equal(got, want) {
		e.Errorf("listed %q, expected %q", got, want)
	}
}

func testLimitSweep(e *env) {
	e.limit("shop/*", "10/s")
	e.limit("api", "10/s")
	w := e.worker("w")
	for i := range 20 {
		e.one(draw(fmt.Sprint("shop/", i), 1))
	}
	busy := e.one(draw("shop/busy", 1))
	jobs := e.take(w)
	for _, j := range jobs {
		if j.ID != busy {
			e.done(j)
		}
	}
	e.must(e.PauseLimit(e.ctx, "shop/paused", limit.Never, ""))
	e.clock.Advance(2 * time.Hour)
	for range 3 {
		if n, err := e.Sweep(e.ctx); n != 0 || err != nil {
			e.Errorf("the sweep found %d, %v", n, err)
		}
	}
	ls, err := e.ListLimits(e.ctx, "", 100)
	e.must(err)
	var names []string
	for _, l := range ls {
		names = append(names, l.Name)
	}
	if want := []string{"api", "shop/*", "shop/busy", "shop/paused"}; !slices.Equal(names, want) {
		e.Errorf("left are %q, expected %q", names, want)
	}
	_, err = e.Heartbeat(e.ctx, w)
	e.must(err)
}
