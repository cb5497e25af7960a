package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// live knows which workers' processes exist. A process holds a lock on one byte
// of a side file for each worker it registered; the kernel drops the lock when
// the process is gone, so its jobs can be taken back at once.
//
// A lock says that the process exists, and no more: one that was stopped or
// hangs keeps it. Heartbeats tell that.
type live struct {
	held  *os.File // holds our locks
	probe *os.File // asks: a lock is not seen through the file that holds it
	boot  string   // of this kernel

	mu    sync.Mutex
	ours  map[string]bool   // workers whose byte this store holds
	boots map[string]string // of workers read
}

func openLive(path string, mode os.FileMode) (*live, error) {
	held, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	probe, err := os.OpenFile(path, os.O_RDWR, mode)
	if err != nil {
		held.Close()
		return nil, err
	}
	return &live{held: held, probe: probe, boot: bootID(), ours: map[string]bool{}, boots: map[string]string{}}, nil
}

// byteOf spreads random worker ids over 62 bits: two of a million share a byte
// once in millions of machines, and then one counts as living for too long.
func byteOf(worker string) int64 {
	sum := sha256.Sum256([]byte(worker))
	return int64(binary.LittleEndian.Uint64(sum[:]) >> 2)
}

// mine reports whether this process is the worker's.
func (l *live) mine(w store.Worker) bool { return l.boot != "" && w.PID == os.Getpid() }

// register takes the worker's byte. It is called before the commit that makes
// the worker known, so nobody sees it without its lock.
func (l *live) register(worker string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ours[worker] {
		return nil
	}
	ok, err := lockByte(l.held, byteOf(worker), false)
	if ok {
		l.ours[worker] = true
	}
	return err
}

// drop gives the byte back, once nobody asks for the worker any more.
func (l *live) drop(worker string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.boots, worker)
	if !l.ours[worker] {
		return nil
	}
	delete(l.ours, worker)
	return unlockByte(l.held, byteOf(worker))
}

// learn keeps the boot that a worker's row tells.
func (l *live) learn(worker, boot string) {
	l.mu.Lock()
	l.boots[worker] = boot
	l.mu.Unlock()
}

// sees reports whether a death can be seen at all.
func (l *live) sees() bool { return l.boot != "" }

// alive answers for workers of this kernel that were read from the file before.
func (l *live) alive(worker string) engine.Liveness {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sees() || l.boots[worker] != l.boot {
		return engine.Unknown
	}
	locked, err := byteLocked(l.probe, byteOf(worker))
	switch {
	case err != nil:
		return engine.Unknown
	case locked:
		return engine.Living
	}
	return engine.Gone
}

func (l *live) close() error { return errors.Join(l.held.Close(), l.probe.Close()) }
