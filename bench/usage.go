package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is the most memory this process had, in MiB. On Linux rusage would
// tell of the parent's, too, up to the exec; the kernel's own mark does not.
func peakRSS() float64 {
	if mib, ok := procRSS(os.Getpid(), "VmHWM"); ok {
		return mib
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return float64(u.Maxrss) / (1 << 20)
	}
	return float64(u.Maxrss) / (1 << 10)
}

// procRSS reads a size of a process in MiB: VmHWM (peak) or VmRSS (now).
func procRSS(pid int, name string) (float64, bool) {
	kib, ok := strings.CutSuffix(field(fmt.Sprintf("/proc/%d/status", pid), name), " kB")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(kib, 64)
	return n / 1024, err == nil
}
