//go:build !linux

package sqlite

// walEvents would tell of writes to the write-ahead log; here nobody does.
type walEvents struct{}

func watchWAL(string) *walEvents { return nil }

func (*walEvents) channel() <-chan struct{} { return nil }

func (*walEvents) close() {}
