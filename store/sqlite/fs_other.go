//go:build !linux && !darwin

package sqlite

// checkFileSystem knows no portable way to ask.
func checkFileSystem(string) error { return nil }

// mountedAlone is a question for systems where a file can be mounted alone.
func mountedAlone(string) bool { return false }
