package cli

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a command that the kernel kills if this process dies, since
// its permits are free then. The kernel goes by the thread that started it, so
// that thread is kept until the command has ended.
func startTied(c *exec.Cmd) (ended <-chan error, err error) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			done <- c.Wait()
		}
	}()
	return done, <-started
}
