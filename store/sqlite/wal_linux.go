package sqlite

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// walGather is how long writes are gathered into one event: a commit is several.
const walGather = 2 * time.Millisecond

// walEvents tells of writes to a file's write-ahead log, by whatever process, so
// that a process with nothing to do need not ask again and again (inotify(7)).
type walEvents struct {
	inotify *os.File
	written chan struct{}
	ended   chan struct{}
}

// watchWAL returns nil where the kernel does not tell.
func watchWAL(path string) *walEvents {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	if _, err := unix.InotifyAddWatch(fd, path+"-wal", unix.IN_MODIFY); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	e := &walEvents{inotify: os.NewFile(uintptr(fd), "inotify"), written: make(chan struct{}, 1), ended: make(chan struct{})}
	go e.read()
	return e
}

func (e *walEvents) read() {
	defer close(e.ended)
	events := make([]byte, 4096)
	for {
		if _, err := e.inotify.Read(events); err != nil {
			return // closed
		}
		select {
		case e.written <- struct{}{}:
		default:
		}
		time.Sleep(walGather)
	}
}

// channel is nil, and so never ready, where there are no events.
func (e *walEvents) channel() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.written
}

func (e *walEvents) close() {
	if e != nil {
		_ = e.inotify.Close()
		<-e.ended
	}
}
