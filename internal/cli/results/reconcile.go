package results

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstockhq/penstock"
)

// entry is a line that was found in the file.
type entry struct {
	n        int64 // its number
	from, to int64 // its bytes
	id       string
	finished int64
}

// span is a part of the file that goes.
type span struct{ from, to int64 }

// Reconcile reads the file, compares it with the store, and leaves in it one
// whole line for each job whose last end it tells, those of jobs that were pruned
// since, and nothing else.
func (f *File) Reconcile(ctx context.Context) error {
	f.written, f.lines, f.pruned, f.redo = idSet{}, 0, 0, false
	if _, err := f.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f.f, 256<<10)
	var drop []span
	var batch []entry
	at, n := int64(0), int64(0)
	for {
		text, whole, err := readLine(r)
		if err != nil {
			return err
		}
		if whole {
			n++
			e, fault := parse(text)
			if fault != "" {
				return &ForeignError{Path: f.path, Line: n, Text: fault}
			}
			e.n, e.from, e.to = n, at, at+int64(len(text))
			at = e.to
			batch = append(batch, e)
		}
		if !whole || len(batch) == page {
			if drop, err = f.judge(ctx, batch, drop); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if whole {
			continue
		}
		if err := f.checkTail(ctx, text, n+1); err != nil {
			return err
		}
		f.ours = true // from now on, what is written to it is
		if len(drop) > 0 {
			return f.rewrite(drop, at)
		}
		if len(text) > 0 {
			return f.f.Truncate(at)
		}
		return nil
	}
}

// readLine returns the next line with its end; not whole at the end of the file,
// with what is left there.
func readLine(r *bufio.Reader) (text []byte, whole bool, err error) {
	text, err = r.ReadBytes('\n')
	switch {
	case err == nil:
		return text, true, nil
	case errors.Is(err, io.EOF):
		return text, false, nil
	}
	return nil, false, err
}

// parse reads what is needed of a line, or says why it is not one of ours.
func parse(text []byte) (entry, string) {
	var l struct {
		ID       *string    `json:"id"`
		State    *string    `json:"state"`
		Finished *time.Time `json:"finished_at"`
	}
	if err := json.Unmarshal(text, &l); err != nil || l.ID == nil || l.State == nil || l.Finished == nil {
		return entry{}, "is not a result (expected a JSON object with id, state and finished_at)"
	}
	return entry{id: *l.ID, finished: l.Finished.UnixMicro()}, ""
}

// judge sorts out a batch of lines: what goes is added to drop.
func (f *File) judge(ctx context.Context, batch []entry, drop []span) ([]span, error) {
	if len(batch) == 0 {
		return drop, nil
	}
	refs := make([]string, len(batch))
	for i := range batch {
		refs[i] = batch[i].id
	}
	jobs, err := f.src.Jobs(ctx, penstock.Filter{Run: f.run, Refs: refs, N: len(refs)})
	if err != nil {
		return nil, err
	}
	byRef := make(map[string]*penstock.JobInfo, len(jobs))
	for i := range jobs {
		byRef[jobs[i].Ref] = &jobs[i]
	}
	gone, err := f.gone(ctx, refs, byRef)
	if err != nil {
		return nil, err
	}
	for i := range batch {
		e := &batch[i]
		if gone[e.id] {
			f.pruned++ // nothing else has its result any more
			continue
		}
		keep, err := f.keeps(ctx, e, byRef[e.id])
		if err != nil {
			return nil, err
		}
		if keep {
			f.lines++
		} else if last := len(drop) - 1; last >= 0 && drop[last].to == e.from {
			drop[last].to = e.to
		} else {
			drop = append(drop, span{e.from, e.to})
		}
	}
	return drop, nil
}

// gone tells which of the calls ended and were pruned.
func (f *File) gone(ctx context.Context, refs []string, kept map[string]*penstock.JobInfo) (map[string]bool, error) {
	var missing []string
	for _, ref := range refs {
		if kept[ref] == nil {
			missing = append(missing, ref)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	known, err := f.src.CallIDs(ctx, f.run, missing)
	gone := make(map[string]bool, len(known))
	for ref := range known {
		gone[ref] = true
	}
	return gone, err
}

// keeps says whether a line stays. Many runs have ids such as line-1, so an id
// alone proves nothing: it must have ended, now or before a replay, at exactly
// the instant the line says.
func (f *File) keeps(ctx context.Context, e *entry, j *penstock.JobInfo) (bool, error) {
	if j == nil {
		return false, &ForeignError{Path: f.path, Line: e.n, Text: fmt.Sprintf("is about id %q, which run %q does not have", e.id, f.run)}
	}
	if j.State.Ended() && j.FinishedAt == e.finished {
		f.ours = true
		return f.written.add(j.ID), nil
	}
	if f.ours {
		return false, nil
	}
	events, err := f.src.Events(ctx, j.ID)
	if err != nil {
		return false, err
	}
	for i := range events {
		if events[i].At == e.finished {
			f.ours = true
			return false, nil
		}
	}
	return false, &ForeignError{Path: f.path, Line: e.n, Text: fmt.Sprintf("tells of an end of id %q that run %q of this database never saw", e.id, f.run)}
}
