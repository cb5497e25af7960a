//go:build !linux

package cli

import "os/exec"

// startTied starts a command. It outlives this process if that is killed.
func startTied(c *exec.Cmd) (ended <-chan error, err error) {
	if err := c.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	return done, nil
}
