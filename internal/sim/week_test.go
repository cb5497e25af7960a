package sim

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "play this seed only; with -v its journal is shown")
	seedsFlag = flag.Int("sim.seeds", 0, "how many seeds to play; 0: as many as fit into a few seconds, at most 300")
	aloneFlag = flag.Bool("sim.alone", false, "play all seeds in this process, however many they are")
	fromFlag  = flag.Uint64("sim.from", 1, "the first seed")
)

func TestMain(m *testing.M) {
	OneThread()
	debug.SetGCPercent(-1) // see worlds
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// TestWeek plays seeds. Ten thousand of them are some four days of virtual time.
func TestWeek(t *testing.T) {
	if *seedFlag != 0 {
		var trace func(string)
		if testing.Verbose() {
			trace = func(line string) { fmt.Println(line) }
		}
		report(t, Run(t, *seedFlag, Options{Trace: trace}))
		return
	}
	if cores := runtime.NumCPU(); !*aloneFlag && *seedsFlag >= 1000 && cores > 1 {
		spread(t, cores)
		return
	}
	n, until := *seedsFlag, time.Now().Add(1000*time.Hour)
	if n == 0 {
		n, until = 300, time.Now().Add(10*time.Second)
	}
	var sum Report
	sum.Facts = map[string]int{}
	began, played := time.Now(), 0
	for ; played < n && time.Now().Before(until); played++ {
		r := watched(t, *fromFlag+uint64(played))
		report(t, r)
		sum.Simulated += r.Simulated
		sum.Orders += r.Orders
		sum.Starts += r.Starts
		for k, v := range r.Facts {
			sum.Facts[k] += v
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d seeds, %v of virtual time, %d jobs, %d starts, in %v", played, sum.Simulated.Round(time.Minute), sum.Orders, sum.Starts, time.Since(began).Round(time.Millisecond))
	t.Logf("met: %v", sum.Facts)
}

// spread plays the seeds in as many processes as there are cores, since each runs
// on one thread.
func spread(t *testing.T, cores int) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	each := (*seedsFlag + cores - 1) / cores
	for i := range cores {
		from := *fromFlag + uint64(i*each)
		n := min(each, *seedsFlag-i*each)
		if n <= 0 {
			break
		}
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestWeek$", "-test.v", "-test.timeout=0",
				fmt.Sprintf("-sim.from=%d", from), fmt.Sprintf("-sim.seeds=%d", n), "-sim.alone")
			out, err := cmd.CombinedOutput()
			t.Logf("seeds %d to %d:\n%s", from, from+uint64(n)-1, out)
			if err != nil {
				t.Errorf("seeds %d to %d: %v", from, from+uint64(n)-1, err)
			}
		})
	}
	all.Wait()
}

// watched plays a seed and tells which one it was if it does not end: work that
// goes round in circles within one instant holds virtual time up.
func watched(t *testing.T, seed uint64) Report {
	dog := time.AfterFunc(time.Minute, func() {
		panic(fmt.Sprintf("seed %d does not end; replay: go test ./internal/sim -run 'TestWeek$' -sim.seed=%d -v", seed, seed))
	})
	defer dog.Stop()
	return Run(t, seed, Options{})
}

func report(t *testing.T, r Report) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("seed %d: %v", r.Seed, v)
	}
	if len(r.Violations) > 0 {
		t.Errorf("replay: go test ./internal/sim -run 'TestWeek$' -sim.seed=%d -v", r.Seed)
	}
}
