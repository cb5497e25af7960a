package results

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock"
)

const (
	page       = 1000    // jobs listed at a time, without their results
	fetchBytes = 4 << 20 // results are read in portions of about this size
	fetchMost  = 200
)

var ended = []penstock.State{penstock.Done, penstock.Dead, penstock.Cancelled}

// WriteMissing writes the jobs of the run that have ended and have no line. It
// returns how many have ended.
func (f *File) WriteMissing(ctx context.Context) (int64, error) {
	total := int64(0)
	var ids []int64
	for after := int64(0); ; {
		jobs, err := f.src.Jobs(ctx, penstock.Filter{Run: f.run, States: ended, AfterID: after, N: page})
		if err != nil {
			return total, err
		}
		ids = ids[:0]
		for i := range jobs {
			if !f.written.has(jobs[i].ID) {
				ids = append(ids, jobs[i].ID)
			}
		}
		if err := f.Add(ctx, ids); err != nil {
			return total, err
		}
		total += int64(len(jobs))
		if len(jobs) < page {
			return total, nil
		}
		after = jobs[len(jobs)-1].ID
	}
}

// Add writes the results of these jobs, as far as they have ended. Results may
// be large, so only so many are read at a time.
func (f *File) Add(ctx context.Context, ids []int64) error {
	for len(ids) > 0 {
		n := min(f.fetch, len(ids))
		jobs, err := f.src.Jobs(ctx, penstock.Filter{IDs: ids[:n], Bodies: true, N: n})
		if err != nil {
			return err
		}
		ids = ids[n:]
		size, err := f.append(jobs)
		if err != nil {
			return err
		}
		f.fetch = min(2*f.fetch, max(1, n*fetchBytes/max(1, size)), fetchMost)
	}
	return nil
}

// append writes lines in one go, so that other readers see whole ones, and
// returns their size.
func (f *File) append(jobs []penstock.JobInfo) (int, error) {
	var text []byte
	for i := range jobs {
		j := &jobs[i]
		if !j.State.Ended() {
			continue // replayed meanwhile
		}
		line, err := Line(j)
		if err != nil {
			return 0, fmt.Errorf("the result of call %q: %w", j.Ref, err)
		}
		text = append(append(text, line...), '\n')
	}
	if len(text) == 0 {
		return 0, nil
	}
	if n, err := f.f.Write(text); err != nil {
		if n > 0 {
			f.redo = true // the next look cuts the torn line off
		}
		return 0, err
	}
	for i := range jobs {
		if j := &jobs[i]; j.State.Ended() {
			f.lines++
			if !f.written.add(j.ID) {
				f.redo = true // it was replayed and has ended again
			}
		}
	}
	return len(text), nil
}
