package cli_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pen "github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// rows counts what is stored of jobs.
func rows(t *testing.T, dir string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", dbIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n := map[string]int{}
	for _, table := range []string{"job", "ended", "body", "event", "call", "effect"} {
		count := 0
		if err := db.QueryRow("SELECT count(*) FROM penstock_" + table).Scan(&count); err != nil {
			t.Fatal(err)
		}
		n[table] = count
	}
	return n
}

// TestH1_ManyDead: dead letters were capped at 10,000, the oldest dropped in
// silence, or kept unlisted in memory (hibiken/asynq#730).
func TestH1_ManyDead(t *testing.T) {
	t.Parallel()
	const n = 12_000
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, n, 100, func(i int, j *pen.NewJob) { j.Run, j.Ref, j.Hash = "r", fmt.Sprint(i), "h" })
	list := penstock(t, dir, "dead", "--json", "-n", "20000").exits(0)
	if got := len(list.lines()); got != n {
		t.Fatalf("%d are listed, of %d", got, n)
	}
	first := penstock(t, dir, "dead", "--json", "-n", "7000").exits(0).says("--after 7000").lines()
	second := penstock(t, dir, "dead", "--json", "-n", "7000", "--after", sprint(first[len(first)-1]["id"])).exits(0).lines()
	if len(first) != 7000 || len(second) != n-7000 {
		t.Errorf("pages of %d and %d", len(first), len(second))
	}
	penstock(t, dir, "dead", "replay", "--kind", "mail", "--rate", "1000000/s", "--json").exits(0).reports(map[string]int{"replayed": n, "refused": 0})
	if got := every(t, c, pen.Filter{States: []pen.State{pen.Waiting}}, nil); got != n {
		t.Errorf("%d wait, of %d", got, n)
	}
	die(t, c, nil)
	penstock(t, dir, "dead", "discard", "--all", "--json").exits(0).reports(map[string]int{"discarded": n})
	for table, left := range rows(t, dir) {
		if left != 0 {
			t.Errorf("%d rows are left in %s", left, table)
		}
	}
	penstock(t, dir, "dead").exits(0).prints("no such jobs")
}

// TestH3_FreshAttempts: a replayed job kept its spent attempts and died again at
// the first failure (sidekiq/sidekiq#3101).
func TestH3_FreshAttempts(t *testing.T) {
	var calls atomic.Int64
	down := atomic.Bool{}
	down.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 3 || down.Load() { // once more after the replay
			w.WriteHeader(503)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	dir := t.TempDir()
	id := penstock(t, dir, "enqueue", "--url", s.URL+"/x", "--data", `{"n": 9007199254740993, "d": 0.10}`, "--attempts", "2",
		"--priority", "7", "--queue", "q", "--group", "g", "--unique", "u", "--limit", "l=50/s", "--cost", "3").id()
	penstock(t, dir, "work", "--drain").exits(1).says("is dead (exhausted)")
	before := penstock(t, dir, "dead", "show", id, "--json").exits(0).lines()[0]
	if len(before["history"].([]any)) != 3 {
		t.Errorf("the history was %v", before["history"])
	}
	down.Store(false)
	penstock(t, dir, "dead", "replay", id).exits(0).prints("1 dead letter replayed")
	penstock(t, dir, "work", "--drain").exits(0)
	after := penstock(t, dir, "jobs", "show", id, "--json").exits(0).lines()[0]
	if after["state"] != "done" || calls.Load() != 4 {
		t.Errorf("it is %v after %d calls", after["state"], calls.Load())
	}
	for _, field := range []string{"id", "payload", "priority", "queue", "group", "unique", "limits", "idempotency_key", "max_attempts", "enqueued_at", "kind"} {
		if !reflect.DeepEqual(before[field], after[field]) || before[field] == nil {
			t.Errorf("%s was %v and is %v", field, before[field], after[field])
		}
	}
	var what []string
	for _, h := range after["history"].([]any) {
		what = append(what, h.(map[string]any)["what"].(string))
	}
	if want := []string{"enqueued", "retry", "dead", "replayed", "retry", "done"}; !reflect.DeepEqual(what, want) {
		t.Errorf("history %v, want %v", what, want)
	}
}

// TestH4_BulkReplayIsKilledAndRepeated: bulk moves went one by one, or in one
// giant step that failed beyond some thousands and stopped the queue
// (sidekiq/sidekiq#5781, taskforcesh/bullmq#422).
func TestH4_BulkReplayIsKilledAndRepeated(t *testing.T) {
	t.Parallel()
	const n = 6000
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, n, 10_000, nil)
	if err := c.DeclareLimit(t.Context(), "mail", "40/s"); err != nil {
		t.Fatal(err)
	}
	waiting := pen.Filter{States: []pen.State{pen.Waiting}, N: 1}
	begun := time.Now()
	replay := begin(t, dir, nil, "dead", "replay", "--all")
	await(t, "the first chunk is replayed", func() bool {
		jobs, err := c.Jobs(t.Context(), waiting)
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs) > 0
	})
	replay.kill(syscall.SIGKILL)
	replay.wait()
	half := every(t, c, waiting, nil)
	if half == 0 || half == n || half%250 != 0 {
		t.Errorf("%d of %d were replayed when it was killed: not between chunks", half, n)
	}
	penstock(t, dir, "dead", "replay", "--all", "--json").exits(0).reports(map[string]int{"replayed": n - half})
	second := map[int64]int{}
	last := time.Time{}
	got := every(t, c, waiting, func(j pen.JobInfo) {
		at := pen.Instant(j.At)
		second[at.Unix()]++
		if at.After(last) {
			last = at
		}
		if len(j.Draws) != 1 || j.Attempts != 0 {
			t.Errorf("job %d became %+v", j.ID, j)
		}
	})
	if dead := every(t, c, pen.Filter{States: []pen.State{pen.Dead}}, nil); got != n || dead != 0 {
		t.Errorf("%d wait and %d are dead, of %d", got, dead, n)
	}
	// Each of the two commands makes at most half of the 40 a second due.
	for at, k := range second {
		if k > 2*20+2 {
			t.Errorf("%d come due in second %d", k, at)
		}
	}
	if span := last.Sub(begun); span < time.Duration(max(half, n-half)/20-1)*time.Second {
		t.Errorf("all are due within %v", span)
	}
	t.Logf("killed after %d of %d", half, n)
}

