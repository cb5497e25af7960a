package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
)

// TestBulkAsks: on a terminal, many dead letters are changed only after a yes.
func TestBulkAsks(t *testing.T) {
	c, err := penstock.Open(t.Context(), "memory:", penstock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fail := func(context.Context, *penstock.RawJob) error { return penstock.Permanent(errors.New("no")) }
	if err := penstock.Handle(c, "k", fail, penstock.Kind{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnqueueMany(t.Context(), make3("k")); err != nil {
		t.Fatal(err)
	}
	if err := c.Work(t.Context(), penstock.WorkOptions{Drain: true}); err != nil {
		t.Fatal(err)
	}
	now, err := c.Store().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "what\n": false} {
		var said bytes.Buffer
		b := &bulk{jobsFlags: &jobsFlags{}, verb: "discard", done: "discarded", client: c, err: &said, most: 2}
		ok, err := b.confirm(t.Context(), strings.NewReader(answer), penstock.Filter{}, now)
		if ok != want || want != (err == nil) {
			t.Errorf("%q: %v, %v", answer, ok, err)
		}
		if got := said.String(); got != "penstock: discard 2 dead letters? [y/N] " {
			t.Errorf("asked %q", got)
		}
	}
}

func make3(kind string) []penstock.NewJob {
	return []penstock.NewJob{{Kind: kind}, {Kind: kind}, {Kind: kind}}
}

// TestPaceOfReplays: half of what the tightest of a job's limits allows, limit by
// limit; one pace for all where it is given.
func TestPaceOfReplays(t *testing.T) {
	c, err := penstock.Open(t.Context(), "memory:", penstock.Config{Limits: map[string]string{
		"fast": "100/s", "slow": "60/m", "day": "100/s, 86400/day", "few": "4 in flight", "open": "unlimited",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, tt := range map[string]struct {
		rate  float64
		draws []penstock.Draw
		want  time.Duration // from one to the next
	}{
		"the limit":          {0, penstock.Draws("fast"), 20 * time.Millisecond},
		"the tightest one":   {0, penstock.Draws("fast", "slow"), 2 * time.Second},
		"by cost":            {0, []penstock.Draw{{Limit: "slow", Cost: 5}}, 10 * time.Second},
		"the longest window": {0, penstock.Draws("day"), 2 * time.Second},
		"in flight":          {0, penstock.Draws("few"), 500 * time.Millisecond},
		"unlimited":          {0, penstock.Draws("open"), 20 * time.Millisecond},
		"no limit":           {0, nil, 20 * time.Millisecond},
		"gone":               {0, penstock.Draws("gone"), 20 * time.Millisecond},
		"as asked":           {4, penstock.Draws("slow"), 250 * time.Millisecond},
	} {
		p := &pacer{client: c, rate: tt.rate, beside: true, lines: map[string]*pace{}}
		j := &penstock.JobInfo{}
		j.Draws = tt.draws
		due, err := p.dues(t.Context(), []penstock.JobInfo{*j, *j, *j, *j, *j})
		if err != nil || len(due) != 5 {
			t.Fatalf("%s: %v, %v", name, due, err)
		}
		for i := range int64(5) {
			if at, want := due[i], p.begin+i*tt.want.Microseconds(); at < want-i || at > want+i {
				t.Errorf("%s: number %d is due at %d, want %d", name, i, at, want)
			}
		}
	}
	p := &pacer{client: c, beside: true, lines: map[string]*pace{}}
	jobs := make([]penstock.JobInfo, 4)
	for i, name := range []string{"slow", "fast", "slow", "fast"} {
		jobs[i].Draws = penstock.Draws(name)
	}
	if _, err := p.dues(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if slow, fast := p.lines["limit slow"], p.lines["limit fast"]; slow.at != 4e6 || fast.at != 40e3 {
		t.Errorf("one limit waits for another: %v and %v", slow, fast)
	}
	for text, want := range map[string]float64{"20/s": 20, "120/m": 2, "0.5/s": 0.5, "": 0} {
		if got, err := parsePace(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"20", "1/s, 2/m", "3 in flight", "paused", "unlimited", "-1/s"} {
		if got, err := parsePace(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A second replay in bulk, at the same time or later, goes on behind the first one:
// together they keep the pace of one, in whatever way each got its pace.
func TestReplaysInBulkGoOnBehindEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	open := func() *penstock.Client {
		c, err := penstock.Open(t.Context(), path, penstock.Config{Limits: map[string]string{"slow": "60/m", "other": "60/m"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	jobs := make([]penstock.JobInfo, 3)
	for i := range jobs {
		jobs[i].Draws = penstock.Draws("slow")
	}
	one, two, rated := &pacer{client: open()}, &pacer{client: open()}, &pacer{client: open(), rate: 0.5}
	var due []int64
	for _, p := range []*pacer{one, two, one, rated, two, rated} {
		if p.lines == nil {
			p.lines = map[string]*pace{}
		}
		part, err := p.dues(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		due = append(due, part...)
	}
	for i := 1; i < len(due); i++ {
		if step := due[i] - due[i-1]; step < 2_000_000-2 || step > 2_000_000+2 {
			t.Errorf("number %d comes due %d µs after the one before, want 2 s", i, step)
		}
	}
	// Those of another limit do not wait for them, nor who wants to begin now.
	other := jobs[:1:1]
	other[0].Draws = penstock.Draws("other")
	for name, p := range map[string]*pacer{"another limit": {client: one.client}, "beside": {client: one.client, beside: true}} {
		p.lines = map[string]*pace{}
		list := other
		if p.beside {
			list = jobs[1:]
		}
		if at, err := p.dues(t.Context(), list); err != nil || at[0] != p.begin {
			t.Errorf("%s: due %v, begun at %d (%v)", name, at, p.begin, err)
		}
	}
}

func TestAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "7d": 7 * 24 * time.Hour, "1.5d": 36 * time.Hour, "2d12h": 60 * time.Hour} {
		var a age
		if err := a.Set(text); err != nil || time.Duration(a) != want {
			t.Errorf("%q: %v, %v", text, time.Duration(a), err)
		}
	}
	for _, text := range []string{"", "5", "-1h", "0s", "d", "NaNd", "1e9d", "5x", "-1d"} {
		var a age
		if err := a.Set(text); err == nil {
			t.Errorf("%q: %v", text, time.Duration(a))
		}
	}
}
