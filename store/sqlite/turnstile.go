package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// turnstile lets the writers of several processes in, in the order they came.
// SQLite lets whoever asks at the right moment write next, and its back-off sleeps
// longer the longer one has waited: of eight busy processes some get nothing.
//
// It is a line of tickets, each a byte of a side file that its holder has locked.
// Who comes takes the next number and waits for the lock of the number before its
// own; who leaves unlocks its own, which wakes exactly the next one. The kernel
// unlocks for a process that dies. If it died in line, the one behind it comes too
// early, and waits for SQLite's lock instead: this is about order, exclusion is
// SQLite's. Transactions of others (a program's own, a shell's) stand in no line.
type turnstile struct {
	file    *os.File
	ticket  int64      // ours, while we are in
	entered chan error // a pending entry's end; nil if none is pending
}

// The last number given is in the first 8 bytes of the file, under gateByte's
// lock. Locks lie far behind the file's end.
const (
	gateByte  = 1 << 40
	ticketsAt = 1 << 41
)

func openTurnstile(path string, mode os.FileMode) (*turnstile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	return &turnstile{file: f}, nil
}

// enter waits for its turn. If ctx ends first, the place in line is kept, and the
// next enter goes on waiting in it.
func (s *turnstile) enter(ctx context.Context) error {
	if s.entered == nil {
		in, err := s.take()
		if in || err != nil {
			return err
		}
		entered := make(chan error, 1)
		s.entered = entered
		go func() { entered <- s.await(true) }()
	}
	select {
	case err := <-s.entered:
		s.entered = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take draws a ticket, and reports whether it is its turn already. Nobody stays
// at the gate, so it is waited for without more ado.
func (s *turnstile) take() (in bool, err error) {
	if _, err := lockByte(s.file, gateByte, true); err != nil {
		return false, err
	}
	err = s.draw()
	if err = errors.Join(err, unlockByte(s.file, gateByte)); err != nil {
		return false, err
	}
	switch err := s.await(false); err {
	case errNotYet:
		return false, nil
	default:
		return err == nil, err
	}
}

func (s *turnstile) draw() error {
	var b [8]byte
	if _, err := s.file.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	s.ticket = int64(binary.LittleEndian.Uint64(b[:])&(1<<40-1)) + 1
	binary.LittleEndian.PutUint64(b[:], uint64(s.ticket))
	if _, err := s.file.WriteAt(b[:], 0); err != nil {
		return err
	}
	_, err := lockByte(s.file, ticketsAt+s.ticket, false)
	return err
}

var errNotYet = errors.New("somebody else's turn")

// await waits until the ticket before ours is given back.
func (s *turnstile) await(wait bool) error {
	before := ticketsAt + s.ticket - 1
	ok, err := lockByte(s.file, before, wait)
	if err == nil && !ok {
		err = errNotYet
	}
	if err != nil {
		return err
	}
	return unlockByte(s.file, before)
}

// leave lets the next one in.
func (s *turnstile) leave() error { return unlockByte(s.file, ticketsAt+s.ticket) }

// close gives everything up. A place still held in line is given up when it is
// reached.
func (s *turnstile) close() error {
	if entered := s.entered; entered != nil {
		go func() {
			<-entered
			s.file.Close()
		}()
		return nil
	}
	return s.file.Close()
}
