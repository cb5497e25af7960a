package sqlite

import (
	"context"
	"os"
)

// turnstile orders the writers of several processes. SQLite lets whoever asks at
// the right moment write next, and its back-off sleeps longer the longer one has
// waited: of eight busy processes some get nothing. Here a writer first takes
// the gate, then the room, and leaves the gate once it has the room. A writer
// that leaves the room finds the gate taken by the next one, so it cannot step in
// again at once.
//
// Only whoever takes part is ordered; transactions of others (a program's own, a
// shell's) still exclude each other by SQLite's lock.
type turnstile struct {
	file    *os.File
	entered chan error // a pending entry's end; nil if none is pending
}

const (
	gateByte = 0
	roomByte = 1
)

func openTurnstile(path string, mode os.FileMode) (*turnstile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	return &turnstile{file: f}, nil
}

// enter waits for the room. If ctx ends first, the entry stays pending, and the
// next enter waits for the same one.
func (s *turnstile) enter(ctx context.Context) error {
	if s.entered == nil {
		if ok, err := s.tryEnter(); ok || err != nil {
			return err
		}
		entered := make(chan error, 1)
		s.entered = entered
		go func() { entered <- s.waitEnter() }()
	}
	select {
	case err := <-s.entered:
		s.entered = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryEnter goes through if nobody is there.
func (s *turnstile) tryEnter() (bool, error) {
	ok, err := lockByte(s.file, gateByte, false)
	if !ok || err != nil {
		return false, err
	}
	ok, err = lockByte(s.file, roomByte, false)
	if e := unlockByte(s.file, gateByte); err == nil {
		err = e
	}
	return ok, err
}

func (s *turnstile) waitEnter() error {
	if _, err := lockByte(s.file, gateByte, true); err != nil {
		return err
	}
	_, err := lockByte(s.file, roomByte, true)
	if e := unlockByte(s.file, gateByte); err == nil {
		err = e
	}
	return err
}

// leave lets the next one in.
func (s *turnstile) leave() error { return unlockByte(s.file, roomByte) }

// close gives everything up. An entry still pending ends when it is let in.
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
