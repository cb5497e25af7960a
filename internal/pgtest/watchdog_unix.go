//go:build unix

package pgtest

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// watchScript ends what $2 names by its process id and removes $1, as soon as
// nobody holds the other end of its standard input any more.
const watchScript = `
trap '' HUP INT TERM
cat >/dev/null
pid=$(sed -n 1p "$2")
# Where it can be seen: the number may be another process's by now.
if [ -n "$pid" ] && [ -d /proc/self ]; then
	case $(readlink "/proc/$pid/cwd") in
	"$1"*) ;;
	*) pid= ;;
	esac
fi
if [ -n "$pid" ]; then
	kill -QUIT "$pid"
	kill -CONT "$pid"
	i=0
	while [ $i -lt 100 ] && kill -0 "$pid"; do
		sleep 0.1
		i=$((i + 1))
	done
	kill -KILL "$pid"
fi
rm -rf "$1"
`

// watchdog is a process that outlives this one for as long as it takes to end
// a server: no way for a process to end, SIGKILL among them, leaves one behind.
type watchdog struct {
	cmd   *exec.Cmd
	leash io.Closer
}

// watchOver sets a watchdog on the server whose process id stands in the first
// line of pidFile, while it runs, and whose files are in dir.
func watchOver(dir, pidFile string) (*watchdog, error) {
	cmd := exec.Command("sh", "-c", watchScript, "pgtest-watchdog", dir, pidFile)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	// Output goes nowhere: `go test` waits for whoever holds its own.
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := &watchdog{cmd, leash}
	held.Store(w, true)
	return w, nil
}

// held are the watchdogs of this process: a leash that nothing refers to would
// be collected, and closed, and the server would end.
var held sync.Map

// close lets the watchdog do its work, and waits.
func (w *watchdog) close() error {
	held.Delete(w)
	return errors.Join(w.leash.Close(), w.cmd.Wait())
}
