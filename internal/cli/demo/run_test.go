package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// workerEnv has the test's binary be a worker process.
const workerEnv = "PENSTOCK_DEMO_TEST_WORKER"

func TestMain(m *testing.M) {
	text := os.Getenv(workerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var w Worker
	err := json.Unmarshal([]byte(text), &w)
	if err == nil {
		err = w.Run(context.Background(), os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bystander sees a demo, and remembers what is to be gone after it.
type bystander struct {
	t       *testing.T
	showing func(Status)

	mu      sync.Mutex
	started []*exec.Cmd
}

func (b *bystander) Told(m Moment) { b.t.Logf("%.1f s  %s", m.At.Seconds(), m.Text) }
func (b *bystander) Showing(s Status) {
	if b.showing != nil {
		b.showing(s)
	}
}

func (b *bystander) worker(w Worker) *exec.Cmd {
	text, err := json.Marshal(w)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	b.mu.Lock()
	b.started = append(b.started, cmd)
	b.mu.Unlock()
	return cmd
}

// nothingLeft checks that all processes are gone and the folder is empty.
func (b *bystander) nothingLeft(folder string) {
	b.t.Helper()
	for _, cmd := range b.started {
		if cmd.Process != nil && cmd.ProcessState == nil {
			b.t.Errorf("process %d is left behind", cmd.Process.Pid)
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) > 0 {
		b.t.Errorf("left behind: %v (%v)", left, err)
	}
}

func run(t *testing.T, ctx context.Context, o Options, showing func(Status)) (*Result, error) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	b := &bystander{t: t, showing: showing}
	o.Worker, o.Watch = b.worker, b
	if o.Algorithm == "" {
		o.Algorithm = apisim.Sliding
	}
	result, err := Run(ctx, o)
	b.nothingLeft(folder)
	return result, err
}

// timing are the claims that a machine which stands still for a moment can
// spoil: a call that was held up on its way meets the next ones at the API.
var timing = map[string]bool{"cap held": true, "hardly a refusal": true}

// In a whole demo every claim is true. What depends on timing gets a second and
// third chance, with other seeds; what does not, none.
func TestRun_AllClaimsAreTrue(t *testing.T) {
	for seed := uint64(1); ; seed++ {
		result, err := run(t, t.Context(), Options{Cap: 20, Seed: seed}, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := false
		for _, c := range result.Figures(seed).Claims {
			switch {
			case c.OK:
			case timing[c.Name] && seed < 3:
				t.Logf("seed %d: %s", seed, c.Detail)
				again = true
			default:
				t.Errorf("seed %d: false: %s: %s", seed, c.Name, c.Detail)
			}
		}
		if !again {
			return
		}
	}
}

// Calls in flight are capped over processes, too, and a kill gives them back.
func TestRun_InFlight(t *testing.T) {
	result, err := run(t, t.Context(), Options{Cap: 10, Algorithm: apisim.InFlight, Seed: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Figures(4).Claims {
		if !c.OK {
			t.Errorf("false: %s: %s", c.Name, c.Detail)
		}
	}
}

// Without the limit the demo must fail, and only for that.
func TestRun_WithoutTheLimitItFails(t *testing.T) {
	result, err := run(t, t.Context(), Options{Cap: 10, Seed: 1, NoLimit: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(falseOnes(&result.Evidence), ", ")
	if got != "cap held, hardly a refusal" {
		t.Errorf("false claims: %s", got)
	}
	if result.Late {
		t.Error("it did not end by itself")
	}
}

func TestRun_StoppedInTheMiddle(t *testing.T) {
	why := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	_, err := run(t, ctx, Options{Cap: 5, Seed: 1}, func(s Status) {
		if len(s.Calls) > 3 {
			stop(why)
		}
	})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// A worker that ends by itself is told with what it said.
func TestRun_WorkerThatEnds(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	b := &bystander{t: t}
	_, err := Run(t.Context(), Options{Cap: 5, Algorithm: apisim.Sliding, Watch: b, Worker: func(w Worker) *exec.Cmd {
		if w.Number == 2 {
			w.Database = folder // no file
		}
		return b.worker(w)
	}})
	if err == nil || !strings.Contains(err.Error(), "worker process 2 ended by itself (exit status 1)") || !strings.Contains(err.Error(), folder) {
		t.Errorf("got %v", err)
	}
	b.nothingLeft(folder)
}

func TestRun_WorkerThatCannotStart(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	b := &bystander{t: t}
	_, err := Run(t.Context(), Options{Cap: 5, Algorithm: apisim.Sliding, Watch: b, Worker: func(w Worker) *exec.Cmd {
		if w.Number == 3 {
			return exec.Command(filepath.Join(folder, "nothing"))
		}
		return b.worker(w)
	}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	b.nothingLeft(folder)
}
