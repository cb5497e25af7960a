package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/results"
)

// source is a store of one run.
type source struct {
	jobs   []penstock.JobInfo // by id
	events map[int64][]penstock.Event
	most   int // bodies that were asked for at a time
	pruned map[string]int64
}

func (s *source) Jobs(_ context.Context, f penstock.Filter) ([]penstock.JobInfo, error) {
	var out []penstock.JobInfo
	for _, j := range s.jobs {
		switch {
		case f.Run != "" && j.Run != f.Run, f.AfterID >= j.ID,
			len(f.States) > 0 && !slices.Contains(f.States, j.State),
			f.IDs != nil && !slices.Contains(f.IDs, j.ID),
			f.Refs != nil && !slices.Contains(f.Refs, j.Ref):
			continue
		}
		if len(out) < f.N {
			out = append(out, j)
		}
	}
	if f.Bodies {
		s.most = max(s.most, len(out))
	}
	return out, nil
}

func (s *source) CallIDs(_ context.Context, _ string, refs []string) (map[string]int64, error) {
	known := map[string]int64{}
	for _, ref := range refs {
		if id, ok := s.pruned[ref]; ok {
			known[ref] = id
		}
	}
	return known, nil
}

func (s *source) Events(_ context.Context, id int64) ([]penstock.Event, error) {
	return s.events[id], nil
}

// end lets a job end, as a store would.
func (s *source) end(id int64, state penstock.State, at int64) {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.ID == id {
			j.State, j.FinishedAt = state, at
			s.events[id] = append(s.events[id], penstock.Event{JobID: id, At: at})
		}
	}
}

func (s *source) add(n int) {
	for range n {
		id := int64(len(s.jobs) + 1)
		j := penstock.JobInfo{ID: id, State: penstock.Waiting, Ref: fmt.Sprintf("line-%d", id), Starts: 1}
		j.Run = "r"
		j.Result = []byte(`{"status":200,"response":{"n":12345678901234567890.50,"s":"<&> "},"truncated":false,"latency_seconds":0.25}`)
		s.jobs = append(s.jobs, j)
	}
}

func newSource(n int) *source {
	s := &source{events: map[int64][]penstock.Event{}}
	s.add(n)
	return s
}

