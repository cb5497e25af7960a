package cli

import (
	"context"
	"errors"
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
	stager *stager
	alone  func(context.Context) error // nil, or asked before the commit: no other process loads this run

	jobs  []penstock.NewJob // the chunk to be staged next
	bytes int

	seen      atomic.Int64 // lines read; to be looked at while it runs
	bad       badLines
	envSeen   map[string]bool
	envFaults []error // of variables that are needed: not set, or not fit to be sent
}

func newLoader(c *penstock.Client, p *runPlan) *loader {
	l := &loader{plan: p, client: c, limits: newLimitBook(c, p), envSeen: map[string]bool{}}
	l.stager = newStager(c.NewLoad(p.run), p.run, &l.bad)
	return l
}

// run reads all lines. When it returns an error, nothing of the file is visible.
func (l *loader) run(ctx context.Context, in io.Reader) error {
	// What a process that died had staged for this run.
	if err := l.client.DropLoads(ctx, l.plan.run); err != nil {
		return err
	}
	l.stager.begin(ctx)
	defer l.stager.end()
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
	l.jobs = append(l.jobs, job)
	l.bytes += len(line)
	if len(l.jobs) >= chunkJobs || l.bytes >= chunkBytes {
		return l.stage()
	}
	return nil
}

// stage hands the chunk over.
func (l *loader) stage() error {
	err := l.stager.add(l.jobs)
	l.jobs, l.bytes = make([]penstock.NewJob, 0, len(l.jobs)), 0
	return err
}

// end commits the load if all is well.
func (l *loader) end(ctx context.Context) error {
	if err := errors.Join(l.stage(), l.stager.end()); err != nil {
		return err
	}
	load := l.stager.load
	switch {
	case l.bad.n > 0 && !l.plan.skipInvalid:
		return errors.Join(load.Abort(ctx), errBadLines)
	case len(l.envFaults) > 0:
		return errors.Join(load.Abort(ctx), inputf("nothing was sent: %v", oneLine(errors.Join(l.envFaults...))))
	}
	if err := l.limits.apply(ctx); err != nil {
		return err
	}
	if l.alone != nil {
		if err := l.alone(ctx); err != nil {
			return err
		}
	}
	return load.Commit(ctx)
}

// errBadLines says that there were bad lines; they are printed by the caller.
var errBadLines = errors.New("bad lines")

// needs notes a variable that a call needs from the environment.
func (l *loader) needs(name string) {
	if l.envSeen[name] {
		return
	}
	l.envSeen[name] = true
	one := httpcall.Request{URL: "${" + name + "}"}
	if err := one.CheckEnv(os.LookupEnv); err != nil {
		l.envFaults = append(l.envFaults, err)
	}
}
