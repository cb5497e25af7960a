//go:build unix

package cli

import (
	"os"
	"syscall"
)

// passedOn are the signals that the command gets, too.
var passedOn = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2}

// ends says whether the signal ends a process that does nothing about it.
func ends(s syscall.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }
