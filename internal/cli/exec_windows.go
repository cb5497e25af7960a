package cli

import (
	"os"
	"syscall"
)

var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}

func ends(syscall.Signal) bool { return true }

// inForeground is true: a console tells all of its processes.
func inForeground() bool { return true }
