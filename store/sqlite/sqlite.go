// Package sqlite keeps a Penstock store in one SQLite file, for any number of
// processes of one machine. It needs no cgo.
//
// Every commit is on the disk before a call returns. Updates of one process that
// wait at the same time share a commit; processes take turns.
//
// Beside the file stand SQLite's own -wal and -shm, and two small ones of this
// package that hold nothing but locks: -lock, where writers of several processes
// line up, and -live, which tells whose process is gone. Delete them only while
// nobody has the file open. Network file systems are refused, since their locks
// cannot be relied on.
//
// Locks of SQLite belong to a process. A process that has the file open through
// this package must not open it through another SQLite library, and must not
// open and close the file itself (to copy it, say): both drop SQLite's locks and
// can damage the file. A transaction of one's own on the same file goes through
// database/sql with this module's driver, named "sqlite", or runs in another
// process with any driver.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	sqlite "modernc.org/sqlite"
)

// Options of Open. The zero value is good.
type Options struct {
	// Now is the store's clock, in microseconds since the Unix epoch. Nil: the
	// machine's. All processes on a file should have the same.
	Now func() int64
	// Adopt lets a database that holds other tables become a Penstock database,
	// too, so that jobs can be inserted in the transactions that write those
	// tables. Its application_id and user_version must be 0; both are taken.
	// All names Penstock adds begin with penstock_.
	Adopt bool
}

// Store is a store in a file.
type Store struct {
	store.Store
	path string
}

// Path is the file's, with symbolic links followed.
func (s *Store) Path() string { return s.path }

// Open opens the store in the file at path, and creates it (mode 0600, in an
// existing directory) or brings its schema up to date where needed.
//
// Errors: store.ErrNotOurs for a file of somebody else, store.ErrNewerSchema,
// store.ErrBusy if others kept it locked for 30 seconds, ErrNetworkFS,
// ErrTwoNames, ErrReadOnly, ErrCorrupt, ErrDiskFull, ErrIO, or the file system's
// (fs.ErrNotExist for a missing directory).
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	db, err := openDB(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, orFull(path, err))
	}
	return &Store{Store: engine.New(db), path: db.path}, nil
}

// db is engine.DB on one file.
type db struct {
	path    string
	turn    *turnstile
	live    *live
	writer  *writer
	readers *readers
	watcher *watcher

	closing  sync.Once
	closeErr error
}

var _ engine.DB = (*db)(nil)

func openDB(ctx context.Context, path string, o Options) (*db, error) {
	// SQLite on Linux normally syncs without the file's timestamps; the driver does
	// so only when asked. Where it cannot, it says so, and nothing is lost.
	_, _ = sqlite.Fdatasync(true)

	path, mode, err := settle(path)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMicro() }
	}
	// Nothing is written beside a file that turns out to be somebody else's.
	probe, err := connect(path)
	if err != nil {
		return nil, err
	}
	if err := patiently(ctx, func(ctx context.Context) error { _, _, err := examine(ctx, probe, o.Adopt); return err }); err != nil {
		return nil, errors.Join(err, probe.close())
	}
	d := &db{path: path}
	if err := errors.Join(d.open(ctx, mode, o), probe.close()); err != nil {
		return nil, errors.Join(err, d.free())
	}
	go d.writer.loop()
	return d, nil
}

// open fills d. What it leaves after an error is for free.
func (d *db) open(ctx context.Context, mode os.FileMode, o Options) (err error) {
	if d.turn, err = openTurnstile(d.path+"-lock", mode); err != nil {
		return err
	}
	if d.live, err = openLive(d.path+"-live", mode); err != nil {
		return err
	}
	c, err := connect(d.path, `synchronous = full`, `temp_store = memory`, `cache_size = -16000`, `journal_size_limit = 67108864`)
	if err != nil {
		return err
	}
	d.writer = newWriter(c, d.turn, d.live, o.Now)
	if err := d.setUp(ctx, o.Adopt); err != nil {
		return err
	}
	opened, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	d.writer.same = func() error { return sameFile(d.path, opened) }
	watch, err := connect(d.path, `query_only = 1`)
	if err != nil {
		return err
	}
	d.watcher = newWatcher(watch, d.path)
	d.writer.tell = d.watcher.committed
	d.readers = newReaders(d.path, o.Now, d.live)
	return nil
}

