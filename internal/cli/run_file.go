package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/flock"
	"github.com/penstockhq/penstock/internal/cli/results"
	"github.com/penstockhq/penstock/store/postgres"
)

// runner is one invocation of penstock run.
type runner struct {
	plan   *runPlan
	io     streams
	in     io.Reader // the calls
	client *penstock.Client
	loader *loader
	out    *results.File // nil: no --out
	signal *interrupts
	tally  tally
	screen *screen
	health *health
	// abandoned says that the store is left as it is, to end with the process: a
	// load that was interrupted may still be at work in it, or it does not answer.
	abandoned bool
	// stillAlone returns nil while no other process loads this run; nil: none can.
	stillAlone func(context.Context) error
	// working is when the calls began.
	working time.Time
}

// runFile does what the plan says: load the file, make the calls, report.
func runFile(ctx context.Context, p *runPlan, s streams) (err error) {
	in, err := p.open(s.in)
	if err != nil {
		return err
	}
	defer in.Close()
	r := &runner{plan: p, io: s, in: in, tally: newTally(), health: newHealth()}
	r.screen = newScreen(s.err, p.quiet)
	defer r.screen.close()
	r.signal = watchSignals(ctx)
	defer r.signal.close()

	if err := r.openClient(ctx); err != nil {
		return err
	}
	defer func() {
		if !r.abandoned {
			err = errors.Join(err, r.client.Close())
		}
	}()
	stopWatch := r.watchHealth(ctx)
	defer func() {
		// A store that does not answer would hold up its end, too.
		r.abandoned = r.abandoned || r.health.trouble(time.Now()) != ""
		stopWatch()
	}()
	if err := r.prepare(); err != nil {
		return r.judge(err)
	}
	if r.out != nil {
		defer r.out.Close()
	}
	if err := r.retryDead(); err != nil {
		return r.judge(err)
	}
	r.working = time.Now()
	workErr := r.work(ctx)
	return r.report(ctx, workErr)
}

// open opens the file of calls.
func (p *runPlan) open(stdin io.Reader) (io.ReadCloser, error) {
	if p.file == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(p.file)
	if err != nil {
		return nil, inputf("%v", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: expected a file of calls", p.file)
	}
	for flag, path := range map[string]string{"--out": p.out, "--db": p.db} {
		if other, e := os.Stat(path); path != "" && err == nil && e == nil && os.SameFile(info, other) {
			err = fmt.Errorf("%s is the file of calls itself: name another one", flag)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, inputf("%v", err)
	}
	return f, nil
}

func (r *runner) openClient(ctx context.Context) error {
	level := slog.LevelWarn
	if r.plan.quiet {
		level = slog.LevelError
	}
	c, err := openDB(ctx, r.plan.db, newLineLog(r.screen, level), r.screen.tell)
	if err != nil {
		return err
	}
	r.client = c
	if err := httpcall.Register(c, r.plan.callOptions()); err != nil {
		return errors.Join(usagef("%v", oneLine(err)), c.Close())
	}
	return nil
}

// watchHealth asks the store whether it works, until it is told to stop.
func (r *runner) watchHealth(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.health.watch(ctx, r.client, r.screen.tell)
	}()
	return func() {
		cancel()
		<-over
	}
}

// prepare loads the file, and opens the file of results. Only one process at a
// time loads calls of a run, so that what it stages is what it commits.
func (r *runner) prepare() error {
	ctx := r.signal.stop
	release, err := r.loadLock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if r.plan.out != "" {
		r.out, err = results.Open(ctx, r.plan.out, r.plan.run, resultSource{r.client})
		if err != nil {
			return r.outFailure(err)
		}
	}
	return r.loadFile()
}

// resultSource is what the file of results asks.
type resultSource struct{ *penstock.Client }

func (s resultSource) CallIDs(ctx context.Context, run string, refs []string) (map[string]int64, error) {
	return s.Store().CallIDs(ctx, run, refs)
}

func (r *runner) loadLock(ctx context.Context) (release func(), err error) {
	waiting := func() { r.screen.say("another process is reading calls into run %q; waiting for it", r.plan.run) }
	if s, ok := r.client.Store().(*postgres.Store); ok { // on other machines, too
		held, err := s.Hold(ctx, "load/"+r.plan.run, waiting)
		if err != nil {
			return nil, err
		}
		r.stillAlone = held.Check
		return held.Release, nil
	}
	h := fnv.New64a()
	io.WriteString(h, r.plan.run)
	return flock.Hold(ctx, fmt.Sprintf("%s-load-%016x", r.plan.db, h.Sum64()), waiting)
}

// loadFile reads the file into the store. Reading may block for as long as
// whoever writes to a pipe likes, so a signal does not wait for it.
func (r *runner) loadFile() error {
	r.loader = newLoader(r.client, r.plan)
	r.loader.alone = r.stillAlone
	loaded := make(chan error, 1)
	go func() { loaded <- r.loader.run(r.signal.stop, r.in) }()
	const patience = 2 * time.Second
	var err error
	stop := r.signal.stop.Done()
	var giveUp <-chan time.Time
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err = <-loaded:
			waiting = false
		case <-tick.C:
			r.screen.loading(r.plan.file, r.loader.seen.Load(), r.health.trouble(time.Now()))
		case <-stop:
			stop, giveUp = nil, time.After(patience)
		case <-giveUp:
			r.abandoned = true
			return context.Cause(r.signal.stop)
		}
	}
	r.screen.clear()
	l := r.loader
	l.bad.print(r.screen)
	switch {
	case errors.Is(err, errBadLines):
		hint := "nothing was sent; --skip-invalid runs the good ones"
		return inputf("%s of %s %s bad: %s", count(l.bad.n, "line"), r.plan.file, isOrAre(l.bad.n), hint)
	case err != nil:
		return err
	case l.bad.n > 0:
		r.screen.say("%s left out", count(l.bad.n, "bad line"))
	}
	for _, note := range l.limits.notes() {
		r.screen.say("%s", note)
	}
	if len(r.plan.headers) > 0 && l.limits.hosts() > 1 {
		r.screen.say("-H is sent to all %d hosts of the file", l.limits.hosts())
	}
	return nil
}

func isOrAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// judge gives an error before the calls began its exit code.
func (r *runner) judge(err error) error {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded
	case r.signal.stopped():
		return &exitError{Code: r.signal.code(), Err: errors.New("interrupted; nothing was sent")}
	}
	return storeFailure(r.plan.db, err)
}

func (r *runner) outFailure(err error) error {
	var foreign *results.ForeignError
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &foreign), errors.Is(err, results.ErrInUse), errors.Is(err, results.ErrNotRegular):
		return inputf("--out: %v", err)
	case r.signal.stopped():
		return err
	}
	return &exitError{Code: exitStore, Err: fmt.Errorf("--out: %w", plain(err))}
}
