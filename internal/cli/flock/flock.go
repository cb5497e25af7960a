// Package flock holds a file against other processes for as long as it is open.
// The kernel lets go of it when the process ends, however it ends.
package flock

import (
	"context"
	"os"
	"time"
)

// Hold waits for the lock of a name, a file that exists while somebody holds or
// wants it, and returns what lets go of it. waiting is called once if somebody
// else has it.
func Hold(ctx context.Context, path string, waiting func()) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := wait(ctx, f, &waiting); err != nil {
			_ = f.Close()
			return nil, err
		}
		mine, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return func() {
				_ = os.Remove(path) // before the lock goes; a name left behind does no harm
				_ = f.Close()
			}, nil
		}
		_ = f.Close() // who had it removed the name before we got it
	}
}

func wait(ctx context.Context, f *os.File, waiting *func()) error {
	const look = 50 * time.Millisecond
	for {
		ok, err := Try(f)
		if ok || err != nil {
			return err
		}
		if *waiting != nil {
			(*waiting)()
			*waiting = nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
