package penstock

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstockhq/penstock/store"
)

// latestYear bounds due times: what every store and every printed form can carry.
const latestYear = 9999

// NewJob is a job to be enqueued. Zero fields get the kind's defaults, where
// the client knows the kind, else the general ones.
type NewJob struct {
	Kind string
	// Payload is written as JSON; a []byte or json.RawMessage is kept as it is.
	Payload any

	Queue    string
	Priority int    // 1 to 9, larger first
	Group    string // limits and places are shared fairly between groups
	// Limits are what each start draws on; nil: the kind's, empty: none.
	Limits []Draw

	// RunAt is when the job is due; a past one is due now. A time.Time is an
	// instant, so its zone does not matter.
	RunAt time.Time
	Delay time.Duration // counted from now, or from RunAt if that is set
	// Spread draws the due time at random from so much time after it.
	Spread time.Duration
	// ExpiresAt makes the job dead (expired) if it was not started by then.
	ExpiresAt time.Time
	ExpiresIn time.Duration // counted from when the job is due

	// Unique is a key that at most one waiting or running job has. Enqueueing
	// another one returns the first one's id.
	Unique string
	// Replace, with Unique, gives a waiting job the new payload, and a running
	// one a successor.
	Replace bool

	Attempts       int           // 0: the kind's
	Timeout        time.Duration // of one start; 0: the kind's
	ThrottleBudget time.Duration // 0: the kind's
	IdempotencyKey string        // sent along with calls; the same at every start
	AtMostOnce     bool          // see [AtMostOnce]

	// Run, Ref, Hash and Line place the job in a run of calls: Ref is unique in
	// the run for ever; the same Ref with another Hash is a conflict. Line is
	// where it stood in its file, for messages.
	Run  string
	Ref  string
	Hash string
	Line int64

	own bool // it is one of Penstock's, as a wish for a permit is
}

// An EnqueueOption sets something of a job to be enqueued.
type EnqueueOption interface{ applyEnqueue(j *NewJob) }

type enqueueOption func(j *NewJob)

func (o enqueueOption) applyEnqueue(j *NewJob) { o(j) }

// Delay has the job due d from now. A negative one is refused.
func Delay(d time.Duration) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Delay = d }) }

// RunAt has the job due at t; a past time is now.
func RunAt(t time.Time) EnqueueOption { return enqueueOption(func(j *NewJob) { j.RunAt = t }) }

// Spread has the job due at random within d of when it would be due.
func Spread(d time.Duration) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Spread = d }) }

// Queue puts the job in the named line.
func Queue(name string) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Queue = name }) }

// Priority is from 1 to 9, larger first.
func Priority(p int) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Priority = p }) }

// Limit has each start of the job draw cost permits (1 if none is given) of the
// limit. The first one given replaces the kind's limits, further ones add.
func Limit(name string, cost ...int64) EnqueueOption {
	return enqueueOption(func(j *NewJob) {
		d := Draw{Limit: name, Cost: 1}
		for i, c := range cost {
			if i == 0 {
				d.Cost = c
			} else {
				d.Cost += c
			}
		}
		j.Limits = append(j.Limits[:len(j.Limits):len(j.Limits)], d)
	})
}

// NoLimits has the job draw on no limit, whatever its kind says.
func NoLimits() EnqueueOption { return enqueueOption(func(j *NewJob) { j.Limits = []Draw{} }) }

// Unique refuses the job if a waiting or running one has the key; [Enqueued]
// then tells of that one.
func Unique(key string) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Unique = key }) }

// Replace, with [Unique], has the new payload win.
func Replace() EnqueueOption { return enqueueOption(func(j *NewJob) { j.Replace = true }) }

// Attempts is how many attempts the job has in all.
func Attempts(n int) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Attempts = n }) }

// Timeout bounds each start of the job.
func Timeout(d time.Duration) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Timeout = d }) }

// ExpiresAt makes the job dead (expired) if it was not started by t.
func ExpiresAt(t time.Time) EnqueueOption { return enqueueOption(func(j *NewJob) { j.ExpiresAt = t }) }

// ExpiresIn is [ExpiresAt], counted from when the job is due.
func ExpiresIn(d time.Duration) EnqueueOption {
	return enqueueOption(func(j *NewJob) { j.ExpiresIn = d })
}

// Group puts the job into a fairness group: groups share what there is evenly.
func Group(name string) EnqueueOption { return enqueueOption(func(j *NewJob) { j.Group = name }) }

