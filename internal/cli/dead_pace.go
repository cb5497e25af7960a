package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

const (
	replayShare = 0.5  // of what a limit allows, unless --rate says otherwise
	replayMost  = 50.0 // a second, where no limit says anything
	second      = 1e6  // in the store's microseconds
)

// pacer says when each of many replayed jobs is due, so that live work finds
// room beside them: with a rate, one after the other at that rate; else at a
// share of what the limits of each allow.
type pacer struct {
	client *penstock.Client
	begin  int64
	rate   float64 // a second; 0: by the limits
	n      int64
	lines  map[string]*pace // by limit; "" for jobs that no limit holds
}

// pace is where the line of a limit has got to.
type pace struct {
	perSecond float64
	at        float64 // microseconds after begin
}

// due returns the job's due time.
func (p *pacer) due(ctx context.Context, j *penstock.JobInfo) (int64, error) {
	if p.rate > 0 {
		at := p.begin + int64(float64(p.n)/p.rate*second)
		p.n++
		return at, nil
	}
	lines := map[*pace]int64{}
	for _, d := range j.Draws {
		l, err := p.line(ctx, d.Limit)
		if err != nil {
			return 0, err
		}
		if l.perSecond > 0 {
			lines[l] += d.Cost
		}
	}
	if len(lines) == 0 {
		lines[p.free()] = 1
	}
	at := 0.0
	for l := range lines {
		at = max(at, l.at)
	}
	for l, cost := range lines {
		l.at = at + float64(cost)/l.perSecond*second
	}
	return p.begin + int64(at), nil
}

func (p *pacer) free() *pace {
	if p.lines[""] == nil {
		p.lines[""] = &pace{perSecond: replayMost}
	}
	return p.lines[""]
}

// line returns that of a limit.
func (p *pacer) line(ctx context.Context, name string) (*pace, error) {
	if l := p.lines[name]; l != nil {
		return l, nil
	}
	info, err := p.client.LimitByName(ctx, name)
	var unknown *store.UnknownLimitError
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.As(err, &unknown) {
		return nil, err
	}
	l := &pace{perSecond: replayShare * perSecond(info.Spec)}
	p.lines[name] = l
	return l, nil
}

// perSecond is what a limit allows in the long run: the slowest of its rates.
// Calls in flight count as one a second. 0: nothing is said.
func perSecond(sp limit.Spec) float64 {
	least := 0.0
	note := func(v float64) {
		if v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	for _, r := range sp.Rates {
		n, w := r.Limit()
		switch {
		case w > 0:
			note(float64(n) / w.Seconds())
		case r.Calendar == limit.Month:
			note(float64(n) / (30 * 86400))
		default:
			note(float64(n) / 86400)
		}
	}
	note(float64(sp.InFlight))
	return least
}

// parsePace reads --rate: a rate as limits have it.
func parsePace(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	sp, err := limit.Parse(text)
	if err == nil && len(sp.Rates) == 1 && sp.InFlight == 0 && !sp.Paused && !strings.Contains(text, ",") {
		if v := perSecond(sp); v > 0 {
			return v, nil
		}
	}
	return 0, usagef("--rate: expected a pace such as 20/s or 100/m, got %q", text)
}
