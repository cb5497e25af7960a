//go:build unix

package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that the command gets, too.
var passedOn = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2}

// ends says whether the signal ends a process that does nothing about it.
func ends(s syscall.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// inForeground says whether this process and its command are what a terminal's keys
// are for, wherever standard input comes from.
func inForeground() bool {
	tty, err := os.Open("/dev/tty") // an error says that there is none
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
