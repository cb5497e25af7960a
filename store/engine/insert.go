package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// MaxInstant is the last instant that can be stored: the end of the year 9999.
var MaxInstant = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()

// maxName bounds names of queues, kinds, limits, groups and keys, in bytes.
const maxName = 512

// Insert writes all jobs or none.
func (s *Store) Insert(ctx context.Context, jobs []store.NewJob) (out []store.Inserted, err error) {
	write := s.db.Append
	for i := range jobs {
		if jobs[i].Replace { // it may change jobs that wait or run
			write = s.db.Update
			break
		}
	}
	err = write(ctx, func(tx Tx) error {
		out, err = insert(tx, jobs, Startable(jobs) && !tx.Overlaps())
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// errReplace: a job that others may be starting cannot be changed by a transaction
// that commits nobody knows when.
var errReplace = errors.New("a job with Replace inside a transaction of the caller's: this store cannot; enqueue it after the commit, or without Replace")

// Insert writes all jobs or none within a transaction, which may be the user's own. It
// starts none of them.
func Insert(tx Tx, jobs []store.NewJob) ([]store.Inserted, error) { return insert(tx, jobs, false) }

// insert is Insert, and may start the job at once.
func insert(tx Tx, jobs []store.NewJob, mayStart bool) ([]store.Inserted, error) {
	for i := range jobs {
		if err := checkJob(&jobs[i]); err != nil {
			return nil, &store.InsertError{Index: i, Err: err}
		}
		if jobs[i].Replace && tx.Overlaps() {
			return nil, &store.InsertError{Index: i, Err: errReplace}
		}
	}
	if err := tx.Ahead(aheadOf(jobs)); err != nil {
		return nil, err
	}
	now, err := tx.Now()
	if err != nil {
		return nil, err
	}
	in := &inserter{tx: tx, now: now, limits: newLimits(tx), mayStart: mayStart, lanes: map[string]*laneUse{},
		pending: map[string]bool{}, out: make([]store.Inserted, len(jobs))}
	if tx.Overlaps() {
		if err := in.lanesAhead(jobs); err != nil {
			return nil, err
		}
	}
	for i := range jobs {
		if err := in.add(i, &jobs[i]); err != nil {
			return nil, &store.InsertError{Index: i, Err: err}
		}
	}
	return in.out, in.write()
}

// aheadOf lists what inserting the jobs reads.
func aheadOf(jobs []store.NewJob) (a Ahead) {
	a.NewJobs = len(jobs)
	var last *store.LaneKey
	for i := range jobs {
		n := &jobs[i]
		if n.Unique != "" {
			a.Unique = append(a.Unique, n.Unique)
		}
		if n.Ref != "" && (a.Run == "" || a.Run == n.Run) {
			a.Run, a.Refs = n.Run, append(a.Refs, n.Ref)
		}
		if last != nil && SameKey(last, &n.LaneKey) { // the jobs of a batch mostly are alike
			continue
		}
		last = &n.LaneKey
		for _, d := range n.Draws {
			a.Limits = append(a.Limits, d.Limit)
		}
	}
	return a
}

// lanesAhead names the lanes of those jobs that will be written. They are made in a
// transaction of their own, so nothing must be left to refuse.
func (in *inserter) lanesAhead(jobs []store.NewJob) error {
	var a Ahead
	seen := make(map[string]bool)
	for i := range jobs {
		n := &jobs[i]
		if n.Ref != "" {
			if key := "r" + n.Run + "\x00" + n.Ref; seen[key] {
				continue
			} else {
				seen[key] = true
			}
			if _, taken, err := in.tx.Call(n.Run, n.Ref); err != nil {
				return err
			} else if taken {
				continue
			}
		}
		if n.Unique != "" && !n.Replace {
			if seen["u"+n.Unique] {
				continue
			}
			seen["u"+n.Unique] = true
			if _, taken, err := in.tx.UniqueHolder(n.Unique); err != nil {
				return err
			} else if taken {
				continue
			}
		}
		if len(a.NewLanes) > 0 && SameKey(&a.NewLanes[len(a.NewLanes)-1], &n.LaneKey) {
			continue
		}
		if err := in.checkLimits(n); err != nil {
			return &store.InsertError{Index: i, Err: err}
		}
		a.NewLanes = append(a.NewLanes, n.LaneKey)
	}
	return in.tx.Ahead(a)
}

// inserter gathers the rows of one Insert. Rows are written at the end in one
// go, but for jobs whose unique key or call id a later one may refer to.
type inserter struct {
	tx        Tx
	now       int64
	limits    *limits
	mayStart  bool          // the only job is to be started at once, if nothing speaks against it
	startedAs *store.NewJob // it, if it was
	lanes     map[string]*laneUse
	out       []store.Inserted

	last    *laneUse // of the job before, and its key
	lastKey *store.LaneKey

	pending map[string]bool // unique keys and call ids of rows not yet written
	dirty   []*laneUse      // lanes that rows not yet written went to

	jobs   []*Job
	bodies []Body
	calls  []Call
	index  []int // of jobs in out
}

// laneUse is a lane that got jobs, and the earliest of them.
type laneUse struct {
	lane Lane
	at   int64
}

func (in *inserter) add(i int, n *store.NewJob) error {
	if n.Ref != "" {
		if err := in.settlePending("r" + n.Run + "\x00" + n.Ref); err != nil {
			return err
		}
		if done, err := in.sameRef(i, n); done || err != nil {
			return err
		}
	}
	var before *Job // the running holder of the unique key that n succeeds
	if n.Unique != "" {
		if err := in.settlePending("u" + n.Unique); err != nil {
			return err
		}
		holder, done, err := in.holder(i, n)
		if done || err != nil {
			return err
		}
		before = holder
	}
	use, err := in.lane(n)
	if err != nil {
		return err
	}
	at := max(n.At, in.now)
	j := &Job{Lane: use.lane.ID, State: store.Waiting, At: at, EnqueuedAt: in.now, ExpiresAt: n.ExpiresAt,
		Unique: n.Unique, Run: n.Run, Ref: n.Ref}
	in.jobs = append(in.jobs, j)
	in.bodies = append(in.bodies, Body{Payload: n.Payload, Options: store.EncodeOptions(n.Options)})
	in.index = append(in.index, i)
	if n.Ref != "" {
		in.calls = append(in.calls, Call{Run: n.Run, Ref: n.Ref, Hash: n.Hash, Line: n.Line})
	} else {
		in.calls = append(in.calls, Call{})
	}
	if before != nil {
		return in.succeed(before, j)
	}
	if in.mayStart {
		if started, err := in.start(n, j); started || err != nil {
			return err
		}
	}
	if use.at == Empty {
		in.dirty = append(in.dirty, use)
	}
	use.at = min(use.at, at)
	return nil
}

// settlePending makes sure that a key which a job of this very call took is
// found in the store, and notes that the coming job takes it.
func (in *inserter) settlePending(key string) error {
	if in.pending[key] {
		if err := in.write(); err != nil {
			return err
		}
	}
	in.pending[key] = true
	return nil
}

// sameRef settles a job whose call id is taken.
func (in *inserter) sameRef(i int, n *store.NewJob) (bool, error) {
	c, ok, err := in.tx.Call(n.Run, n.Ref)
	if err != nil || !ok {
		return false, err
	}
	state, err := stateOf(in.tx, c.Job)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // pruned: the id stays taken all the same
		return false, err
	}
	in.out[i] = store.Inserted{ID: c.Job, State: state, Verdict: store.Duplicate, Line: c.Line}
	if c.Hash != n.Hash {
		in.out[i].Verdict = store.Conflict
	}
	return true, nil
}

// holder settles a job whose unique key is taken. It returns a running holder
// that the job is to succeed.
func (in *inserter) holder(i int, n *store.NewJob) (before *Job, done bool, err error) {
	h, ok, err := in.tx.UniqueHolder(n.Unique)
	if err != nil || !ok {
		return nil, false, err
	}
	if !n.Replace {
		in.out[i] = store.Inserted{ID: h.ID, State: h.State, Verdict: store.Duplicate}
		return nil, true, nil
	}
	if h.State == store.Running {
		return h, false, nil
	}
	lanes, err := in.tx.Lanes([]int64{h.Lane})
	if err != nil {
		return nil, false, err
	}
	if kind := lanes[0].Band.Kind; kind != n.Kind {
		// Its handler would get a payload that is not meant for it.
		return nil, false, fmt.Errorf("%w: job %d of kind %q waits with %q, and one of kind %q cannot replace it: use keys that begin with the kind",
			store.ErrUniqueTaken, h.ID, kind, n.Unique, n.Kind)
	}
	in.out[i] = store.Inserted{ID: h.ID, State: h.State, Verdict: store.Replaced}
	return nil, true, in.tx.SaveBody(h.ID, Body{Payload: n.Payload, Options: store.EncodeOptions(n.Options)})
}

// succeed makes j wait for the end of the running job before, and takes over its
// unique key: the last version submitted runs after it was submitted, and never
// beside the older one.
func (in *inserter) succeed(before, j *Job) error {
	key := j.Unique
	j.Unique, j.At = "", awaitsEnd
	if err := in.write(); err != nil {
		return err
	}
	before.Unique, before.Next = "", j.ID
	if err := in.tx.SaveJobs([]*Job{before}); err != nil {
		return err
	}
	j.Unique = key
	return in.tx.SaveJobs([]*Job{j})
}

// awaitsEnd is the due time of a job that waits for another one's end.
const awaitsEnd = Held

func (in *inserter) lane(n *store.NewJob) (*laneUse, error) {
	if in.last != nil && SameKey(in.lastKey, &n.LaneKey) {
		return in.last, nil
	}
	key := KeyText(&n.LaneKey)
	use, ok := in.lanes[key]
	if !ok {
		var err error
		if use, err = in.newLane(n); err != nil {
			return nil, err
		}
		in.lanes[key] = use
	}
	in.last, in.lastKey = use, &n.LaneKey
	return use, nil
}

// checkLimits checks the limits that a job draws on.
func (in *inserter) checkLimits(n *store.NewJob) error {
	for i, d := range n.Draws {
		l, err := in.limits.get(d.Limit)
		if err != nil {
			return err
		}
		if !l.Known {
			return unknownLimit(in.tx, d.Limit)
		}
		if err := l.Spec.CheckCost(d.Cost); err != nil {
			return fmt.Errorf("limit %q: %w", d.Limit, err)
		}
		for _, other := range n.Draws[:i] {
			if other.Limit == d.Limit {
				return fmt.Errorf("limit %q is named twice: name it once, with the sum as its cost", d.Limit)
			}
		}
	}
	return nil
}

// newLane checks the limits that jobs of the lane draw on, and finds the lane.
func (in *inserter) newLane(n *store.NewJob) (*laneUse, error) {
	if err := in.checkLimits(n); err != nil {
		return nil, err
	}
	lane, err := findLane(in.tx, n.LaneKey)
	if err != nil {
		return nil, err
	}
	return &laneUse{lane: lane, at: Empty}, nil
}

// SameKey reports whether jobs of both keys go to one lane.
func SameKey(a, b *store.LaneKey) bool {
	return a.Queue == b.Queue && a.Kind == b.Kind && a.Priority == b.Priority && a.Run == b.Run && a.Load == b.Load &&
		a.Suspect == b.Suspect && a.Group == b.Group && slices.Equal(a.Draws, b.Draws)
}

// write writes what was gathered and lets the lanes know.
func (in *inserter) write() error {
	if len(in.jobs) == 0 {
		return nil
	}
	if err := in.tx.AddJobs(in.jobs, in.bodies); err != nil {
		return err
	}
	for k, j := range in.jobs {
		in.out[in.index[k]] = store.Inserted{ID: j.ID, State: j.State, Verdict: store.Created, Started: in.started(j)}
		if c := in.calls[k]; c.Ref != "" {
			c.Job = j.ID
			if err := in.tx.AddCall(c); err != nil {
				return err
			}
		}
	}
	in.jobs, in.bodies, in.calls, in.index = in.jobs[:0], in.bodies[:0], in.calls[:0], in.index[:0]
	clear(in.pending)
	for _, use := range in.dirty {
		if err := arrive(in.tx, &use.lane, use.at, in.now); err != nil {
			return err
		}
		use.at = Empty
	}
	in.dirty = in.dirty[:0]
	return nil
}

// KeyText joins a lane's parts unambiguously: each with its length before it.
func KeyText(k *store.LaneKey) string {
	b := make([]byte, 0, 128)
	part := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(b, ':'), s...)
	}
	for _, s := range []string{k.Queue, k.Kind, k.Run, k.Load, k.Group} {
		part(s)
	}
	b = strconv.AppendInt(b, int64(k.Priority), 10)
	b = strconv.AppendBool(b, k.Suspect)
	for _, d := range k.Draws {
		part(d.Limit)
		b = strconv.AppendInt(b, d.Cost, 10)
	}
	return string(b)
}