// IdempotencyKey sets the key that is sent along with the job's calls.
func IdempotencyKey(key string) EnqueueOption {
	return enqueueOption(func(j *NewJob) { j.IdempotencyKey = key })
}

// InRun places the job in a run of calls: ref is unique in the run for ever, and
// the same ref with another hash is a conflict. line is where it stood in its
// file, for messages.
func InRun(run, ref, hash string, line int64) EnqueueOption {
	return enqueueOption(func(j *NewJob) { j.Run, j.Ref, j.Hash, j.Line = run, ref, hash, line })
}

// NewIdempotencyKey returns a random key of 32 hexadecimal digits.
func NewIdempotencyKey() string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Enqueued tells what became of one job.
type Enqueued struct {
	// ID is that of the new job, or of the one that was there first.
	ID    int64
	State State // 0: that job ended, and was pruned
	// New says that a job was written. Otherwise the job's Unique or Ref was taken.
	New bool
	// Replaced says that a waiting job got the new payload.
	Replaced bool
	// Conflict says that the Ref was taken by other content, at line Line.
	Conflict bool
	Line     int64
}

// EnqueueError says which of several jobs was refused.
type EnqueueError struct {
	Index int
	Kind  string
	Err   error
}

func (e *EnqueueError) Error() string { return fmt.Sprintf("job %d (%s): %v", e.Index, e.Kind, e.Err) }

// Unwrap returns the cause, such as a *store.UnknownLimitError.
func (e *EnqueueError) Unwrap() error { return e.Err }

// Enqueue stores a job. When it returns without an error, the job is durable. Where a
// worker of this client is idle, a job that nothing holds back is started at once: it is
// running already when it is stored.
func (c *Client) Enqueue(ctx context.Context, kind string, payload any, opts ...EnqueueOption) (Enqueued, error) {
	j := NewJob{Kind: kind, Payload: payload}
	for _, o := range opts {
		if o != nil {
			o.applyEnqueue(&j)
		}
	}
	done, err := c.EnqueueMany(ctx, []NewJob{j})
	if err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %q: %w", kind, bare(err))
	}
	return done[0], nil
}

// EnqueueMany stores all jobs or none, in one commit. The results are in the
// order of the jobs. The error is an *[EnqueueError] if one of them was refused.
func (c *Client) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Enqueued, error) {
	return c.insert(ctx, jobs, "", c.insertOrStart)
}

type insertFunc func(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error)

func (c *Client) insert(ctx context.Context, jobs []NewJob, load string, insert insertFunc) ([]Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	rows := make([]store.NewJob, len(jobs))
	now := c.clock.now()
	for i := range jobs {
		row, err := c.build(&jobs[i], now)
		if err != nil {
			return nil, &EnqueueError{Index: i, Kind: jobs[i].Kind, Err: err}
		}
		row.Load = load
		rows[i] = row
	}
	done, err := insert(ctx, rows)
	if err != nil {
		var which *store.InsertError
		if errors.As(err, &which) && which.Index < len(jobs) {
			return nil, &EnqueueError{Index: which.Index, Kind: jobs[which.Index].Kind, Err: which.Err}
		}
		return nil, err
	}
	out := make([]Enqueued, len(done))
	for i, d := range done {
		out[i] = Enqueued{
			ID: d.ID, State: d.State, Line: d.Line,
			New: d.Verdict == store.Created, Replaced: d.Verdict == store.Replaced, Conflict: d.Verdict == store.Conflict,
		}
	}
	return out, nil
}

// build checks a job and fills in its defaults.
func (c *Client) build(j *NewJob, now int64) (store.NewJob, error) {
	var none store.NewJob
	var k Kind
	if entry := c.kind(j.Kind); entry != nil {
		k = entry.Kind
	}
	if err := checkNew(j); err != nil {
		return none, err
	}
	if !j.own {
		if err := errors.Join(checkOwn("kind", j.Kind), checkOwn("queue", firstOf(j.Queue, k.Queue))); err != nil {
			return none, err
		}
	}
	payload, err := encode(j.Payload)
	if err != nil {
		return none, fmt.Errorf("payload: %w", err)
	}
	if len(payload) > c.cfg.MaxPayload {
		return none, fmt.Errorf("payload has %d bytes, the most is %d: keep large data elsewhere and enqueue where it is", len(payload), c.cfg.MaxPayload)
	}
	row := store.NewJob{
		LaneKey: store.LaneKey{
			Kind: j.Kind, Run: j.Run, Group: j.Group,
			Queue:    firstOf(j.Queue, k.Queue, DefaultQueue),
			Priority: firstOf(j.Priority, k.Priority, DefaultPriority),
			Draws:    j.Limits,
		},
		Payload: payload,
		Options: store.Options{
			MaxAttempts: j.Attempts, Timeout: j.Timeout.Microseconds(), ThrottleBudget: j.ThrottleBudget.Microseconds(),
			IdempotencyKey: j.IdempotencyKey, AtMostOnce: j.AtMostOnce,
		},
		Unique: j.Unique, Replace: j.Replace,
		Ref: j.Ref, Hash: j.Hash, Line: j.Line,
	}
	if row.Draws == nil {
		row.Draws = k.Limits
	}
	if row.Options.IdempotencyKey == "" && k.IdempotencyKeys {
		row.Options.IdempotencyKey = NewIdempotencyKey()
	}
	row.At, row.ExpiresAt, err = c.dueTimes(j, now)
	return row, err
}

