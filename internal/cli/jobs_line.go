package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
)

// jobLine is a job in a list, as JSON.
type jobLine struct {
	ID         int64            `json:"id"`
	State      penstock.State   `json:"state"`
	Kind       string           `json:"kind"`
	Queue      string           `json:"queue"`
	Priority   int              `json:"priority"`
	Group      string           `json:"group,omitempty"`
	Run        string           `json:"run,omitempty"`
	Ref        string           `json:"ref,omitempty"`
	Limits     map[string]int64 `json:"limits"` // name: cost
	EnqueuedAt show.Time        `json:"enqueued_at"`
	DueAt      show.Time        `json:"due_at"`
	ExpiresAt  show.Time        `json:"expires_at"`
	FinishedAt show.Time        `json:"finished_at"`
	Starts     int              `json:"starts"`
	Attempts   int              `json:"attempts"`
	Refusals   int              `json:"refusals"`
	Losses     int              `json:"losses"`
	Cancel     bool             `json:"cancel_requested"`
	Suspect    bool             `json:"suspect"`
	Reason     penstock.Reason  `json:"reason,omitempty"`
	Error      string           `json:"error,omitempty"`
}

func newJobLine(j *penstock.JobInfo) jobLine {
	l := jobLine{
		ID: j.ID, State: j.State, Kind: j.Kind, Queue: j.Queue, Priority: j.Priority, Group: j.Group, Run: j.Run, Ref: j.Ref,
		Limits: map[string]int64{}, EnqueuedAt: show.Time(j.EnqueuedAt), DueAt: show.Time(j.At),
		ExpiresAt: show.Time(j.ExpiresAt), FinishedAt: show.Time(j.FinishedAt), Starts: j.Starts, Attempts: j.Attempts, Refusals: j.Throttles, Losses: j.Losses,
		Cancel: j.Cancel, Suspect: j.Suspect, Reason: j.Reason, Error: j.Error,
	}
	for _, d := range j.Draws {
		l.Limits[d.Limit] = d.Cost
	}
	return l
}

// jobTable lists jobs for people.
func jobTable(jobs []penstock.JobInfo, now int64, oneState bool) *show.Table {
	t := &show.Table{Columns: []show.Column{
		{Name: "id", Right: true}, {Name: "state"}, {Name: "kind"}, {Name: "queue", Flex: true}, {Name: "run", Flex: true}, {Name: "ref", Flex: true},
		{Name: "limits", Flex: true}, {Name: "starts", Right: true}, {Name: "age", Right: true}, {Name: "what", Flex: true},
	}}
	oneQueue := !slices.ContainsFunc(jobs, func(j penstock.JobInfo) bool { return j.Queue != penstock.DefaultQueue })
	for i := range jobs {
		j := &jobs[i]
		since := j.EnqueuedAt
		if j.State.Ended() {
			since = j.FinishedAt
		}
		state := j.State.String()
		if oneState { // who asked for it knows it
			state = ""
		}
		queue := j.Queue
		if oneQueue {
			queue = ""
		}
		t.Add(fmt.Sprint(j.ID), state, j.Kind, queue, j.Run, j.Ref, drawsText(j.Draws), show.Some(int64(j.Starts)), show.Age(now, since), whatOf(j, now))
	}
	return t
}

// whatOf says in a few words what is to be known of a job.
func whatOf(j *penstock.JobInfo, now int64) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case j.State == penstock.Dead:
		add("%s", j.Reason)
	case j.State == penstock.Running && j.Cancel:
		add("told to stop")
	case j.State == penstock.Waiting && j.At > farOff:
		add("waits for the job before it to end")
	case j.State == penstock.Waiting && j.At > now:
		add("due in %s", show.Duration(show.Between(now, j.At)))
	}
	if j.Suspect && !j.State.Ended() {
		add("suspect")
	}
	if j.Error != "" {
		add("%s", firstLineOf(j.Error))
	}
	return strings.Join(parts, ": ")
}

// farOff is beyond any time that a person can ask for.
var farOff = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()

func firstLineOf(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// drawsText is the first of a job's limits and how many more there are.
func drawsText(draws []penstock.Draw) string {
	switch len(draws) {
	case 0:
		return ""
	case 1:
		return draws[0].Limit
	}
	return fmt.Sprintf("%s +%d", draws[0].Limit, len(draws)-1)
}

// rawOrText is bytes for JSON: as they are if they are JSON, which is in UTF-8, else
// as a text.
func rawOrText(b []byte) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	if json.Valid(b) && utf8.Valid(b) {
		return b
	}
	return quoteText(string(b))
}

// quoteText is a text as JSON, with no more escapes than it needs.
func quoteText(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string cannot fail
	return bytes.TrimSpace(b.Bytes())
}

// toValid drops a character that was cut in two.
func toValid(b []byte) string { return strings.ToValidUTF8(string(b), "") }

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
