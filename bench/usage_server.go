package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat: Linux shows programs 100 a second
// on every machine.
const tick = time.Second / 100

// procStat is what is read of /proc/PID/stat.
type procStat struct {
	name    string
	parent  int
	own     time.Duration // processor time, user and system
	waited  time.Duration // of its children that ended
	present bool
}

func statOf(pid int) (s procStat) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s
	}
	return parseStat(string(text))
}

// parseStat reads the fields: the second one, a name in parentheses, may hold
// blanks and parentheses.
func parseStat(text string) (s procStat) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s
	}
	fields := strings.Fields(text[end+1:]) // the first one is the third
	if len(fields) < 15 {
		return s
	}
	number := func(nth int) int64 {
		n, _ := strconv.ParseInt(fields[nth-3], 10, 64)
		return n
	}
	return procStat{
		name: text[open+1 : end], parent: int(number(4)), present: true,
		own: time.Duration(number(14)+number(15)) * tick, waited: time.Duration(number(16)+number(17)) * tick,
	}
}

// parentOf is the first process of the server that has a backend with this id here;
// 0 if there is none.
func parentOf(backend int) int {
	s := statOf(backend)
	if !s.present || s.name != "postgres" || statOf(s.parent).name != "postgres" {
		return 0
	}
	return s.parent
}

// serverCPU is the processor time that all processes of a server used so far, those
// that ended among them. 0 if it cannot be seen.
func serverCPU(postmaster int) time.Duration {
	if postmaster == 0 {
		return 0
	}
	for {
		first := statOf(postmaster)
		sum := first.own + first.waited
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				if s := statOf(pid); s.present && s.parent == postmaster {
					sum += s.own
				}
			}
		}
		if statOf(postmaster).waited == first.waited { // else one ended meanwhile: it was counted twice, or not
			return sum
		}
	}
}

// ofServer runs fn and returns what the server spent meanwhile.
func (l *lab) ofServer(fn func() error) (time.Duration, error) {
	if l.server == nil {
		return 0, fn()
	}
	before := serverCPU(l.server.postmaster)
	err := fn()
	return serverCPU(l.server.postmaster) - before, err
}
