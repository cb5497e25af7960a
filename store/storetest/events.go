package storetest

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/store"
)

var eventTests = []test{
	{"Events/History", testEventsHistory},
	{"Events/FirstFiveLastFifteen", testEventsBound},
	{"Events/TextsAreCleaned", testEventsClean},
}

func testEventsHistory(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.clock.Advance(time.Second)
	f := ending(j, store.OutcomeRetry)
	f.At, f.Error, f.Detail, f.Started = e.clock.Now()+5_000_000, "boom", []byte(`{"status":503}`), j.Slot+7
	e.finish(f)
	ended := e.clock.Now()
	e.clock.Advance(5 * time.Second)
	e.take(w)
	e.lose()
	evs, err := e.Events(e.ctx, j.ID)
	e.must(err)
	if len(evs) != 2 {
		e.Fatalf("%d events, expected 2: %+v", len(evs), evs)
	}
	a := evs[0]
	if a.JobID != j.ID || a.N != 1 || a.At != ended || a.Started != j.Slot+7 || a.Outcome != store.OutcomeRetry || a.Error != "boom" ||
		a.NextAt != f.At || string(a.Detail) != `{"status":503}` {
		e.Errorf("the first is %+v", a)
	}
	if b := evs[1]; b.N != 2 || b.Outcome != store.OutcomeLost || b.Error == "" {
		e.Errorf("the second is %+v", b)
	}
}

func testEventsBound(e *env) {
	w := e.worker("w")
	e.one()
	var id int64
	for n := 1; n <= 40; n++ {
		j := e.take(w)[0]
		id = j.ID
		f := ending(j, store.OutcomeRetry)
		f.At, f.Error = e.clock.Now(), fmt.Sprint("failure ", n)
		e.finish(f)
	}
	evs, err := e.Events(e.ctx, id)
	e.must(err)
	var got, want []int
	for _, ev := range evs {
		got = append(got, ev.N)
		if ev.Error != fmt.Sprint("failure ", ev.N) {
			e.Errorf("event %d says %q", ev.N, ev.Error)
		}
	}
	for n := 1; n <= 40; n++ {
		if n <= 5 || n > 25 {
			want = append(want, n)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("kept are events %v, expected the first 5 and the last 15, %v", got, want)
	}
}

func testEventsClean(e *env) {
	w := e.worker("w")
	for what, text := range map[string]string{
		"NUL":           "a\x00b",
		"invalid UTF-8": "a\xff\xc3b",
		"megabytes":     strings.Repeat("é", 1_500_000),
		"cut in a rune": "x" + strings.Repeat("日本", 2000),
		"surrogates":    "a\xed\xa0\x80b",
	} {
		j := e.started(w)
		f := ending(j, store.OutcomeDead)
		f.Reason, f.Error = store.Rejected, text
		e.finish(f)
		evs, err := e.Events(e.ctx, j.ID)
		e.must(err)
		for _, got := range []string{e.get(j.ID).Error, evs[len(evs)-1].Error} {
			if got == "" || !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > 20_000 {
				e.Errorf("%s: kept as %d bytes %.40q", what, len(got), got)
			}
			if text[:1] == "a" && !(strings.HasPrefix(got, "a") && strings.HasSuffix(got, "b")) {
				e.Errorf("%s: kept as %q", what, got)
			}
		}
	}
}