// TestReplayLetsLiveWorkPass: jobs that come in while others are replayed do not
// stand behind them all.
func TestReplayLetsLiveWorkPass(t *testing.T) {
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"url": "%s/status/422?%d"}`, a.URL, i)
	}
	write(t, dir, "calls.jsonl", lines...)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "1000/s").exits(1)
	penstock(t, dir, "dead", "replay", "--reason", "rejected").exits(0).prints("60 dead letters replayed") // at 50 a second, by default
	penstock(t, dir, "dead", "discard", "--all").exits(0)
	penstock(t, dir, "work", "--drain").exits(1)
	penstock(t, dir, "exec", "--limit", a.Host+"=20/s", "--", "true").exits(0)
	penstock(t, dir, "dead", "replay", "--reason", "rejected").exits(0).prints("60 dead letters replayed") // at 10 a second
	live := penstock(t, dir, "enqueue", "--url", a.URL+"/live").id()
	work := begin(t, dir, nil, "work")
	c := openDB(t, dir)
	await(t, "the live call is made", func() bool { return state(t, c, live) == pen.Done })
	if left := every(t, c, pen.Filter{States: []pen.State{pen.Waiting}}, nil); left < 30 {
		t.Errorf("the live call was made when only %d replayed ones of 60 were left", left)
	}
	work.kill(syscall.SIGINT)
	work.wait()
	work.exits(130)
}

// TestReplayRefusals: what cannot be replayed is told, one by one, and stays.
func TestReplayRefusals(t *testing.T) {
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, 3, 10, func(i int, j *pen.NewJob) { j.Unique = fmt.Sprintf("u%d", i) })
	if _, err := c.Enqueue(t.Context(), "other", nil, pen.Unique("u1")); err != nil { // job 4
		t.Fatal(err)
	}
	got := penstock(t, dir, "dead", "replay", "--all", "--json").exits(1).lines()
	if len(got) != 2 || sprint(got[0]["id"]) != "2" || sprint(got[1]["replayed"]) != "2" || sprint(got[1]["refused"]) != "1" {
		t.Errorf("printed %v", got)
	}
	penstock(t, dir, "dead", "replay", "2").exits(1).says("job 2 is not replayed", "job 4 has \"u1\"")
	penstock(t, dir, "dead", "replay", "4", "77", "2").exits(1).says("job 4 is not replayed: it is waiting", "job 77 is not replayed: there is no such job")
	penstock(t, dir, "dead", "discard", "4").exits(1).says("it is waiting, not dead")
	penstock(t, dir, "dead", "replay").exits(2).says("say which")
	penstock(t, dir, "dead", "replay", "2", "--all").exits(2).says("not both")
	penstock(t, dir, "dead", "replay", "x").exits(2).says("id of a job", "RUN/CALL-ID")
	penstock(t, dir, "dead", "replay", "--all", "--rate", "fast").exits(2).says("--rate")
	penstock(t, dir, "dead", "replay", "--reason", "bad").exits(2).says("exhausted")
	penstock(t, dir, "dead", "discard", "2", "2").exits(0).prints("1 dead letter discarded")
}

// TestReplayLeavesDoubtAlone: a call that may have happened is replayed only if
// somebody means it.
func TestReplayLeavesDoubtAlone(t *testing.T) {
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	a.holdAll()
	id := penstock(t, dir, "enqueue", "--url", a.URL+"/echo", "--at-most-once", "--timeout", "300ms").id()
	penstock(t, dir, "work", "--drain").exits(1).says("in_doubt")
	a.release()
	penstock(t, dir, "dead", "replay", "--all").exits(0).prints("0 dead letters replayed", "1 in doubt left")
	penstock(t, dir, "dead", "replay", "--reason", "in_doubt").exits(0).prints("1 dead letter replayed")
	penstock(t, dir, "work", "--drain").exits(0)
	penstock(t, dir, "jobs", "show", id).exits(0).prints("replayed", "done")
}

// TestReplayTwiceKeepsThePace: the second command puts its jobs behind those of the
// first one, and says so.
func TestReplayTwiceKeepsThePace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, 40, 40, nil)
	replay := func(more ...string) *command {
		return penstock(t, dir, append([]string{"dead", "replay", "--rate", "1/s"}, more...)...).exits(0)
	}
	replay("-n", "20")
	replay("-n", "10").says("behind what was put back before", "--beside")
	replay("-n", "10", "--beside")
	jobs, err := c.Jobs(t.Context(), pen.Filter{States: []pen.State{pen.Waiting}})
	if err != nil || len(jobs) != 40 {
		t.Fatalf("%d wait, %v", len(jobs), err)
	}
	for i := 2; i < 30; i++ { // the first one is due when it was put back, a little later
		if step := jobs[i].At - jobs[i-1].At; step < 999_998 || step > 1_000_002 {
			t.Errorf("job %d comes due %d µs after the one before, want 1 s", i, step)
		}
	}
	if jobs[30].At >= jobs[20].At {
		t.Errorf("what is put back beside the others is due at %d, behind %d", jobs[30].At, jobs[20].At)
	}
}

// TestReplayWithNewKeys: an API that keeps its answer to a key takes the call for
// a new one.
func TestReplayWithNewKeys(t *testing.T) {
	var mu sync.Mutex
	failed := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if key := r.Header.Get("Idempotency-Key"); len(failed) == 0 || failed[key] {
			failed[key] = true
			w.WriteHeader(402)
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	id := penstock(t, dir, "enqueue", "--url", s.URL).id()
	penstock(t, dir, "work", "--drain").exits(1)
	penstock(t, dir, "dead", "replay", id).exits(0)
	penstock(t, dir, "work", "--drain").exits(1)
	penstock(t, dir, "dead", "replay", "--text", "402", "--new-key").exits(0)
	penstock(t, dir, "work", "--drain").exits(0)
}

// TestFiltersOfDead: each filter selects.
func TestFiltersOfDead(t *testing.T) {
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, 6, 10, func(i int, j *pen.NewJob) {
		j.Queue = []string{"a", "b"}[i%2]
		if i == 0 {
			j.Run, j.Ref, j.Hash = "r", "x", "h"
			j.Limits = nil
		}
	})
	for n, filters := range map[int][][]string{
		0: {{"--kind", "http"}, {"--older-than", "1h"}, {"--text", "nothing like it"}, {"--reason", "lost"}, {"--limit", "other"}},
		1: {{"--run", "r"}, {"--queue", "a", "--run", "r"}, {"-n", "1"}},
		3: {{"--queue", "a"}, {"--queue", "b", "--reason", "rejected"}, {"--after", "3"}},
		5: {{"--limit", "mail"}},
		6: {{"--kind", "mail"}, {"--newer-than", "1h"}, {"--text", "no such address"}, {"--older-than", "1ms", "--newer-than", "1d"}},
	} {
		for _, f := range filters {
			if got := len(penstock(t, dir, append([]string{"dead", "--json"}, f...)...).exits(0).lines()); got != n {
				t.Errorf("%v selects %d, want %d", f, got, n)
			}
		}
	}
	penstock(t, dir, "dead", "--older-than", "2h", "--newer-than", "1h").exits(2)
	penstock(t, dir, "dead", "--older-than", "soon").exits(2)
}

// TestBulkStopsBetweenChunks: a signal leaves nothing half done, and the counts
// are told.
func TestBulkStopsBetweenChunks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openDB(t, dir)
	kill(t, c, 5000, 2000, nil)
	d := begin(t, dir, nil, "dead", "discard", "--all")
	await(t, "the first chunk is discarded", func() bool { return every(t, c, pen.Filter{IDs: []int64{1}}, nil) == 0 })
	d.kill(syscall.SIGTERM)
	d.wait()
	left := every(t, c, pen.Filter{}, nil)
	switch {
	case d.code == 0 && left == 0: // it was faster than the signal
	case d.code != 143 || left == 0 || left == 5000:
		t.Errorf("exit code %d, %d left: %s", d.code, left, &d.stdout)
	default:
		d.prints("dead letters discarded", "interrupted")
	}
	penstock(t, dir, "dead", "discard", "--all").exits(0)
	if left := every(t, c, pen.Filter{}, nil); left != 0 {
		t.Errorf("%d left", left)
	}
}