// dueTimes returns when the job is due and when it expires, by the store's
// clock. Due at once is 0.
func (c *Client) dueTimes(j *NewJob, now int64) (at, expires int64, err error) {
	due := now
	if !j.RunAt.IsZero() {
		due = c.clock.toStore(j.RunAt)
	}
	wait := j.Delay
	if j.Spread > 0 {
		wait += time.Duration(float64(j.Spread) * c.cfg.Random())
	}
	due += wait.Microseconds()
	switch {
	case !j.ExpiresAt.IsZero():
		expires = max(c.clock.toStore(j.ExpiresAt), 1) // 0 would mean never
	case j.ExpiresIn > 0:
		expires = max(due, now) + j.ExpiresIn.Microseconds()
	}
	if y := time.UnixMicro(max(due, expires)).UTC().Year(); y > latestYear {
		return 0, 0, fmt.Errorf("times must be before the year %d, got one in %d", latestYear+1, y)
	}
	if due > now {
		at = due
	}
	return at, expires, nil
}

// checkNew refuses what no store could keep or no worker could do.
func checkNew(j *NewJob) error {
	switch {
	case j.Kind == "":
		return errors.New("a job needs a kind")
	case j.Priority != 0 && (j.Priority < 1 || j.Priority > 9):
		return fmt.Errorf("priority must be from 1 to 9, larger first, got %d", j.Priority)
	case j.Delay < 0 || j.Spread < 0 || j.ExpiresIn < 0:
		return fmt.Errorf("delays must not be negative, got delay %v, spread %v, expires in %v", j.Delay, j.Spread, j.ExpiresIn)
	case j.Delay > 0 && j.Spread > 0 && j.Delay+j.Spread < 0:
		return fmt.Errorf("delay %v and spread %v are longer than 292 years", j.Delay, j.Spread)
	case j.Attempts < 0 || j.Timeout < 0 || j.ThrottleBudget < 0:
		return fmt.Errorf("attempts, timeout and throttle budget must not be negative, got %d, %v, %v", j.Attempts, j.Timeout, j.ThrottleBudget)
	case j.Timeout > 0 && j.Timeout < time.Microsecond:
		return fmt.Errorf("timeout must be at least a microsecond, got %v", j.Timeout)
	case j.Replace && j.Unique == "":
		return errors.New("replace needs a unique key")
	case j.Ref != "" && j.Run == "":
		return errors.New("a ref needs a run")
	case !j.RunAt.IsZero() && (j.RunAt.Year() > latestYear || j.RunAt.Year() < -latestYear):
		return fmt.Errorf("times must be before the year %d, got one in %d", latestYear+1, j.RunAt.Year())
	case !j.ExpiresAt.IsZero() && (j.ExpiresAt.Year() > latestYear || j.ExpiresAt.Year() < -latestYear):
		return fmt.Errorf("times must be before the year %d, got one in %d", latestYear+1, j.ExpiresAt.Year())
	}
	for name, s := range map[string]string{"kind": j.Kind, "queue": j.Queue, "group": j.Group, "run": j.Run} {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%s %q must not contain NUL", name, s)
		}
	}
	return checkDraws(j.Limits)
}

// checkOwn refuses names that are Penstock's own: what bears them is treated
// otherwise, as jobs that end with their process are.
func checkOwn(what, name string) error {
	if strings.HasPrefix(name, store.PrivateKind) {
		return fmt.Errorf("%s %q: names that begin with %q are kept for Penstock itself: choose another one", what, name, store.PrivateKind)
	}
	return nil
}

// firstOf returns the first value that is not zero.
func firstOf[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}
