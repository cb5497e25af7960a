package penstock

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// The words of the store that users meet, under the names they are used by.
// Instants in them are microseconds since the Unix epoch; [Instant] and
// [Micros] convert.
type (
	// JobInfo is all that is known of a job.
	JobInfo = store.Job
	// Filter selects jobs.
	Filter = store.Filter
	// State says where a job is.
	State = store.State
	// Outcome says how a start ended.
	Outcome = store.Outcome
	// Reason says why a job is dead.
	Reason = store.Reason
	// Event is one ended start in a job's history.
	Event = store.Event
	// LimitInfo is a limit as people see it.
	LimitInfo = store.LimitInfo
	// Draw says that a job takes Cost permits of Limit at each start.
	Draw = dispatch.Draw
	// Observation is what a response told about a limit.
	Observation = limit.Observation
)

// The states of a job.
const (
	Waiting   = store.Waiting
	Running   = store.Running
	Done      = store.Done
	Dead      = store.Dead
	Cancelled = store.Cancelled
)

// Instant returns the time of an instant of the store; the zero time for 0.
func Instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// Micros is the reverse of [Instant].
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Draws returns draws of one permit from each of the limits.
func Draws(limits ...string) []Draw {
	draws := make([]Draw, len(limits))
	for i, name := range limits {
		draws[i] = Draw{Limit: name, Cost: 1}
	}
	return draws
}

// A Job is a job in the hands of its handler.
type Job[T any] struct {
	// JobInfo is the job as it was when it was claimed: Attempts counts the
	// failures before this start.
	JobInfo
	// Args is the decoded payload.
	Args T

	start *start
}

// RawJob is a job whose payload was not decoded.
type RawJob = Job[[]byte]

// IdempotencyKey is the key made for the job when it was enqueued: the same at
// every start and replay. It is "" unless the kind or the enqueuer asked for one.
func (j *Job[T]) IdempotencyKey() string { return j.Options.IdempotencyKey }

// SetResult keeps v, as JSON, with the job when this start ends it: done or
// dead. A []byte or json.RawMessage is kept as it is, up to 512 MiB. The last call
// wins. A job that no worker handed out, as one made by a test, has no result to
// set: ErrNoJob.
func (j *Job[T]) SetResult(v any) error {
	b, err := j.kept(v)
	if err != nil {
		return fmt.Errorf("result of a %q job: %w", j.Kind, err)
	}
	j.start.setResult(b)
	return nil
}

// SetDetail keeps v, as JSON, with the event that this start leaves in the
// job's history: a status, headers, the first bytes of an answer. Its errors are
// those of SetResult.
func (j *Job[T]) SetDetail(v any) error {
	b, err := j.kept(v)
	if err != nil {
		return fmt.Errorf("detail of a %q job: %w", j.Kind, err)
	}
	j.start.setDetail(b)
	return nil
}

// maxKept bounds what a start may leave: a store takes no more than about a
// billion bytes in a row, and an outcome that it never takes is a job without end.
const maxKept = 512 << 20

// kept returns the form in which v is stored with the job.
func (j *Job[T]) kept(v any) ([]byte, error) {
	if j.start == nil {
		return nil, ErrNoJob
	}
	b, err := encode(v)
	if err == nil && len(b) > maxKept {
		err = fmt.Errorf("it has %d bytes, the most is %d: keep large data elsewhere, and here where it is", len(b), maxKept)
	}
	return b, err
}

// encode returns the stored form of a payload or a result.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case json.RawMessage:
		if len(v) > 0 && !json.Valid(v) {
			return nil, fmt.Errorf("expected JSON, got %.40q", v)
		}
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot be written as JSON: %w", err)
	}
	return b, nil
}

// decode reads a payload into T; []byte and json.RawMessage get the bytes.
func decode[T any](b []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = b
		return v, nil
	case *json.RawMessage:
		*p = b
		return v, nil
	}
	if len(b) == 0 {
		return v, nil
	}
	err := json.Unmarshal(b, &v)
	return v, err
}
