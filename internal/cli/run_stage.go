package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstockhq/penstock"
)

// stager stores chunks of calls while the next ones are read. Its methods are
// for one goroutine.
type stager struct {
	load  *penstock.Load
	run   string
	bad   *badLines
	first int64 // the id of the first job this load has made
	gone  int64 // calls that ended before, and were pruned

	chunks chan []penstock.NewJob
	done   chan struct{} // closed when it has ended
	err    error         // to be read after done
}

func newStager(load *penstock.Load, run string, bad *badLines) *stager {
	return &stager{load: load, run: run, bad: bad}
}

func (s *stager) begin(ctx context.Context) {
	chunks := make(chan []penstock.NewJob)
	s.chunks, s.done = chunks, make(chan struct{})
	go func() {
		defer close(s.done)
		for jobs := range chunks {
			if s.err = s.stage(ctx, jobs); s.err != nil {
				return
			}
		}
	}()
}

// add hands over a chunk, which must not be used any more. Its error may be that
// of an earlier one.
func (s *stager) add(jobs []penstock.NewJob) error {
	if len(jobs) == 0 {
		return nil
	}
	select {
	case s.chunks <- jobs:
		return nil
	case <-s.done:
		return s.err
	}
}

// end waits until all chunks are stored. Further calls return the same.
func (s *stager) end() error {
	if s.chunks != nil {
		close(s.chunks)
		s.chunks = nil
	}
	<-s.done
	return s.err
}

// stage stores a chunk.
func (s *stager) stage(ctx context.Context, jobs []penstock.NewJob) error {
	for len(jobs) > 0 {
		done, err := s.load.Add(ctx, jobs)
		var which *penstock.EnqueueError
		if errors.As(err, &which) && !isStoreFailure(err) && which.Index < len(jobs) {
			// Something that only the store can know: the line is bad, the others are tried again.
			s.bad.add(jobs[which.Index].Line, which.Err)
			jobs = slices.Delete(jobs, which.Index, which.Index+1)
			continue
		}
		if err != nil {
			return err
		}
		for i, d := range done {
			s.staged(&jobs[i], d)
		}
		return nil
	}
	return nil
}

// staged takes in what became of one call.
func (s *stager) staged(j *penstock.NewJob, d penstock.Enqueued) {
	switch {
	case !d.New && !d.Conflict && d.State == 0:
		s.gone++
	case d.New && s.first == 0:
		s.first = d.ID
	case d.Conflict && s.first != 0 && d.ID >= s.first:
		s.bad.add(j.Line, fmt.Errorf("id %q is that of line %d, which says something else: give it another id", j.Ref, d.Line))
	case d.Conflict:
		s.bad.add(j.Line, fmt.Errorf("id %q was in run %q before, at line %d, with other content: give the line another id, or the file another --run", j.Ref, s.run, d.Line))
	}
}
