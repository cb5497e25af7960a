package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

const (
	workerCount = 3
	// killAfter is how many calls the API has seen before a worker is killed.
	killAfter = messageCount * 2 / 5
	tick      = 5 * time.Millisecond
	look      = 100 * time.Millisecond // how often the store is asked, and progress shown
	patience  = 3 * time.Second        // with workers that were told to stop
)

// Options are what a demo can be asked for.
type Options struct {
	Cap       int              // calls per second, or in flight
	Algorithm apisim.Algorithm // how the API counts
	Seed      uint64           // of everything that is left to chance
	// NoLimit leaves the limit away on Penstock's side: a demo of the demo, which
	// must then fail.
	NoLimit bool
	// Server is the URL of a PostgreSQL database, where the demo makes a schema for
	// itself; "": a temporary file.
	Server string
	// Worker makes the command that starts a worker process.
	Worker func(w Worker) *exec.Cmd
	// Watch is told what happens. Its methods are called one at a time.
	Watch Watcher
}

// A Watcher sees the demo go on.
type Watcher interface {
	Told(m Moment)    // something happened
	Showing(p Status) // every so often
}

// A Moment is something that happened in a demo.
type Moment struct {
	At   time.Duration // since the demo's start
	Text string
}

// Status is how far a demo is.
type Status struct {
	At          time.Duration
	Ended, Jobs int
	Calls       []Call // the API's log
}

// A Result is what a demo brought to light.
type Result struct {
	Evidence Evidence
	Start    time.Time // of the API
	Elapsed  time.Duration
	Story    []Moment
	Late     bool // it was stopped at its time limit
}

// demo is one demo under way.
type demo struct {
	Options
	dir    string
	db     string // its database: a path or a URL
	start  time.Time
	tap    *tap
	client *penstock.Client
	book   contacts
	jobs   map[string]int64 // id by message
	crew   *crew
	result Result
}

// Run runs a demo. Whatever happens, it leaves no process, file or schema behind.
func Run(ctx context.Context, o Options) (*Result, error) {
	dir, err := os.MkdirTemp("", "penstock-demo-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the demo's database: %w", err)
	}
	d := &demo{Options: o, dir: dir, start: time.Now(), jobs: map[string]int64{}}
	d.result.Start = d.start
	d.db = filepath.Join(dir, "jobs.db")
	if o.Server != "" {
		err = d.inSchema(ctx)
	} else {
		err = d.run(ctx)
	}
	if gone := os.RemoveAll(dir); gone != nil {
		err = errors.Join(err, fmt.Errorf("the demo's folder is left behind: %w", gone))
	}
	if err != nil {
		return nil, err
	}
	d.result.Elapsed = time.Since(d.start)
	return &d.result, nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.tap, err = serve(ctx, d.apiConfig()); err != nil {
		return err
	}
	defer d.tap.close()
	if d.client, err = penstock.Open(ctx, d.db, penstock.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.client.Close()) }()
	if err := d.enqueue(ctx); err != nil {
		return err
	}
	if err := d.hire(); err != nil {
		return err
	}
	defer d.crew.dismiss(patience)
	if err := d.work(ctx); err != nil {
		return err
	}
	d.crew.dismiss(patience)
	return d.collect(ctx)
}

func (d *demo) contacts() string { return filepath.Join(d.dir, "contacts.json") }

// apiConfig is the pretend API: what real ones are like on a bad day.
func (d *demo) apiConfig() apisim.Config {
	c := apisim.Config{
		Algorithm: d.Algorithm, Limit: d.Cap, Window: Window, Burst: max(2, d.Cap/5),
		RetryAfter: apisim.RetryAfterSeconds,
		Latency:    120 * time.Millisecond, JitterMean: 4 * time.Millisecond,
		Error5xx: 0.06, TimeoutRate: 0.04, TimeoutHold: 4 * callTimeout,
		Dedupe: true, Seed: d.Seed,
	}
	if d.Algorithm == apisim.InFlight {
		c.Latency = 400 * time.Millisecond // else nothing would ever wait
	}
	return c
}

// spec is the limit as Penstock is told.
func (d *demo) spec() string {
	switch {
	case d.NoLimit:
		return "unlimited"
	case d.Algorithm == apisim.InFlight:
		return fmt.Sprintf("%d in flight", d.Cap)
	}
	return fmt.Sprintf("%d/s", d.Cap)
}

// tell adds to the story.
func (d *demo) tell(format string, args ...any) {
	m := Moment{At: time.Since(d.start), Text: fmt.Sprintf(format, args...)}
	d.result.Story = append(d.result.Story, m)
	d.Watch.Told(m)
}

// timeLimit is how long the demo goes on at most: about twice what it takes.
func (d *demo) timeLimit() time.Duration {
	return 25*time.Second + time.Duration(120/d.Cap)*time.Second
}

// work watches until all jobs have ended, one of them a second time. A worker
// is killed and a dead letter replayed on the way.
func (d *demo) work(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	looked := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		if err := d.crew.fault(); err != nil {
			return err
		}
		if err := d.maybeKill(); err != nil {
			return err
		}
		if time.Since(looked) < look {
			continue
		}
		looked = time.Now()
		if time.Since(d.start) > d.timeLimit() {
			d.result.Late = true
			d.tell("gave up waiting for the rest after %v", d.timeLimit())
			return nil
		}
		ended, err := d.ended(ctx)
		if err != nil {
			return err
		}
		d.Watch.Showing(Status{At: time.Since(d.start), Ended: len(ended), Jobs: messageCount, Calls: d.tap.log()})
		if len(ended) < messageCount {
			continue
		}
		if d.result.Evidence.Replay != nil {
			d.tell("the replayed job ended: %s", d.stateOf(ended, d.result.Evidence.Replay.Message))
			return nil
		}
		if again, err := d.replay(ctx, ended); err != nil || !again {
			return err
		}
	}
}
