package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A crew is the worker processes of one demo.
type crew struct {
	workers []*process
}

// A process is one worker process.
type process struct {
	number int
	cmd    *exec.Cmd
	hold   io.Closer     // closing it tells the worker to stop
	ended  chan struct{} // closed when the process is gone
	err    error         // how it ended; read after ended
	said   bytes.Buffer  // its stderr; read after ended
	once   sync.Once
	killed bool // by us, on purpose
}

// hire starts n workers; command makes the one with that number.
func hire(n int, command func(number int) *exec.Cmd) (*crew, error) {
	c := &crew{}
	for i := range n {
		p := &process{number: i + 1, cmd: command(i + 1), ended: make(chan struct{})}
		p.cmd.Stderr = &p.said
		hold, err := p.cmd.StdinPipe()
		if err == nil {
			err = p.cmd.Start()
		}
		if err != nil {
			c.dismiss(0)
			return nil, fmt.Errorf("worker process %d: %w", i+1, err)
		}
		p.hold = hold
		go func() {
			p.err = p.cmd.Wait()
			close(p.ended)
		}()
		c.workers = append(c.workers, p)
	}
	return c, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *process) kill() error {
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// fault returns why a worker ended by itself, or nil if none has.
func (c *crew) fault() error {
	for _, p := range c.workers {
		select {
		case <-p.ended:
			if !p.killed {
				return fmt.Errorf("worker process %d ended by itself (%v): %s", p.number, p.err, strings.TrimSpace(p.said.String()))
			}
		default:
		}
	}
	return nil
}

// dismiss has all workers stop, and kills those that are not gone after the
// patience. None is left when it returns.
func (c *crew) dismiss(patience time.Duration) {
	for _, p := range c.workers {
		p.once.Do(func() { _ = p.hold.Close() })
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, p := range c.workers {
		select {
		case <-p.ended:
		case <-late.C:
			late.Reset(0)
			_ = p.cmd.Process.Kill() // it has ended by itself if that fails
			<-p.ended
		}
	}
}