func open(t *testing.T, path string, s *source) *results.File {
	t.Helper()
	f, err := results.Open(t.Context(), path, "r", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // an error if it was closed
	return f
}

// finish finishes the file and returns its lines as "id state".
func finish(t *testing.T, path string, f *results.File) []string {
	t.Helper()
	if err := f.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func read(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var l struct{ ID, State string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, l.ID+" "+l.State)
	}
	slices.Sort(got)
	return got
}

func TestALineKeepsTheResponseAsItIs(t *testing.T) {
	s := newSource(1)
	s.end(1, penstock.Done, 1_700_000_000_123_456)
	got, err := results.Line(&s.jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"line-1","state":"done","reason":null,"status":200,"attempts":1,"starts":1,"throttled":0,"latency_seconds":0.25,` +
		`"response":{"n":12345678901234567890.50,"s":"<&> "},"truncated":false,"finished_at":"2023-11-14T22:13:20.123456Z"}`
	if string(got) != want {
		t.Errorf("got      %s\nexpected %s", got, want)
	}
	s.jobs[0].Ref, s.jobs[0].Result = `"response":null`, nil
	if got, err = results.Line(&s.jobs[0]); err != nil || !json.Valid(got) || !strings.Contains(string(got), `"response":null,"truncated"`) {
		t.Errorf("%s %v", got, err)
	}
}

// A job that was replayed has the line of its last end only, whenever it was
// replayed: while the file is written, between two runs, or both.
func TestReplayedResultsAreReplaced(t *testing.T) {
	s := newSource(3)
	path := filepath.Join(t.TempDir(), "out")
	f := open(t, path, s)
	s.end(1, penstock.Dead, 100)
	s.end(2, penstock.Done, 200)
	if err := f.Add(t.Context(), []int64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	s.end(1, penstock.Dead, 300) // replayed, and dead again
	if err := f.Add(t.Context(), []int64{1}); err != nil {
		t.Fatal(err)
	}
	if got, want := finish(t, path, f), []string{"line-1 dead", "line-2 done"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
	s.jobs[0].State = penstock.Waiting // replayed, not over yet
	f = open(t, path, s)
	if got, want := read(t, path), []string{"line-2 done"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
	s.end(1, penstock.Done, 400)
	s.end(3, penstock.Cancelled, 500)
	if got, want := finish(t, path, f), []string{"line-1 done", "line-2 done", "line-3 cancelled"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
}

// A job that was replayed after its line was written, and has not ended again
// when the file is finished, has no line.
func TestAReplayedJobThatWaitsHasNoLine(t *testing.T) {
	s := newSource(2)
	path := filepath.Join(t.TempDir(), "out")
	f := open(t, path, s)
	s.end(1, penstock.Dead, 100)
	s.end(2, penstock.Done, 200)
	if err := f.Add(t.Context(), []int64{1, 2}); err != nil {
		t.Fatal(err)
	}
	s.jobs[0].State = penstock.Waiting
	if got, want := finish(t, path, f), []string{"line-2 done"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
}

// The only line of the file is of a job that was replayed: its history proves
// that the file is ours.
func TestHistoryProvesWhoseFileItIs(t *testing.T) {
	s := newSource(1)
	path := filepath.Join(t.TempDir(), "out")
	s.end(1, penstock.Dead, 100)
	finish(t, path, open(t, path, s))
	s.end(1, penstock.Dead, 200)
	if got := finish(t, path, open(t, path, s)); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	s.events[1] = nil
	s.jobs[0].FinishedAt = 300
	var foreign *results.ForeignError
	if _, err := results.Open(t.Context(), path, "r", s); !errors.As(err, &foreign) || foreign.Line != 1 {
		t.Errorf("expected line 1 to be foreign, got %v", err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	s := newSource(1)
	path := filepath.Join(t.TempDir(), "out")
	f := open(t, path, s)
	if _, err := results.Open(t.Context(), path, "r", s); !errors.Is(err, results.ErrInUse) {
		t.Errorf("a second writer got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, s)
}

func TestALinkIsFollowedAndAModeIsKept(t *testing.T) {
	s := newSource(2)
	s.end(1, penstock.Done, 100)
	s.end(2, penstock.Dead, 200)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out"), filepath.Join(dir, "link")
	finish(t, path, open(t, path, s))
	if err := errors.Join(os.Chmod(path, 0o640), os.Symlink("out", link)); err != nil {
		t.Skip(err)
	}
	s.end(2, penstock.Done, 300) // so that the file is rewritten
	if got := finish(t, link, open(t, link, s)); len(got) != 2 {
		t.Fatalf("got %v", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, expected 0640; %v", info.Mode(), err)
	}
}

// Many results are read in pages, large ones a few at a time.
func TestManyAndLargeResults(t *testing.T) {
	s := newSource(3000)
	big := []byte(`{"status":200,"response":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range s.jobs {
		if s.jobs[i].ID%500 == 0 {
			s.jobs[i].Result = big
		}
		s.end(s.jobs[i].ID, penstock.Done, int64(i+1))
	}
	path := filepath.Join(t.TempDir(), "out")
	if got := finish(t, path, open(t, path, s)); len(got) != 3000 {
		t.Errorf("%d lines", len(got))
	}
	if s.most > 200 {
		t.Errorf("%d results were read at a time", s.most)
	}
	f := open(t, path, s)
	if f.Lines() != 3000 {
		t.Errorf("%d lines were found", f.Lines())
	}
}

// A last line without an end is cut off only if it is the beginning of one of
// this run's: a file of somebody else may be one line without an end.
func TestOnlyAnOwnTornLineIsCutOff(t *testing.T) {
	s := newSource(3)
	s.end(1, penstock.Done, 1_000_000)
	s.end(2, penstock.Done, 2_000_000)
	s.jobs[1].Ref = `"odd",<id>`
	own := func(i int) string {
		l, err := results.Line(&s.jobs[i])
		if err != nil {
			t.Fatal(err)
		}
		return string(l)
	}
	one, two := own(0), own(1)
	path := filepath.Join(t.TempDir(), "out")
	for _, text := range []string{
		`hello`, `{"my":"precious"}`, `{"id":"precious"}`, `{"id":"line-1","name":"precious"}`, `[`, ` `, "\x00\x00",
		one[:len(one)-2] + "8",                         // another end of an id that we have
		`{"id":"line-3"`,                               // it has not ended
		`{"id":"line-1x`,                               // longer than ours
		one + "\n" + `hello`, one + "\n" + `{"my":"pr`, // behind our own
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var foreign *results.ForeignError
		if f, err := results.Open(t.Context(), path, "r", s); !errors.As(err, &foreign) {
			t.Errorf("%q: expected it to be refused, got %v", text, err)
			if err == nil {
				_ = f.Close()
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q was changed to %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", `{`, `{"id":"`, `{"id":"li`, `{"id":"line-1"`, one[:40], one, one[:60] + "\x00\x00\x00", two[:12], two[:70],
		one + "\n" + two[:30], one + "\n\x00\x00", one + "\n" + `{"id":"gone`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := finish(t, path, open(t, path, s)), []string{`"odd",<id> done`, "line-1 done"}; !slices.Equal(got, want) {
			t.Errorf("%q: got %v, expected %v", text, got, want)
		}
	}
}
