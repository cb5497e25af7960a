package storetest

import (
	"fmt"

	"github.com/penstockhq/penstock/limit"
)

// cutTests are about claims that cannot look at everything that is open.
var cutTests = []test{
	{"Claim/CutShortLooksAgain", testCutShort},
}

// More lanes than one claim looks at stand open before a job that could start,
// and none of them can: the claim grants nothing, and must say that it is worth
// asking again, or its worker sleeps beside a job that may run.
func testCutShort(e *env) {
	const busy = 300
	e.limit("key/*", "1 in flight")
	w := e.worker("w")
	for i := range busy {
		e.insert(times(2, draw(fmt.Sprint("key/", i), 1), group(fmt.Sprint(i)), prio(7+i%3))...)
	}
	held := 0
	for held < busy {
		got := len(e.claim(w, places(busy)).Jobs)
		if got == 0 {
			e.Fatalf("%d of %d keys hold their one call", held, busy)
		}
		held += got
	}
	// Their gates open all at once for a look, as after a changed pattern.
	e.must(e.SetLimit(e.ctx, "key/*", parse(e.T, "1 in flight, 1000/s")))
	free := e.one(prio(1))
	for look := range 2 * busy {
		res := e.claim(w, places(5))
		if len(res.Jobs) > 0 {
			e.wantIDs("the job behind the busy keys", res.Jobs, free)
			return
		}
		if res.NextAt == limit.Never {
			e.Fatalf("look %d granted nothing and says that asking again is no use", look)
		}
		e.clock.To(max(res.NextAt, e.clock.Now()))
	}
	e.Errorf("the job behind %d busy keys was not found", busy)
}
