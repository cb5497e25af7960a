package results

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/flock"
)

// ErrInUse says that another process writes the file.
var ErrInUse = errors.New("another process is writing it: give each its own file")

// ErrNotRegular refuses a pipe, a terminal, a folder.
var ErrNotRegular = errors.New("not a regular file: results are put right after a crash, which needs one")

// A ForeignError refuses a file that holds something else than this run's
// results, since writing it could destroy them.
type ForeignError struct {
	Path string
	Line int64
	Text string // what is there instead
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: line %d %s: move the file away, or name another one", e.Path, e.Line, e.Text)
}

// Source is what is needed of a client.
type Source interface {
	Jobs(ctx context.Context, f penstock.Filter) ([]penstock.JobInfo, error)
	Events(ctx context.Context, id int64) ([]penstock.Event, error)
	CallIDs(ctx context.Context, run string, refs []string) (map[string]int64, error)
}

// File is a run's file of results. It is for one goroutine at a time.
type File struct {
	path string
	run  string
	src  Source
	f    *os.File

	written idSet // jobs that have a line
	lines   int64
	pruned  int64 // lines beside those, of calls whose jobs are not kept any more
	fetch   int   // how many results to read at a time
	ours    bool  // the file is known to be this run's
	redo    bool  // a job may have more than one line
}

// Open opens or creates the file of a run, and puts it right: a torn tail is cut
// off, and lines of jobs that were replayed since are taken out.
func Open(ctx context.Context, path, run string, src Source) (*File, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // so that a rewrite replaces the file and not the link
	}
	f := &File{path: path, run: run, src: src, fetch: 1}
	if err := f.open(); err != nil {
		return nil, err
	}
	if err := f.Reconcile(ctx); err != nil {
		_ = f.f.Close() // the first error is the one that matters
		return nil, err
	}
	return f, nil
}

// open takes the file for this process.
func (f *File) open() error {
	for {
		if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w", f.path, ErrNotRegular) // opening a pipe could wait for ever
		}
		file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		same, err := f.take(file)
		if err == nil && same {
			f.f = file
			return nil
		}
		_ = file.Close()
		if err != nil {
			return err
		}
	}
}

// take locks the file, and says whether it is still the one at the path.
func (f *File) take(file *os.File) (same bool, err error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	ok, err := flock.Try(file)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, fmt.Errorf("%s: %w", f.path, ErrInUse)
	}
	there, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// Lines is how many lines the file has.
func (f *File) Lines() int64 { return f.lines + f.pruned }

// Finish writes what is missing, makes sure that every ended job of the run that is
// kept has exactly one line, and leaves the file on the disk. Close comes after it.
func (f *File) Finish(ctx context.Context) error {
	for range 10 {
		ended, err := f.WriteMissing(ctx)
		if err != nil {
			return err
		}
		if !f.redo && ended == f.lines {
			break
		}
		// Jobs were replayed while the run went on. If somebody goes on replaying
		// them, a later run has to put it right.
		if err := f.Reconcile(ctx); err != nil {
			return err
		}
		f.redo = true // until a look finds nothing to do
		if _, err := f.WriteMissing(ctx); err != nil {
			return err
		}
		f.redo = false
	}
	return f.f.Sync()
}

// Close lets go of the file.
func (f *File) Close() error { return f.f.Close() }
