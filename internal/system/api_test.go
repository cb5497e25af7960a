//go:build unix

package system

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// patience bounds every wait. It is long: only a failure reaches it.
const patience = time.Minute

// vendor is a host with a pretend API at each path. They accept every call, and
// their logs tell whether they should have had to refuse one.
type vendor struct {
	URL  string
	apis map[string]*apisim.API // by path

	mu      sync.Mutex
	sent    map[string]time.Time // by key: when the handler began
	late    map[string]time.Duration
	by      map[string][]int         // pids by key
	gates   map[string]chan struct{} // by path: answers wait until it is closed
	arrived chan struct{}            // closed and renewed when a call has arrived
}

// newVendor serves APIs alike at the paths.
func newVendor(t *testing.T, c apisim.Config, paths ...string) *vendor {
	t.Helper()
	v := &vendor{apis: map[string]*apisim.API{}, sent: map[string]time.Time{}, late: map[string]time.Duration{}, by: map[string][]int{}, gates: map[string]chan struct{}{}, arrived: make(chan struct{})}
	// An API reads the clock while it counts a call, and its log can be read when
	// it has done so.
	c.Now = func() time.Time { v.tell(); return time.Now() }
	for _, p := range paths {
		api, err := apisim.New(c)
		if err != nil {
			t.Fatal(err)
		}
		v.apis[p] = api
	}
	s := httptest.NewServer(v)
	t.Cleanup(func() {
		v.open()
		for _, api := range v.apis {
			api.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	v.URL = s.URL
	return v
}

// ServeHTTP notes what the worker says of the call and has the API answer it.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api := v.apis[strings.TrimPrefix(r.URL.Path, "/")]
	if api == nil {
		http.NotFound(w, r)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if us, err := strconv.ParseInt(r.Header.Get(sentHeader), 10, 64); err == nil {
		v.mu.Lock()
		v.sent[key] = time.UnixMicro(us)
		if slot, err := strconv.ParseInt(r.Header.Get(slotHeader), 10, 64); err == nil && slot > 0 {
			v.late[key] = time.Duration(us-slot) * time.Microsecond
		}
		v.mu.Unlock()
	}
	if pid, err := strconv.Atoi(r.Header.Get(pidHeader)); err == nil {
		v.mu.Lock()
		v.by[key] = append(v.by[key], pid)
		v.mu.Unlock()
	}
	api.ServeHTTP(w, r)
	v.mu.Lock()
	gate := v.gates[strings.TrimPrefix(r.URL.Path, "/")]
	v.mu.Unlock()
	if gate != nil { // an answer as short as this leaves when we return
		<-gate
	}
}

// shut keeps the answers to calls that arrive at the paths from now on, until
// open. The API has counted the calls, and done what they asked for.
func (v *vendor) shut(paths ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range paths {
		if v.gates[p] == nil {
			v.gates[p] = make(chan struct{})
		}
	}
}

// open answers all calls.
func (v *vendor) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, gate := range v.gates {
		close(gate)
	}
	clear(v.gates)
}

// of selects the calls that a worker process made, as far as their keys tell.
func (v *vendor) of(calls []apisim.Call, w *worker) []apisim.Call {
	return v.from(calls, w.cmd.Process.Pid)
}

// from is of, for a process that says it is that one.
func (v *vendor) from(calls []apisim.Call, pid int) []apisim.Call {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(calls), func(c apisim.Call) bool { return !slices.Contains(v.by[c.Key], pid) })
}

// tell wakes those who await calls.
func (v *vendor) tell() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.arrived)
	v.arrived = make(chan struct{})
}

// await waits until the logs satisfy done, looking after each arrival.
func (v *vendor) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		v.mu.Lock()
		arrived := v.arrived
		v.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-arrived:
		case <-late:
			t.Fatalf("after %v the API still waits for %s; calls per path: %v", patience, what, v.counts())
		}
	}
}

// calls returns the log of a path.
func (v *vendor) calls(path string) []apisim.Call { return v.apis[path].Log() }

// awaitCalls waits until n calls have arrived at the path, and returns the log.
func (v *vendor) awaitCalls(t *testing.T, path string, n int) []apisim.Call {
	t.Helper()
	v.await(t, strconv.Itoa(n)+" calls", func() bool { return len(v.calls(path)) >= n })
	return v.calls(path)
}

func (v *vendor) counts() map[string]int {
	n := map[string]int{}
	for path := range v.apis {
		n[path] = len(v.calls(path))
	}
	return n
}

// jobOf is the job whose start the call belongs to.
func jobOf(c apisim.Call) int64 {
	text, _, _ := strings.Cut(c.Key, ".")
	id, _ := strconv.ParseInt(text, 10, 64) // a strange key is job 0, which no test has
	return id
}

// travel is how long a call may take from its handler to the API: what it takes
// more is the machine's doing, where many share it. Such a call is judged as if
// it had taken just so long.
const travel = 5 * time.Millisecond

// arrivals are the instants at which calls are judged, in order.
func (v *vendor) arrivals(t *testing.T, calls []apisim.Call) []time.Time {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	at := make([]time.Time, len(calls))
	moved, latest := 0, time.Duration(0)
	for i, c := range calls {
		at[i] = c.Arrival
		if most := v.sent[c.Key].Add(travel); most.Before(c.Arrival) {
			at[i] = most
			moved++
		}
		latest = max(latest, v.late[c.Key])
	}
	t.Logf("%d calls, %d travelled for more than %v, the latest left %v after its slot", len(calls), moved, travel, latest)
	slices.SortFunc(at, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
	return at
}

// judge fails the test if some window, wherever it starts, holds more than n of
// the calls.
func (v *vendor) judge(t *testing.T, calls []apisim.Call, n int, window time.Duration) {
	t.Helper()
	at := v.arrivals(t, calls)
	over, shortest := 0, window
	for i := n; i < len(at); i++ {
		if d := at[i].Sub(at[i-n]); d < window {
			over++
			shortest = min(shortest, d)
		}
	}
	if over > 0 {
		t.Errorf("%d times, %d calls arrived within less than %v; the shortest time was %v", over, n+1, window, shortest)
	}
}
