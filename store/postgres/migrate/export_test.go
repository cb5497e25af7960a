package migrate

import (
	"testing"
	"time"
)

// SetLockTimeout sets lockTimeout until the test ends.
func SetLockTimeout(t *testing.T, d time.Duration) {
	before := lockTimeout
	lockTimeout = d
	t.Cleanup(func() { lockTimeout = before })
}

// LockKey is lockKey, for a test that holds the lock.
func LockKey(schema string) int64 { return lockKey(schema) }
