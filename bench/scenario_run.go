package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// runScenario gives files of calls to the command line, without a limit, and
// watches its memory.
func runScenario(ctx context.Context, l *lab) error {
	bin := filepath.Join(l.dir, "penstock")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/penstock")
	build.Dir = ".." // another module
	if said, err := build.CombinedOutput(); err != nil {
		l.say("left out, since the command does not build: %s", bytes.TrimSpace(said))
		return nil
	}
	sizes := []int{pick(l, 20_000, 1_000), pick(l, 200_000, 5_000)}
	for round := range min(l.rounds, pick(l, 2, 1)) {
		for _, n := range sizes {
			if err := runOnce(ctx, l, round, bin, n); err != nil {
				return fmt.Errorf("%d calls: %w", n, err)
			}
		}
	}
	l.ratio("peak RSS, many ÷ few calls", number(float64(sizes[1]))+" calls: peak RSS", number(float64(sizes[0]))+" calls: peak RSS")
	return nil
}

func runOnce(ctx context.Context, l *lab, round int, bin string, n int) error {
	db, err := l.path("run.db")
	if err != nil {
		return err
	}
	defer l.forget(db)
	api, err := serve(ctx, apisim.Config{})
	if err != nil {
		return err
	}
	defer api.close()
	file := filepath.Join(filepath.Dir(db), "calls.jsonl")
	if err := writeCalls(file, api.url, n); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, bin, "run", file, "--db", db, "--quiet", "--out", file+".out")
	cmd.Stdout, cmd.Stderr = &said, &said
	before := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	watch, stop := context.WithCancel(ctx)
	peak := watchRSS(watch, cmd.Process.Pid)
	err = cmd.Wait()
	took := time.Since(before)
	stop()
	mib := <-peak
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if calls := len(api.sim.Log()); calls != n {
		return fmt.Errorf("the API got %d calls", calls)
	}
	name := number(float64(n)) + " calls"
	rate := float64(n) / took.Seconds()
	l.add(name, "calls/s", rate)
	l.add(name+": peak RSS", "MiB", mib)
	l.say("round %d: %s: %.0f calls/s with loading and results, peak %.0f MiB", round+1, name, rate, mib)
	return nil
}

// watchRSS reads a process's peak memory until ctx ends.
func watchRSS(ctx context.Context, pid int) <-chan float64 {
	peak := make(chan float64, 1)
	go func() {
		most := 0.0
		for ctx.Err() == nil {
			if mib, ok := procRSS(pid, "VmHWM"); ok {
				most = max(most, mib)
			}
			time.Sleep(20 * time.Millisecond)
		}
		peak <- most
	}()
	return peak
}

func writeCalls(path, url string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, `{"id":"call-%d","url":"%s/call/%d","body":{"to":"+441632960001","text":"number %d"}}`+"\n", i, url, i, i)
	}
	return w.Flush()
}