// sameFile returns ErrReplaced if path leads to another file than it did. Writes
// to a file that nobody can find any more would all seem to succeed.
func sameFile(path string, opened os.FileInfo) error {
	now, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is gone", ErrReplaced, path)
	case err != nil:
		return fmt.Errorf("look whether the database is still in its place: %w", err)
	case !os.SameFile(now, opened):
		return fmt.Errorf("%w: %s is another file", ErrReplaced, path)
	}
	return nil
}

// setUp migrates in turn with others that open the file at the same time.
func (d *db) setUp(ctx context.Context, adopt bool) error {
	return patiently(ctx, func(ctx context.Context) error {
		if err := d.turn.enter(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", store.ErrBusy, err)
			}
			return err
		}
		return errors.Join(migrate(ctx, d.writer.conn, adopt), d.turn.leave())
	})
}

// patiently bounds how long do waits for others.
func patiently(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	return do(ctx)
}

// settle finds the file's one name, for that of the side files depends on it,
// and creates it if it is not there. The mode returned is for the side files.
//
// The file is never opened here if it exists: closing it again would drop the
// locks that this process may hold on it through another connection.
func settle(path string) (string, os.FileMode, error) {
	if path == "" {
		return "", 0, errors.New("expected the path of a file, got none")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", 0, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", 0, fmt.Errorf("directory %s does not exist: create it first: %w", filepath.Dir(abs), fs.ErrNotExist)
		}
		return "", 0, err
	}
	abs = filepath.Join(dir, filepath.Base(abs))
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if err := checkFileSystem(filepath.Dir(abs)); err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		return abs, 0o600, f.Close()
	case !errors.Is(err, fs.ErrExist):
		return "", 0, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%w: expected a regular file, it is %v", store.ErrNotOurs, info.Mode().Type())
	}
	if n := info.Size(); n > 0 && n < 512 { // SQLite's smallest page; it would take such a file for an empty one
		return "", 0, fmt.Errorf("%w: the file has %d bytes, too few for a database", store.ErrNotOurs, n)
	}
	if err := checkNames(abs, info); err != nil {
		return "", 0, err
	}
	return abs, info.Mode().Perm() & 0o666, nil
}

func (d *db) Update(ctx context.Context, fn func(engine.Tx) error) error {
	return orFull(d.path, d.writer.update(ctx, fn))
}

// Append is Update: a file has one writer.
func (d *db) Append(ctx context.Context, fn func(engine.Tx) error) error { return d.Update(ctx, fn) }

func (d *db) View(ctx context.Context, fn func(engine.Tx) error) error {
	return orFull(d.path, d.readers.view(ctx, fn))
}

// Overlaps is false.
func (d *db) Overlaps() bool { return false }

// Told is false: a look costs little here.
func (d *db) Told() bool { return false }

// Peek is View.
func (d *db) Peek(ctx context.Context, fn func(engine.Tx) error) error { return d.View(ctx, fn) }

func (d *db) Alive(w store.Worker) engine.Liveness { return d.live.alive(w.ID) }

// SeesDeaths is true where the system tells which processes there are.
func (d *db) SeesDeaths() bool { return d.live.sees() }

func (d *db) Watch(ctx context.Context) <-chan struct{} { return d.watcher.watch(ctx) }

// Close waits for updates and views under way.
func (d *db) Close() error {
	d.closing.Do(func() {
		d.writer.close()
		d.closeErr = d.free()
	})
	return d.closeErr
}

// free closes what is open.
func (d *db) free() error {
	var errs []error
	if d.readers != nil {
		errs = append(errs, d.readers.close())
	}
	if d.watcher != nil {
		errs = append(errs, d.watcher.close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.conn.close())
	}
	if d.live != nil {
		errs = append(errs, d.live.close())
	}
	if d.turn != nil {
		errs = append(errs, d.turn.close())
	}
	return errors.Join(errs...)
}
