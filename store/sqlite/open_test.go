package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/store"
)

// pragma changes a file from outside.
func pragma(t *testing.T, path string, statements ...string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if err := c.script(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

// mustRefuse opens a file that must be left as it is.
func mustRefuse(t *testing.T, path string, o Options, want error, says ...string) {
	t.Helper()
	before, _ := os.ReadFile(path)
	s, err := Open(t.Context(), path, o)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, want) {
		t.Fatalf("open: %v, expected %v", err, want)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("open: %q does not say %q", err, text)
		}
	}
	after, _ := os.ReadFile(path)
	if string(before) != string(after) {
		t.Error("a file that was refused was changed")
	}
	for _, side := range []string{"-lock", "-live"} {
		if _, err := os.Stat(path + side); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was written beside a file that was refused: %v", side, err)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	path := tempFile(t)
	pragma(t, path, fmt.Sprintf(`CREATE TABLE t (x); PRAGMA application_id = %d; PRAGMA user_version = 99`, applicationID))
	mustRefuse(t, path, Options{}, store.ErrNewerSchema, "version 99", "up to version 1")
}

func TestNotOurs(t *testing.T) {
	t.Run("other tables", func(t *testing.T) {
		path := tempFile(t)
		pragma(t, path, `CREATE TABLE t (x)`)
		mustRefuse(t, path, Options{}, store.ErrNotOurs, "Adopt")
	})
	t.Run("other application", func(t *testing.T) {
		path := tempFile(t)
		pragma(t, path, `PRAGMA application_id = 7; CREATE TABLE t (x)`)
		mustRefuse(t, path, Options{Adopt: true}, store.ErrNotOurs, "0x7")
	})
	t.Run("other version", func(t *testing.T) {
		path := tempFile(t)
		pragma(t, path, `PRAGMA user_version = 7; CREATE TABLE t (x)`)
		mustRefuse(t, path, Options{Adopt: true}, store.ErrNotOurs, "user_version is 7")
	})
	t.Run("no database", func(t *testing.T) {
		path := tempFile(t)
		if err := os.WriteFile(path, []byte(strings.Repeat("a letter to somebody\n", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, path, Options{}, store.ErrNotOurs)
	})
	t.Run("a short file", func(t *testing.T) {
		path := tempFile(t)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, path, Options{}, store.ErrNotOurs)
	})
	t.Run("a directory", func(t *testing.T) {
		if _, err := Open(t.Context(), t.TempDir(), Options{}); !errors.Is(err, store.ErrNotOurs) {
			t.Errorf("open: %v", err)
		}
	})
}

func TestAdopt(t *testing.T) {
	path := tempFile(t)
	pragma(t, path, `CREATE TABLE invoice (id INTEGER PRIMARY KEY)`)
	for range 2 { // the second time, it is known
		s, err := Open(t.Context(), path, Options{Adopt: true})
		if err != nil {
			t.Fatal(err)
		}
		insert(t, s, job("q"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The files are for nobody but the owner, whatever the umask.
func TestModes(t *testing.T) {
	withUmask(t, 0o022)
	path := tempFile(t)
	insert(t, open(t, path), job("q"))
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 { // itself, -wal, -shm, -lock, -live
		t.Errorf("found %q", files)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, expected 0600", filepath.Base(f), info.Mode().Perm())
		}
	}
}

func TestMissingDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "x.db")
	_, err := Open(t.Context(), path, Options{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "create it first") {
		t.Errorf("open: %v", err)
	}
}

// A name with characters that mean something in URIs, and a link to the file.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b?c#d%41&mode=memory.db")
	s := open(t, path)
	id := insert(t, s, job("q"))[0].ID
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	linked := open(t, link)
	if _, err := linked.Job(t.Context(), id); err != nil {
		t.Error(err)
	}
	if linked.Path() != s.Path() {
		t.Errorf("paths %q and %q of one file", linked.Path(), s.Path())
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A file under two names has two logs: whoever opens it under the second one is
// refused before anything is written, also while it is in use under the first.
func TestTwoHardLinksOfOneFileAreRefused(t *testing.T) {
	path := tempFile(t)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, s, job("q"))
	other := filepath.Join(filepath.Dir(path), "other.db")
	if err := os.Link(path, other); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	_, err = Open(t.Context(), other, Options{})
	if !errors.Is(err, ErrTwoNames) || !strings.Contains(err.Error(), "2 hard links") {
		t.Errorf("open under the second name: %v", err)
	}
	for _, side := range []string{"-lock", "-live", "-wal", "-shm"} {
		if _, err := os.Stat(other + side); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was written beside the second name: %v", side, err)
		}
	}
	insert(t, s, job("q")) // the first one goes on
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, other, Options{}, ErrTwoNames)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	insert(t, open(t, path), job("q"))
	checkFile(t, path)
}

// Closing one store must not drop the locks that another one of this process
// holds on the same file.
func TestTwoStoresInOneProcess(t *testing.T) {
	path := tempFile(t)
	a := open(t, path)
	for range 3 {
		b, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		insert(t, b, job("q"))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		insert(t, a, job("q"))
	}
	// Another process meets a's lock.
	c := start(t, "hold", path, "")
	c.expect("holding")
	c.finish()
	checkFile(t, path)
}

func TestClosed(t *testing.T) {
	s, err := Open(t.Context(), tempFile(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Insert(t.Context(), []store.NewJob{job("q")}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("insert: %v", err)
	}
	if _, err := s.Jobs(t.Context(), store.Filter{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("jobs: %v", err)
	}
}

func TestCorrupt(t *testing.T) {
	path := tempFile(t)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, s, job("q"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(b); i++ { // all but the first page
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), path, Options{})
	if err == nil {
		_, err = s.Insert(t.Context(), []store.NewJob{job("q")})
		s.Close()
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged file: %v", err)
	}
}

// The disk is full as far as SQLite can tell: the file may not grow.
func TestDiskFull(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	s := storeOn(d)
	insert(t, s, job("q"))
	var pages int64
	if _, err := one(d.writer.conn, func(r row) { pages = r.int(0) }, `PRAGMA page_count`); err != nil {
		t.Fatal(err)
	}
	if err := d.writer.conn.script(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+4)); err != nil {
		t.Fatal(err)
	}
	big := job("q")
	big.Payload = make([]byte, 1<<20)
	if _, err := s.Insert(t.Context(), []store.NewJob{big}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("insert: %v", err)
	}
	if err := d.writer.conn.script(`PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	insert(t, s, big) // once there is room
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "x.db"), Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("open: %v", err)
	}
}
