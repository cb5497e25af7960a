package sqlite

import (
	"errors"
	"os"
	"testing"

	"github.com/penstockhq/penstock/store"
)

func TestFileInfo(t *testing.T) {
	s, err := Open(t.Context(), tempFile(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i, err := s.FileInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i.Path != s.Path() || i.Schema != i.Known || i.Schema < 1 || i.Size < 4096 || i.Log <= 0 || i.Unused < 0 || i.DiskFree == 0 {
		t.Errorf("%+v", i)
	}
	if found, err := s.QuickCheck(t.Context(), 5); err != nil || len(found) != 0 {
		t.Errorf("a fresh file: %q, %v", found, err)
	}
}

// A page in the middle of the file is overwritten.
func TestQuickCheckFindsDamage(t *testing.T) {
	path := tempFile(t)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]store.NewJob, 500)
	for i := range jobs {
		jobs[i] = store.NewJob{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}, Payload: make([]byte, 500)}
	}
	if _, err := s.Insert(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // the log goes into the file
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(i * 7)
	}
	for page := info.Size() / 4096 / 2; page < info.Size()/4096; page += 3 {
		if _, err := f.WriteAt(noise, page*4096); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := s.QuickCheck(t.Context(), 3)
	if len(found) == 0 && !errors.Is(err, ErrCorrupt) || len(found) > 3 {
		t.Errorf("found %q, %v; expected up to three findings", found, err)
	}
}
