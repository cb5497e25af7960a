package penstock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/retry"
)

// Defaults of a Kind, used for each field that is zero.
const (
	DefaultTimeout        = time.Minute
	DefaultThrottleBudget = 6 * time.Hour
	DefaultPriority       = 5
	DefaultQueue          = "default"
)

// A Kind is how jobs of one kind are run. The zero value works. Limits, Queue,
// Priority, Group and IdempotencyKeys apply when a client that knows the kind
// enqueues a job without saying otherwise; the rest applies when a job starts.
type Kind struct {
	// Limits are what each start draws on.
	Limits []Draw
	// Queue is the line its jobs wait in; "" means "default".
	Queue string
	// Priority is from 1 to 9, larger first; 0 means 5.
	Priority int
	// IdempotencyKeys has a random key made for each job.
	IdempotencyKeys bool
	// Retry is the backoff after failures and the number of attempts.
	Retry retry.Policy
	// Timeout bounds a start; 0 means 60 s, below 0 means none.
	Timeout time.Duration
	// ThrottleBudget is how long a job may go on being refused by the API before
	// it is dead, announced pauses not counted; 0 means 6 h.
	ThrottleBudget time.Duration
	// Classify maps an error that the handler returned to one that says more,
	// such as Permanent(err). It is not asked about errors that already say what
	// is to happen. Returning its argument, or nil, leaves the error as it is.
	Classify func(error) error
}

// Validate reports every fault of the kind at once, as one joined error, or nil.
func (k Kind) Validate() error {
	var faults []error
	faults = append(faults, checkDraws(k.Limits))
	if k.Priority != 0 && (k.Priority < 1 || k.Priority > 9) {
		faults = append(faults, fmt.Errorf("priority must be from 1 to 9, larger first (or 0 for the default, %d), got %d", DefaultPriority, k.Priority))
	}
	if k.ThrottleBudget < 0 {
		faults = append(faults, fmt.Errorf("throttle budget must be above 0 (or 0 for the default, %v), got %v", DefaultThrottleBudget, k.ThrottleBudget))
	}
	faults = append(faults, k.Retry.Validate())
	return errors.Join(faults...)
}

// checkDraws reports every fault of the draws.
func checkDraws(draws []Draw) error {
	var faults []error
	for i, d := range draws {
		faults = append(faults, checkDraw(d))
		for _, other := range draws[:i] {
			if other.Limit == d.Limit {
				faults = append(faults, fmt.Errorf("limit %q is drawn on twice: add the costs up", d.Limit))
				break
			}
		}
	}
	return errors.Join(faults...)
}

// checkDraw refuses a draw that no limit can meet.
func checkDraw(d Draw) error {
	switch {
	case d.Limit == "":
		return errors.New("a limit to draw on needs a name")
	case d.Cost < 1:
		return fmt.Errorf("cost of limit %q must be at least 1, got %d", d.Limit, d.Cost)
	}
	return nil
}

// timeout is the bound of a start, 0 for none.
func (k Kind) timeout(job JobInfo) time.Duration {
	switch {
	case job.Options.Timeout > 0:
		return time.Duration(job.Options.Timeout) * time.Microsecond
	case k.Timeout == 0:
		return DefaultTimeout
	}
	return max(k.Timeout, 0)
}

// policy is the retry policy of the job.
func (k Kind) policy(job JobInfo) retry.Policy {
	p := k.Retry
	if job.Options.MaxAttempts > 0 {
		p.MaxAttempts = job.Options.MaxAttempts
	}
	return p
}

// budget is the throttle budget of the job.
func (k Kind) budget(job JobInfo) time.Duration {
	switch {
	case job.Options.ThrottleBudget > 0:
		return time.Duration(job.Options.ThrottleBudget) * time.Microsecond
	case k.ThrottleBudget > 0:
		return k.ThrottleBudget
	}
	return DefaultThrottleBudget
}

// HandlerFunc runs one start of a job.
type HandlerFunc func(ctx context.Context, job *RawJob) error

// Middleware wraps a handler: it can act before and after, look at the error
// and replace it, or not call next at all.
type Middleware func(next HandlerFunc) HandlerFunc

// kindEntry is a kind this client knows, and how it is run, if it is.
type kindEntry struct {
	name string
	Kind
	run HandlerFunc // nil: only declared
}

// Handle has fn run the jobs of a kind in this client's workers. Payloads are
// JSON decoded into T; with T []byte or json.RawMessage fn gets the bytes as
// they were enqueued. A job whose payload cannot be decoded is dead (rejected),
// with the reason. A kind has one handler; call Handle before Work.
//
// fn must return when its context ends: at the job's timeout, when the job is
// cancelled, or when the process is told to stop at once.
func Handle[T any](c *Client, kind string, fn func(ctx context.Context, job *Job[T]) error, k Kind) error {
	if fn == nil {
		return fmt.Errorf("kind %q: the handler is nil", kind)
	}
	return c.addKind(kind, k, func(ctx context.Context, raw *RawJob) error {
		args, err := decode[T](raw.Payload)
		if err != nil {
			return Permanent(fmt.Errorf("the payload cannot be decoded into %T: %w", args, err))
		}
		return fn(ctx, &Job[T]{JobInfo: raw.JobInfo, Args: args, start: raw.start})
	})
}

// DeclareKind makes a kind's defaults known without a handler, for a client
// that enqueues jobs which other processes run.
func (c *Client) DeclareKind(kind string, k Kind) error { return c.addKind(kind, k, nil) }

func (c *Client) addKind(name string, k Kind, run HandlerFunc) error {
	if name == "" {
		return errors.New("a kind needs a name")
	}
	if err := errors.Join(checkOwn("kind", name), checkOwn("queue", k.Queue)); err != nil {
		return err
	}
	if err := k.Validate(); err != nil {
		return fmt.Errorf("kind %q: %w", name, err)
	}
	if run != nil {
		for i := len(c.cfg.Middleware) - 1; i >= 0; i-- {
			if run = c.cfg.Middleware[i](run); run == nil {
				return fmt.Errorf("kind %q: middleware %d returned no handler: expected it to return the one it was given, or one that calls it", name, i)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.kinds[name]; old != nil && old.run != nil {
		return fmt.Errorf("kind %q has a handler already", name)
	}
	for w := range c.workers {
		if run != nil && !w.private {
			return fmt.Errorf("kind %q: Work is running already and would not run it: call Handle before Work", name)
		}
	}
	c.kinds[name] = &kindEntry{name: name, Kind: k, run: run}
	return nil
}

// kind returns what the client knows of a kind, or nil.
func (c *Client) kind(name string) *kindEntry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kinds[name]
}

// Kinds returns the kinds that this client has handlers for, by name. Zero fields
// are as they were given.
func (c *Client) Kinds() map[string]Kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := map[string]Kind{}
	for name, k := range c.kinds {
		if k.run != nil {
			all[name] = k.Kind
		}
	}
	return all
}

// handled returns the kinds this client can run, in order.
func (c *Client) handled() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var names []string
	for _, name := range sortedKeys(c.kinds) {
		if c.kinds[name].run != nil {
			names = append(names, name)
		}
	}
	return names
}
