package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/penstockhq/penstock/store"
)

var byteTests = []test{
	{"Bytes/I1_AnyBytesRoundTrip", testI1},
	{"Bytes/I3_LargeIntegers", testI3},
	{"Bytes/NamesAreExact", testNamesExact},
}

// through takes a payload through a failure, a death and a replay, and returns
// what the last start gets. The payload is the result, too.
func (e *env) through(w string, payload []byte) (got, result []byte) {
	e.Helper()
	n := job()
	n.Payload = payload
	e.insert(n)
	f := ending(e.take(w)[0], store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	f = ending(e.take(w)[0], store.OutcomeDead)
	f.Reason, f.Result, f.Detail = store.Rejected, payload, payload
	e.finish(f)
	result = e.get(f.ID).Result
	evs, err := e.Events(e.ctx, f.ID)
	e.must(err)
	if d := evs[len(evs)-1].Detail; !bytes.Equal(d, payload) {
		e.Errorf("an event's detail came back as %.60q", d)
	}
	e.must(e.replay(f.ID)[0])
	j := e.take(w)[0]
	e.done(j)
	return j.Payload, result
}

// I1 (hatchet-dev/hatchet#4611, hardbyte/awa#84): a NUL or a lone surrogate in
// arguments or results was refused, or stripped with damage.
func testI1(e *env) {
	w := e.worker("w")
	any := make([]byte, 256)
	for i := range any {
		any[i] = byte(i)
	}
	big := make([]byte, 1<<20)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(big)
	for _, p := range [][]byte{
		any, big, {}, {0}, []byte("{\"a\":\"\x00\"}"), []byte(`{"a\u0000":"\u0000","b":{"c":"\ud800"}}`),
		[]byte(`\u0000`), []byte("\xff\xfe"), []byte("\xed\xa0\x80"), []byte("🦀 日本語 \u2028"),
	} {
		if got, result := e.through(w, p); !bytes.Equal(got, p) || !bytes.Equal(result, p) {
			e.Errorf("%.60q came back as %.60q, as a result %.60q", p, got, result)
		}
	}
	jobs := times(100)
	jobs[50].Payload = any
	e.insert(jobs...)
}

// I3 (contribsys/faktory#380, sidekiq/sidekiq#2478): large integers passed
// through floating point and came back changed.
func testI3(e *env) {
	w := e.worker("w")
	for _, n := range []string{"9007199254740993", "899999999999999990", "9223372036854775807", "0.1", "1e400", "-0", "1.0"} {
		p := []byte(fmt.Sprintf(`{"n":%s,"a":[%s]}`, n, n))
		if got, result := e.through(w, p); !bytes.Equal(got, p) || !bytes.Equal(result, p) {
			e.Errorf("%s came back as %s, as a result %s", p, got, result)
		}
	}
}

// C12 (ashita-ai/tessera#185, grafana/loki#22435): names were joined, folded or
// trimmed until they collided.
func testNamesExact(e *env) {
	names := []string{"a", "A", "a ", " a", "a:b", "a|b", "a/b", "a,b", "é", "e\u0301", "ß", "ss", strings.Repeat("x", 200), strings.Repeat("x", 199) + "y"}
	var jobs []store.NewJob
	for _, n := range names {
		jobs = append(jobs, job(queue(n), group(n), unique(n), ref("run", n, "h", 1)))
	}
	ids := e.insert(jobs...)
	for i, n := range names {
		if j := e.get(ids[i]); j.Queue != n || j.Group != n || j.Unique != n || j.Ref != n {
			e.Errorf("%q came back as queue %q, group %q, unique %q, ref %q", n, j.Queue, j.Group, j.Unique, j.Ref)
		}
		if q := e.queue(n); q.Due != 1 {
			e.Errorf("queue %q counts %+v", n, q)
		}
	}
}
