package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
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
// share of what the limits of each allow. What several commands put back comes due
// one behind the other: the store keeps until when each line is taken.
type pacer struct {
	client *penstock.Client
	begin  int64
	rate   float64 // a second; 0: by the limits
	beside bool    // begin now, whatever others put back

	lines map[string]*pace // by name
}

// The lines of jobs that no limit holds, and of all jobs put back at a rate. Those of
// limits are named after them.
const (
	freeLine    = "free"
	rateLine    = "rate"
	lineOfLimit = "limit "
)

// pace is where a line has got to.
type pace struct {
	perSecond float64
	at        float64 // microseconds after begin
}

// dues returns when the jobs are due, and takes their lines for so long.
func (p *pacer) dues(ctx context.Context, jobs []penstock.JobInfo) (due []int64, err error) {
	used := map[string]*pace{}
	for i := range jobs {
		costs, err := p.costs(ctx, &jobs[i])
		if err != nil {
			return nil, err
		}
		for name := range costs {
			used[name] = p.lines[name]
		}
	}
	names := slices.Sorted(maps.Keys(used))
	before := make([]float64, len(names)) // fn may be run again
	for i, name := range names {
		before[i] = used[name].at
	}
	err = p.client.Store().Pace(ctx, names, func(now int64, taken []int64) {
		if p.begin == 0 {
			p.begin = now
		}
		first := 0.0
		for i, name := range names {
			if used[name].at = float64(taken[i] - p.begin); p.beside {
				used[name].at = max(before[i], float64(now-p.begin))
			}
			first = max(first, used[name].at)
		}
		if p.rate > 0 { // one line for all: it begins where all are free
			used[rateLine].at = first
		}
		due = due[:0]
		for i := range jobs {
			due = append(due, p.due(&jobs[i]))
		}
		for i, name := range names {
			l := used[name]
			if p.rate > 0 {
				l.at = used[rateLine].at
			}
			taken[i] = max(taken[i], p.begin+int64(l.at))
		}
	})
	return due, err
}

// costs are the lines that a job stands in, with what it costs there; their paces
// are known after it.
func (p *pacer) costs(ctx context.Context, j *penstock.JobInfo) (map[string]int64, error) {
	for _, d := range j.Draws {
		if err := p.know(ctx, d.Limit); err != nil {
			return nil, err
		}
	}
	costs := p.known(j)
	if p.rate > 0 {
		costs[rateLine] = 1
	}
	for name := range costs {
		if p.lines[name] == nil {
			p.lines[name] = &pace{perSecond: map[string]float64{freeLine: replayMost, rateLine: p.rate}[name]}
		}
	}
	return costs, nil
}

// known are the lines of limits that say something of a pace, or the free one.
func (p *pacer) known(j *penstock.JobInfo) map[string]int64 {
	costs := map[string]int64{}
	for _, d := range j.Draws {
		if name := lineOfLimit + d.Limit; p.lines[name].perSecond > 0 {
			costs[name] += d.Cost
		}
	}
	if len(costs) == 0 {
		costs[freeLine] = 1
	}
	return costs
}

// due puts a job at the end of its lines, whose paces are known.
func (p *pacer) due(j *penstock.JobInfo) int64 {
	costs := map[string]int64{rateLine: 1}
	if p.rate == 0 {
		costs = p.known(j)
	}
	at := 0.0
	for name := range costs {
		at = max(at, p.lines[name].at)
	}
	for name, cost := range costs {
		l := p.lines[name]
		l.at = at + float64(cost)/l.perSecond*second
	}
	return p.begin + int64(at)
}

// know looks up what a limit allows.
func (p *pacer) know(ctx context.Context, limit string) error {
	name := lineOfLimit + limit
	if p.lines[name] != nil {
		return nil
	}
	info, err := p.client.LimitByName(ctx, limit)
	var unknown *store.UnknownLimitError
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.As(err, &unknown) {
		return err
	}
	p.lines[name] = &pace{perSecond: replayShare * perSecond(info.Spec)}
	return nil
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
