//go:build !linux && !darwin

package sqlite

func diskFree(string) int64 { return -1 }
