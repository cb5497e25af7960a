//go:build unix

package system

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// worker is a worker process, seen from the test.
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready chan struct{} // closed when it is about to work
	gone  chan struct{} // closed when it has ended; then cmd.ProcessState tells how
}

// start starts a worker process, see launch.
func start(t *testing.T, o orders, hear func(line string)) *worker {
	t.Helper()
	w, err := launch(t, o, hear)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// launch starts a worker process. What it says beyond "ready" goes to hear, if that
// is given, from one goroutine.
func launch(t *testing.T, o orders, hear func(line string)) (*worker, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ordersEnv+"="+string(text))
	return follow(t, cmd, hear)
}

// follow starts a process, which ends with the test at the latest.
func follow(t *testing.T, cmd *exec.Cmd, hear func(line string)) (*worker, error) {
	w := &worker{t: t, cmd: cmd, ready: make(chan struct{}), gone: make(chan struct{})}
	w.cmd.Stderr = os.Stderr
	if _, err := w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.gone)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "ready":
				close(w.ready)
			case hear != nil:
				hear(line)
			}
		}
		_ = w.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(w.kill)
	return w, nil
}

// starts starts n workers alike.
func starts(t *testing.T, n int, o orders) []*worker {
	t.Helper()
	ws := make([]*worker, n)
	for i := range ws {
		ws[i] = start(t, o, nil)
	}
	return ws
}

// kill is kill -9; it returns when the process is gone.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // an error if it is gone already
	<-w.gone
}

// stop is a deploy's SIGTERM; the process must end well.
func (w *worker) stop() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	w.ends()
}

// ends waits until the process has ended by itself, which must be well.
func (w *worker) ends() {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(patience):
		_ = w.cmd.Process.Signal(syscall.SIGQUIT) // it says where it stands
		<-w.gone
		w.t.Fatalf("after %v worker %d has not ended", patience, w.cmd.Process.Pid)
	}
	if s := w.cmd.ProcessState; !s.Success() {
		w.t.Errorf("worker %d ended with %v", s.Pid(), s)
	}
}

// stopAll stops workers, all at a time.
func stopAll(ws []*worker) {
	for _, w := range ws {
		w.t.Helper()
		if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, w := range ws {
		w.ends()
	}
}

// signal sends a signal to a process that must be there.
func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}
