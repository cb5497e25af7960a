package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstockhq/penstock/store/engine"
)

// FileInfo is what SQLite and the file system say of the store's file. Sizes are
// in bytes.
type FileInfo struct {
	Path          string
	Schema, Known int64 // the version of its schema, and the newest this program knows
	Size          int64
	Unused        int64 // of Size: room that is used again before the file grows
	Log           int64 // of the write-ahead log beside it
	DiskFree      int64 // -1: not known
}

// FileInfo looks at the file.
func (s *Store) FileInfo(ctx context.Context) (FileInfo, error) {
	i := FileInfo{Path: s.path, DiskFree: diskFree(filepath.Dir(s.path))}
	steps, err := migrations()
	if err != nil {
		return i, err
	}
	i.Known = int64(len(steps))
	if info, err := os.Stat(s.path + "-wal"); err == nil {
		i.Log = info.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	err = s.look(ctx, func(t *tx) error {
		var page, pages, free int64
		for _, q := range []struct {
			sql  string
			into *int64
		}{{`PRAGMA user_version`, &i.Schema}, {`PRAGMA page_size`, &page}, {`PRAGMA page_count`, &pages}, {`PRAGMA freelist_count`, &free}} {
			if _, err := one(t, func(r row) { *q.into = r.int(0) }, q.sql); err != nil {
				return err
			}
		}
		i.Size, i.Unused = pages*page, free*page
		return nil
	})
	return i, err
}

// QuickCheck has SQLite read the whole file and look whether it fits together.
// It returns what does not, at most n findings, each a sentence of SQLite's.
func (s *Store) QuickCheck(ctx context.Context, n int) (findings []string, err error) {
	err = s.look(ctx, func(t *tx) error {
		return t.query(func(r row) {
			if text := r.text(0); text != "ok" {
				findings = append(findings, text)
			}
		}, fmt.Sprintf(`PRAGMA quick_check(%d)`, max(1, n)))
	})
	return findings, err
}

// look runs fn on a snapshot of the file.
func (s *Store) look(ctx context.Context, fn func(*tx) error) error {
	e, ok := s.Store.(*engine.Store)
	if !ok {
		return fmt.Errorf("the store over %s is %T", s.path, s.Store)
	}
	return e.DB().View(ctx, func(t engine.Tx) error {
		mine, ok := t.(*tx)
		if !ok {
			return fmt.Errorf("a transaction on %s is %T", s.path, t)
		}
		return fn(mine)
	})
}
