//go:build !linux && !darwin

package sqlite

import (
	"errors"
	"os"
)

// Without open file description locks there is no turnstile between processes
// (SQLite's lock alone decides who writes next), and nothing is known at first
// hand of other processes.

func lockByte(*os.File, int64, bool) (bool, error) { return true, nil }

func unlockByte(*os.File, int64) error { return nil }

func byteLocked(*os.File, int64) (bool, error) { return false, errors.ErrUnsupported }

func bootID() string { return "" }