// Plain reports whether a job is sound and has nothing to do with others: once the
// limits of its lane were checked, it can be written without asking anything, as
// long as their rows stay as they were.
func Plain(n *store.NewJob) bool {
	return n.Unique == "" && !n.Replace && n.Run == "" && n.Ref == "" && n.Load == "" && checkJob(n) == nil
}

func checkJob(n *store.NewJob) error {
	for _, f := range []struct {
		what, v string
		must    bool
	}{{"kind", n.Kind, true}, {"queue", n.Queue, true}, {"group", n.Group, false}, {"unique key", n.Unique, false},
		{"run", n.Run, false}, {"id", n.Ref, false}, {"idempotency key", n.Options.IdempotencyKey, false}} {
		switch {
		case f.must && f.v == "":
			return fmt.Errorf("%s is empty: expected a name", f.what)
		case len(f.v) > maxName:
			return fmt.Errorf("%s has %d bytes: expected at most %d", f.what, len(f.v), maxName)
		case !utf8.ValidString(f.v) || strings.ContainsRune(f.v, 0):
			return fmt.Errorf("%s %q: expected valid UTF-8 without NUL", f.what, f.v)
		}
	}
	switch {
	case n.Priority < 1 || n.Priority > 9:
		return fmt.Errorf("priority %d: expected 1 to 9, larger first", n.Priority)
	case n.At > MaxInstant || n.ExpiresAt > MaxInstant:
		return fmt.Errorf("instant beyond the year 9999 cannot be stored: give an earlier one")
	case n.At < 0 || n.ExpiresAt < 0:
		return fmt.Errorf("instant before 1970 cannot be stored: leave it out to mean now or never")
	case n.Ref != "" && n.Run == "":
		return fmt.Errorf("id %q without a run: ids are unique within a run, name one", n.Ref)
	case n.Suspect:
		return fmt.Errorf("a new job cannot be a suspect")
	}
	return checkDraws(n.Draws)
}

func checkDraws(draws []dispatch.Draw) error {
	for _, d := range draws {
		if d.Limit == "" || strings.HasSuffix(d.Limit, "/*") || len(d.Limit) > maxName {
			return fmt.Errorf("limit %q: expected a name of 1 to %d bytes that is not a pattern", d.Limit, maxName)
		}
	}
	return nil
}
