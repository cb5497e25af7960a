package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/batch"
)

const (
	chunkJobs  = 1000
	chunkBytes = 4 << 20
)

// loader puts the calls of a file into the store. They are staged, and become
// visible in one commit when the whole file is known to be good.
type loader struct {
	plan   *runPlan
	client *penstock.Client
	limits *limitBook
	load   *penstock.Load

	jobs  []penstock.NewJob // the chunk to be staged next
	bytes int
	first int64 // the id of the first job this load has made

	seen    atomic.Int64 // lines read; to be looked at while it runs
	calls   int64        // good lines
	made    int64        // new calls
	queues  []string
	bad     badLines
	unset   []string // environment variables that are needed and not set
	envSeen map[string]error
}

func newLoader(c *penstock.Client, p *runPlan) *loader {
	return &loader{
		plan: p, client: c, limits: newLimitBook(c, p), load: c.NewLoad(p.run),
		envSeen: map[string]error{},
	}
}

// run reads all lines. When it returns an error, nothing of the file is visible.
func (l *loader) run(ctx context.Context, in io.Reader) error {
	// What a process that died had staged for this run.
	if err := l.client.DropLoads(ctx, l.plan.run); err != nil {
		return err
	}
	lines := batch.NewLines(in)
	for {
		line, n, err := lines.Next()
		l.seen.Store(n)
		var fault *batch.LineError
		switch {
		case errors.Is(err, io.EOF):
			return l.end(ctx)
		case errors.As(err, &fault):
			l.bad.add(fault.N, fault.Err)
			continue
		case err != nil:
			return inputf("%s: %v", l.plan.file, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err := l.line(ctx, line, n); err != nil {
			return err
		}
	}
}

// line takes one line. Its faults are noted, only the store's are returned.
func (l *loader) line(ctx context.Context, line []byte, n int64) error {
	// The call keeps parts of the line until its chunk is staged.
	c, err := batch.Parse(slices.Clone(line), n)
	if err != nil {
		l.bad.add(n, err)
		return nil
	}
	job, request, err := l.plan.newJob(c)
	if err != nil {
		l.bad.add(n, err)
		return nil
	}
	for i := len(job.Limits) - 1; i >= 0; i-- { // the host's first
		d := job.Limits[i]
		err := l.limits.draw(ctx, d.Limit, d.Cost, d.Limit == httpcall.HostLimit(request.URL))
		if err != nil && faultOfLine(err) {
			l.bad.add(n, err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	for _, name := range request.Names() {
		l.needs(name)
	}
	if l.plan.queues != nil && !slices.Contains(l.queues, job.Queue) {
		l.queues = append(l.queues, job.Queue)
	}
	l.calls++
	l.jobs = append(l.jobs, job)
	l.bytes += len(line)
	if len(l.jobs) >= chunkJobs || l.bytes >= chunkBytes {
		return l.stage(ctx)
	}
	return nil
}

// stage stores the chunk.
func (l *loader) stage(ctx context.Context) error {
	for len(l.jobs) > 0 {
		done, err := l.load.Add(ctx, l.jobs)
		var which *penstock.EnqueueError
		if errors.As(err, &which) && !isStoreFailure(err) && which.Index < len(l.jobs) {
			// Something that only the store can know: the line is bad, the others are tried again.
			l.bad.add(l.jobs[which.Index].Line, which.Err)
			l.calls--
			l.jobs = slices.Delete(l.jobs, which.Index, which.Index+1)
			continue
		}
		if err != nil {
			return err
		}
		for i, d := range done {
			l.staged(&l.jobs[i], d)
		}
		break
	}
	l.jobs, l.bytes = l.jobs[:0], 0
	return nil
}

// staged takes in what became of one call.
func (l *loader) staged(j *penstock.NewJob, d penstock.Enqueued) {
	switch {
	case d.New:
		l.made++
		if l.first == 0 {
			l.first = d.ID
		}
	case d.Conflict && l.first != 0 && d.ID >= l.first:
		l.calls--
		l.bad.add(j.Line, fmt.Errorf("id %q is that of line %d, which says something else: give it another id", j.Ref, d.Line))
	case d.Conflict:
		l.calls--
		l.bad.add(j.Line, fmt.Errorf("id %q was in run %q before, at line %d, with other content: give the line another id, or the file another --run", j.Ref, l.plan.run, d.Line))
	}
}

// end commits the load if all is well.
func (l *loader) end(ctx context.Context) error {
	if err := l.stage(ctx); err != nil {
		return err
	}
	switch {
	case l.bad.n > 0 && !l.plan.skipInvalid:
		return errors.Join(l.load.Abort(ctx), errBadLines)
	case len(l.unset) > 0:
		return errors.Join(l.load.Abort(ctx), inputf("nothing was sent: %s", l.unsetText()))
	}
	if err := l.limits.apply(ctx); err != nil {
		return err
	}
	return l.load.Commit(ctx)
}

// errBadLines says that there were bad lines; they are printed by the caller.
var errBadLines = errors.New("bad lines")

// needs notes a variable that a call needs from the environment.
func (l *loader) needs(name string) {
	if _, seen := l.envSeen[name]; seen {
		return
	}
	l.envSeen[name] = nil
	if _, ok := os.LookupEnv(name); !ok {
		l.unset = append(l.unset, name)
	}
}

func (l *loader) unsetText() string {
	if len(l.unset) == 1 {
		return fmt.Sprintf("the environment variable %s is not set, and ${%[1]s} is in the file", l.unset[0])
	}
	return fmt.Sprintf("these environment variables are not set, and the file refers to them: %s", joinNames(l.unset))
}
