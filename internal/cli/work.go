package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/progress"
	"github.com/penstockhq/penstock/retry"
)

const workLong = `Make the HTTP calls that wait in a database, of all runs, and those that come in
while it works: what "penstock enqueue", "penstock run" or a program put there, and
what was replayed. Any number of processes may work on one database; they share its
limits.

It works until a signal ends it; with --drain until no call is left. The first INT or
TERM lets running calls finish, for up to --grace; a second one stops at once. Calls
that did not begin stay in line, those that were broken off are made again.

Exit code: 0 with --drain: no call is left, and none that was made here is dead; 1
some of those are dead; 2 bad usage; 3 the database failed, or did not work for a
minute; 130 or 143 ended by INT or TERM.`

const workExample = `  # a worker for good, with metrics on http://127.0.0.1:9090/metrics
  penstock work -H "Authorization: Bearer $API_TOKEN" --metrics :9090

  # what is there now, the queue high before low
  penstock work --drain --queues high,low`

// workFlags are the options of penstock work.
type workFlags struct {
	db, concurrency, keyHeader, metrics string
	headers, queues                     []string
	attempts                            int
	timeout, throttleBudget, grace      time.Duration
	drain, json, quiet                  bool
}

func newWork() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:     "work",
		Short:   "Make the HTTP calls that wait in a database",
		Long:    workLong,
		Example: workExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.plan()
			if err != nil {
				return err
			}
			return runWork(cmd.Context(), p, streams{in: cmd.InOrStdin(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
		},
	}
	o := cmd.Flags()
	o.SortFlags = false
	addDB(cmd.Flags(), &f.db)
	o.BoolVar(&f.drain, "drain", false, "end when no call is left")
	o.StringArrayVarP(&f.headers, "header", "H", nil, "`'Name: value'` sent with every call, kept in memory only (repeatable)")
	o.Var((*filledList)(&f.queues), "queues", "only these queues, in this order, as in high,low (default all, all alike)")
	o.StringVar(&f.concurrency, "concurrency", "auto", "calls at a time: a `number`, or auto (100, and up to 1,000 where they wait)")
	o.IntVar(&f.attempts, "attempts", 5, "attempts of a call that says nothing else")
	o.DurationVar(&f.timeout, "timeout", 10*time.Minute, "timeout of a call that says nothing else")
	o.DurationVar(&f.throttleBudget, "throttle-budget", 6*time.Hour, "how long an API may go on refusing a call before it is dead")
	o.DurationVar(&f.grace, "grace", 25*time.Second, "how long running calls get to finish after INT or TERM")
	o.StringVar(&f.keyHeader, "key-header", "Idempotency-Key", "`header` that carries a call's idempotency key, \"-\" for none")
	o.Var((*filled)(&f.metrics), "metrics", metricsUsage)
	o.BoolVar(&f.json, "json", false, "print one JSON object on standard output at the end, about this command's work")
	o.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	_ = cmd.RegisterFlagCompletionFunc("queues", completeQueues)
	return cmd
}

// workPlan is what penstock work is to do: its options, checked.
type workPlan struct {
	workFlags
	header http.Header
	places int
	metric string // the address to listen on; "": none
}

// plan checks the options. All errors are of usage.
func (f workFlags) plan() (*workPlan, error) {
	p := &workPlan{workFlags: f}
	var err error
	if p.header, err = parseHeaders(f.headers); err != nil {
		return nil, err
	}
	if p.places, err = parsePlaces(f.concurrency); err != nil {
		return nil, err
	}
	if p.metric, err = metricsAddress(f.metrics); err != nil {
		return nil, err
	}
	if err := checkCallFlags(f.attempts, f.timeout, f.throttleBudget, f.grace, f.queues); err != nil {
		return nil, err
	}
	if err := p.callOptions().Validate(); err != nil {
		return nil, usagef("%v", oneLine(err))
	}
	return p, nil
}

func (p *workPlan) callOptions() httpcall.Options {
	return httpcall.Options{
		Headers: p.header, KeyHeader: p.keyHeader, Timeout: p.timeout,
		Retry: retry.Policy{MaxAttempts: p.attempts}, ThrottleBudget: p.throttleBudget,
	}
}

// labour is one invocation of penstock work.
type labour struct {
	plan   *workPlan
	db     string
	io     streams
	client *penstock.Client
	signal *interrupts
	screen *screen
	tally  tally
	health *health
	begun  time.Time
}

// runWork does what the plan says.
func runWork(ctx context.Context, p *workPlan, s streams) (err error) {
	w := &labour{plan: p, db: dbPath(p.db), io: s, tally: newTally(), health: newHealth(), screen: newScreen(s.err, p.quiet)}
	defer w.screen.close()
	if err := mustBeThere(w.db); err != nil {
		return err
	}
	defer survivePipes()()
	w.signal = watchSignals(ctx)
	defer w.signal.close()
	level := slog.LevelWarn
	if p.quiet {
		level = slog.LevelError
	}
	if w.client, err = openDB(ctx, w.db, newLineLog(w.screen, level), w.screen.tell); err != nil {
		return err
	}
	defer func() {
		if !errors.Is(err, errGaveUp) { // a store that does not answer would hold up its end, too
			err = errors.Join(err, w.client.Close())
		}
	}()
	if err := httpcall.Register(w.client, p.callOptions()); err != nil {
		return usagef("%v", oneLine(err))
	}
	return w.work(ctx)
}

// work makes calls until a signal stops it, or none is left.
func (w *labour) work(ctx context.Context) error {
	o := penstock.WorkOptions{
		Drain: w.plan.drain, Concurrency: w.plan.places, Grace: w.plan.grace, StopNow: w.signal.now,
		OnStart: w.tally.onStart, OnEnd: w.onEnd,
	}
	for _, q := range w.plan.queues {
		o.Queues = append(o.Queues, penstock.WorkQueue{Name: q})
	}
	o, stopMetrics, err := serveMetrics(w.client, w.plan.metric, o, w.screen)
	if err != nil {
		return err
	}
	defer stopMetrics()
	w.begun = time.Now()
	over, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.watch(over) })
	wg.Go(func() { w.health.watch(over, w.client, w.screen.tell) })
	stop, giveUp := context.WithCancel(w.signal.stop)
	defer giveUp()
	wg.Go(func() {
		select {
		case <-w.health.gone:
			giveUp() // calls under way may finish; what becomes of them may reach the store yet
		case <-over.Done():
		}
	})
	wg.Go(func() {
		select {
		case <-w.signal.stop.Done():
			w.screen.say("ending: running calls may finish, for up to %v; a second signal stops at once", w.plan.grace)
		case <-over.Done():
		}
	})
	if !w.plan.drain {
		w.screen.say("working on %s; INT or TERM ends it", nameOf(w.db))
	}
	err = w.client.Work(stop, o)
	end()
	wg.Wait()
	select {
	case <-w.health.gone:
		err = w.health.lost()
	default:
	}
	w.screen.clear()
	return w.report(err)
}

// onEnd counts an end, and tells of the first dead calls.
func (w *labour) onEnd(e *penstock.End) {
	w.tally.onEnd(e)
	if !e.Recorded || e.State != penstock.Dead {
		return
	}
	tell, last := w.tally.tellsOfDead()
	if !tell {
		return
	}
	w.screen.say("%s", progress.Cut(fmt.Sprintf("job %d is dead (%s): %s", e.Job.ID, e.Reason, e.Error), 140))
	if last {
		w.screen.say("further dead calls are counted only: see penstock dead")
	}
}
