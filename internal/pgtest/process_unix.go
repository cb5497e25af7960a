//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a server's first process. Its output is appended to a log.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	log   string
	since int64 // where in the log its output begins
}

// launch starts a process as the account, with nothing of the environment
// that is meant for other servers.
func launch(a *account, dir, log, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	info, err := out.Stat()
	if err != nil {
		return nil, err
	}
	cmd := a.command(dir, program, args...)
	cmd.Stdout, cmd.Stderr = out, out // files: `go test` waits for whoever holds its own output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: log, since: info.Size()}
	go func() {
		_ = cmd.Wait() // how it ended stands in the log
		close(p.done)
	}()
	return p, nil
}

// command is a program to be run by the account in the directory.
func (a *account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	// A group of its own: what Ctrl-C in a terminal ends is the tests, first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: a.credential()}
	return cmd
}

// said is what the process wrote to its log.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(text[min(p.since, int64(len(text))):]))
}

// end sends the signal and returns when the process has ended.
func (p *process) end(signal os.Signal) error {
	_ = p.cmd.Process.Signal(signal)          // it may have ended by itself
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // or be stopped
	select {
	case <-p.done:
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("%s, process %d, did not end within %v of %v", p.cmd.Path, p.cmd.Process.Pid, startTimeout, signal)
	}
}

// await returns when look finds no error, which it is asked until the process ends.
func (p *process) await(look func() error) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.After(startTimeout)
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at its start:\n%s", p.cmd.Path, p.said())
		case <-late:
			return fmt.Errorf("%s did not answer for %v: %w\n%s", p.cmd.Path, startTimeout, err, p.said())
		case <-again.C:
		}
	}
}
