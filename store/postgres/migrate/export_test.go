package migrate

// LockKey is lockKey, for a test that holds the lock.
func LockKey(schema string) int64 { return lockKey(schema) }
