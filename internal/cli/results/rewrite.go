package results

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/penstockhq/penstock/internal/cli/flock"
)

// rewrite replaces the file by one without the dropped spans, which ends at end.
// Whoever looks sees the old file or the new one.
func (f *File) rewrite(drop []span, end int64) error {
	temp, err := f.copy(drop, end)
	if err != nil {
		return fmt.Errorf("rewriting %s: %w", f.path, err)
	}
	if err := os.Rename(temp.Name(), f.path); err != nil {
		_ = temp.Close()
		return err
	}
	_ = f.f.Close() // nothing was written to it
	f.f = temp
	return syncDir(filepath.Dir(f.path))
}

// copy writes what stays to a file beside, and takes that for this process.
func (f *File) copy(drop []span, end int64) (temp *os.File, err error) {
	info, err := f.f.Stat()
	if err != nil {
		return nil, err
	}
	// Only the holder of the file's lock gets here, so the name is free; what a
	// killed process left of it is overwritten.
	temp, err = os.OpenFile(f.path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, info.Mode().Perm())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
	}()
	if ok, err := flock.Try(temp); err != nil || !ok {
		return temp, fmt.Errorf("%w (lock: %v)", ErrInUse, err)
	}
	w := bufio.NewWriterSize(temp, 256<<10)
	at := int64(0)
	for _, d := range append(drop, span{end, end}) {
		if _, err := io.Copy(w, io.NewSectionReader(f.f, at, d.from-at)); err != nil {
			return temp, err
		}
		at = d.to
	}
	if err := w.Flush(); err != nil {
		return temp, err
	}
	return temp, temp.Sync()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // some systems cannot sync a folder; the file itself is safe
	return nil
}
