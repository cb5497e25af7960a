package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// childEnv names the step that this process is to run.
const childEnv = "PENSTOCK_BENCH_STEP"

// profileEnv is the file for the CPU profile of the step, if one is wanted.
const profileEnv = "PENSTOCK_BENCH_PROFILE"

// steps are all that processes of this program can be told to do.
var steps = map[string]func(ctx context.Context, args []byte) (any, error){}

// A step is a function that runs in a process of its own.
type step[A, R any] struct{ name string }

func newStep[A, R any](name string, run func(ctx context.Context, args A) (R, error)) step[A, R] {
	steps[name] = func(ctx context.Context, raw []byte) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, err
		}
		return run(ctx, args)
	}
	return step[A, R]{name}
}

// A usage is what a process used in its life.
type usage struct {
	CPU time.Duration `json:"cpu_ns"`
	RSS float64       `json:"rss_mib"` // peak
}

// envelope is what a child prints.
type envelope struct {
	Result json.RawMessage `json:"result"`
	usage
}

// A pending step runs in its process.
type pending[R any] struct {
	cmd    *exec.Cmd
	hold   io.Closer
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// run runs the step and returns what it returned.
func (s step[A, R]) run(ctx context.Context, l *lab, args A) (R, usage, error) {
	p, err := s.start(ctx, l, args)
	if err != nil {
		var none R
		return none, usage{}, err
	}
	return p.wait()
}

// start begins the step; wait must be called. The process is killed when ctx
// ends, and ends by itself when this process does.
func (s step[A, R]) start(ctx context.Context, l *lab, args A) (*pending[R], error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &pending[R]{cmd: exec.CommandContext(ctx, self, string(raw))}
	p.cmd.Env = append(os.Environ(), childEnv+"="+s.name)
	if l.profiles != "" {
		l.files++
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("%s=%s", profileEnv, filepath.Join(l.profiles, fmt.Sprintf("%03d-%s-%s.pprof", l.files, l.scenario, s.name))))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if p.hold, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

func (p *pending[R]) wait() (R, usage, error) {
	var result R
	var e envelope
	if err := p.cmd.Wait(); err != nil {
		return result, usage{}, fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &e); err != nil {
		return result, usage{}, fmt.Errorf("what the process printed: %w", err)
	}
	err := json.Unmarshal(e.Result, &result)
	return result, e.usage, err
}

// runChild runs one step in this process and returns the exit code.
func runChild(name string) int {
	signal.Ignore(os.Interrupt) // a terminal sends it to all; the parent decides
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent is gone
	}()
	if err := child(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(name string) (err error) {
	run := steps[name]
	if run == nil || len(os.Args) != 2 {
		return fmt.Errorf("no step %q, or not one argument", name)
	}
	if path := os.Getenv(profileEnv); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() { pprof.StopCPUProfile(); err = errors.Join(err, f.Close()) }()
	}
	result, err := run(context.Background(), []byte(os.Args[1]))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(envelope{raw, usage{cpuTime(), peakRSS()}})
}
