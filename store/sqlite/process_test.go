package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Whatever was acknowledged before a kill -9 is there, and no half of anything.
func TestKilledWhileInserting(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := tempFile(t)
	for round := range 8 {
		name := fmt.Sprintf("round-%d", round)
		c := start(t, "insert", path, name)
		c.expect("ready")
		c.say("go")
		acknowledged := 0
		for range 1 + r.IntN(60) {
			n, err := strconv.Atoi(c.line())
			if err != nil {
				t.Fatal(err)
			}
			acknowledged = n + 1
		}
		c.kill()

		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		counts, err := s.CountRun(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		// It may have written more than it could tell before it was killed.
		if n := counts[store.Waiting]; n%2 != 0 || n < int64(2*acknowledged) {
			t.Errorf("%d jobs of pairs, %d pairs acknowledged", n, acknowledged)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		checkFile(t, path)
	}
}

// A process killed in the middle of a transaction leaves nothing of it, and the
// turn and the lock go to the next one at once.
func TestKilledInTransaction(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	c := start(t, "stuck", path, "q")
	c.expect("inside")

	answered := make(chan error, 1)
	go func() {
		_, err := s.Insert(context.Background(), []store.NewJob{job("mine")})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("inserted while another process was in its transaction: %v", err)
	default:
	}
	c.kill()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 || jobs[0].Queue != "mine" {
		t.Errorf("found %+v, expected the one job of this process", jobs)
	}
}

// Eight busy processes take turns: whoever waits is overtaken only so often. The
// ids tell the order of the commits. With SQLite's own back-off some processes
// wait for hundreds of others' commits.
func TestProcessesTakeTurns(t *testing.T) {
	const processes, rounds = 8, 60
	path := tempFile(t)
	s := open(t, path)
	children := make([]*child, processes)
	for i := range children {
		children[i] = start(t, "insert", path, fmt.Sprintf("p%d", i))
		children[i].expect("ready")
	}
	for _, c := range children {
		c.say("go")
	}
	for _, c := range children { // all of them got so far while all were busy
		for range rounds {
			c.line()
		}
	}
	for _, c := range children {
		c.finish()
	}
	var order []string // whose commit, by id
	for after := int64(0); ; {
		jobs, err := s.Jobs(t.Context(), store.Filter{AfterID: after, N: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			if strings.HasSuffix(j.Ref, ".0") {
				order = append(order, j.Queue)
			}
			after = j.ID
		}
	}
	// Only while all are at it: from the last one's first commit to the first
	// one's last.
	first, last := map[string]int{}, map[string]int{}
	for i, q := range order {
		if _, ok := first[q]; !ok {
			first[q] = i
		}
		last[q] = i
	}
	from, to := 0, len(order)
	for q := range first {
		from, to = max(from, first[q]), min(to, last[q])
	}
	if to-from < processes*rounds/4 {
		t.Fatalf("all were busy for %d of %d commits only", to-from, len(order))
	}
	share, waited, seen := map[string]int{}, map[string]int{}, map[string]int{}
	for i, q := range order[from:to] {
		share[q]++
		waited[q] = max(waited[q], i-seen[q])
		seen[q] = i
	}
	t.Logf("%d commits: shares %v, overtaken at most %v", to-from, share, waited)
	for q := range first {
		if share[q]*2 < (to-from)/processes {
			t.Errorf("%s had %d of %d commits, less than half of its share", q, share[q], to-from)
		}
	}
}

// A worker is living while its process exists, even stopped, and gone as soon as it does not.
func TestAlive(t *testing.T) {
	path := tempFile(t)
	d := openDBAt(t, path)
	alive := func(id string) engine.Liveness {
		t.Helper()
		var w engine.WorkerRow
		err := d.View(t.Context(), func(tx engine.Tx) (err error) {
			w, _, err = tx.Worker(id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.ID = id
		return d.Alive(w.Worker)
	}
	is := func(when, id string, want engine.Liveness) {
		t.Helper()
		if got := alive(id); got != want {
			t.Errorf("%s: liveness %v, expected %v", when, got, want)
		}
	}
	if !d.SeesDeaths() {
		t.Error("the store says that it sees no deaths")
	}
	is("never registered", "nobody", engine.Unknown)

	c := start(t, "worker", path, "w1")
	c.expect("registered")
	is("registered", "w1", engine.Living)
	c.signal(syscall.SIGSTOP)
	is("stopped", "w1", engine.Living)
	c.kill()
	is("killed", "w1", engine.Gone)

	c = start(t, "worker", path, "w2")
	c.expect("registered")
	is("registered", "w2", engine.Living)
	c.say("deregister")
	c.expect("gone")
	is("deregistered", "w2", engine.Gone) // its process lives, but no longer as this worker

	// Of another boot, or another machine, nothing is known.
	err := d.Update(t.Context(), func(tx engine.Tx) error {
		return tx.SaveWorker(engine.WorkerRow{Worker: store.Worker{ID: "far", PID: os.Getpid() + 1}})
	})
	if err != nil {
		t.Fatal(err)
	}
	is("of another machine", "far", engine.Unknown)
}

// The jobs of a killed process are taken back though its lease has not run out.
func TestRescueOfKilled(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	c := start(t, "worker", path, "w1")
	c.expect("registered")
	id := insert(t, s, job("q"))[0].ID
	got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w1", Token: 1, Kinds: []string{"noop"}, Places: 1, SuspectFree: true})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("claimed %v, %v", got.Jobs, err)
	}
	taken, err := s.Rescue(t.Context(), 3)
	if err != nil || len(taken) != 0 {
		t.Fatalf("rescued %v from a living worker, %v", taken, err)
	}
	c.kill()
	taken, err = s.Rescue(t.Context(), 3)
	if err != nil || len(taken) != 1 || taken[0].ID != id {
		t.Fatalf("rescued %v, %v, expected job %d", taken, err, id)
	}
}

// A commit is told to other processes, and to this one.
func TestWatch(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	c := start(t, "watch", path, "")
	c.expect("watching")
	mine := s.Watch(t.Context())
	<-mine
	committed := time.Now().UnixMicro()
	insert(t, s, job("q"))
	<-mine
	told, at, _ := strings.Cut(c.line(), " ")
	if told != "told" {
		t.Fatal(told)
	}
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("told after %v", time.Duration(n-committed)*time.Microsecond)
	if pause := lookAfter(time.Hour); pause > 50*time.Millisecond {
		t.Errorf("looks every %v, promised within 100 ms", pause)
	}
}

// A transaction of somebody who takes no turns is waited for.
func TestWaitsForOutsider(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	c := start(t, "hold", path, "")
	c.expect("holding")

	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := s.Insert(ctx, []store.NewJob{job("given up")})
		given <- err
	}()
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("insert given up: %v", err)
	}

	go func() {
		_, err := s.Insert(context.Background(), []store.NewJob{job("patient")})
		given <- err
	}()
	c.finish()
	if err := <-given; err != nil {
		t.Error(err)
	}
	jobs, err := s.Jobs(t.Context(), store.Filter{})
	if err != nil || len(jobs) != 1 || jobs[0].Queue != "patient" {
		t.Errorf("found %v, %v", jobs, err)
	}
}

// Several processes may create the file at once.
func TestOpenedByManyAtOnce(t *testing.T) {
	path := tempFile(t)
	children := make([]*child, 6)
	for i := range children {
		children[i] = start(t, "open", path, "")
	}
	for _, c := range children {
		c.expect("opened")
	}
	for _, c := range children {
		c.finish()
	}
	checkFile(t, path)
}
