package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

// turn is one entry of a job's history.
type turn struct {
	N         int               `json:"n,omitempty"` // of the stored event; none for the rest
	At        show.Time         `json:"at"`
	What      string            `json:"what"` // enqueued, the outcome of a start, running, or how the job ended
	StartedAt show.Time         `json:"started_at"`
	Took      *show.Seconds     `json:"took_seconds"`
	Error     string            `json:"error,omitempty"`
	NextAt    show.Time         `json:"next_at"`
	Status    int               `json:"status,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Response  string            `json:"response,omitempty"`
	Detail    json.RawMessage   `json:"detail,omitempty"` // of kinds other than http

	Swallowed string `json:"swallowed,omitempty"` // the call that failed, though the handler returned no error

	again int64 // when the next start was, if it is known
}

// history is all that is known of a job's life: its events, and what the job
// itself says of its beginning and its end.
func history(j *penstock.JobInfo, events []penstock.Event) []turn {
	turns := []turn{{At: show.Time(j.EnqueuedAt), What: "enqueued"}}
	ended := false
	for i := range events {
		e := &events[i]
		t := turn{N: e.N, At: show.Time(e.At), What: e.Outcome.String(), StartedAt: show.Time(e.Started), Error: e.Error, NextAt: show.Time(e.NextAt)}
		if e.Started != 0 && e.At >= e.Started {
			took := show.Seconds(show.Between(e.Started, e.At))
			t.Took = &took
		}
		t.detail(j.Kind, e.Detail)
		ended = j.State.Ended() && e.At == j.FinishedAt && e.NextAt == 0
		turns = append(turns, t)
	}
	switch {
	case j.State == penstock.Running:
		turns = append(turns, turn{At: show.Time(j.Slot), What: "running", StartedAt: show.Time(j.Slot)})
	case j.State.Ended() && !ended:
		t := turn{At: show.Time(j.FinishedAt), What: j.State.String(), Error: j.Error}
		if j.Kind == httpcall.Kind {
			if r, err := httpcall.ParseResult(j.Result); err == nil {
				t.Status = r.Status
			}
		}
		turns = append(turns, t)
	}
	return turns
}

// detail takes in what a start left of its answer.
func (t *turn) detail(kind string, b []byte) {
	if len(b) == 0 {
		return
	}
	if kind == httpcall.Kind {
		var d httpcall.Detail
		if json.Unmarshal(b, &d) == nil {
			t.Status, t.Headers, t.Response = d.Status, d.Headers, d.Response
			return
		}
	}
	var of struct {
		Swallowed string `json:"swallowed"`
	}
	if json.Unmarshal(b, &of) == nil {
		t.Swallowed = of.Swallowed
	}
	t.Detail = rawOrText(b)
}

// print writes the turn for people.
func (t *turn) print(s *show.Screen, now int64, n string) error {
	var b strings.Builder
	head := t.what()
	at := int64(t.At)
	if t.StartedAt != 0 {
		at = int64(t.StartedAt)
	}
	fmt.Fprintf(&b, "%3s  %s  %s\n", n, show.Clock(now, at), show.Text(head))
	more := func(text string) {
		for _, line := range show.Wrap(show.Text(text), max(s.Width-5, 0)) {
			b.WriteString("     " + line + "\n")
		}
	}
	if t.Error != "" {
		more(strings.ReplaceAll(strings.TrimSpace(t.Error), "\n", "; "))
	}
	if t.Swallowed != "" {
		more("the handler returned no error, though its last call had failed: " + t.Swallowed)
	}
	names := make([]string, 0, len(t.Headers))
	for name := range t.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		more(name + ": " + t.Headers[name])
	}
	if t.Response != "" {
		more(strings.ReplaceAll(strings.TrimSpace(t.Response), "\n", " "))
	}
	if len(t.Detail) > 0 {
		more(string(t.Detail))
	}
	if t.NextAt != 0 {
		if int64(t.NextAt) > int64(t.At) {
			more(fmt.Sprintf("due again at %s, %s later", show.Clock(now, int64(t.NextAt)), show.Duration(show.Between(int64(t.At), int64(t.NextAt)))))
		} else if t.What == store.OutcomeThrottled.String() {
			text := "it kept its place in line"
			if t.again != 0 {
				text += fmt.Sprintf(", and was started again at %s, %s later", show.Clock(now, t.again), show.Duration(show.Between(int64(t.At), t.again)))
			}
			more(text)
		}
	}
	_, err := s.Write([]byte(b.String()))
	return err
}

func (t *turn) what() string {
	var parts []string
	switch {
	case t.What == "retry":
		parts = append(parts, "failed, to be tried again")
	case t.What == "throttled":
		parts = append(parts, "refused by the API")
	case t.What == "lost":
		parts = append(parts, "lost: its process died, or stood still for too long")
	default:
		parts = append(parts, t.What)
	}
	if t.Status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("status %d %s", t.Status, http.StatusText(t.Status))))
	}
	if t.Took != nil {
		parts = append(parts, "after "+show.Duration(time.Duration(*t.Took)))
	}
	return strings.Join(parts, ", ")
}
