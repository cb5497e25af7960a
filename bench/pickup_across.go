package main

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock"
)

type acrossArgs struct {
	Path    string
	Samples int
	Enqueue bool
}

// acrossStep is one of two processes: one enqueues, the other one works. Each
// job carries when it was sent, by the clock that both have.
var acrossStep = newStep("pickup-across", func(ctx context.Context, a acrossArgs) (percentiles, error) {
	c, err := penstock.Open(ctx, a.Path, penstock.Config{Logger: quiet})
	if err != nil {
		return percentiles{}, err
	}
	if a.Enqueue {
		time.Sleep(time.Second) // the other one is there
		for range a.Samples {
			time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
			sent := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
			if _, err := c.Enqueue(ctx, "noop", sent); err != nil {
				return percentiles{}, err
			}
		}
		return percentiles{}, c.Close()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all := make([]time.Duration, a.Samples)
	var n atomic.Int64
	err = penstock.Handle(c, "noop", func(_ context.Context, job *penstock.Job[[]byte]) error {
		sent := time.Unix(0, int64(binary.BigEndian.Uint64(job.Args)))
		if i := n.Add(1); int(i) <= a.Samples {
			all[i-1] = time.Since(sent)
			if int(i) == a.Samples {
				stop()
			}
		}
		return nil
	}, penstock.Kind{})
	if err != nil {
		return percentiles{}, err
	}
	if err := c.Work(ctx, penstock.WorkOptions{}); err != nil {
		return percentiles{}, err
	}
	return percentilesOf(all), c.Close()
})

// acrossOnce measures pickup where another process enqueues.
func acrossOnce(ctx context.Context, l *lab, round int) error {
	path, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer l.forget(path)
	work := acrossArgs{Path: path, Samples: pick(l, 300, 30)}
	enqueue := work
	enqueue.Enqueue = true
	var p percentiles
	_, err = together(ctx, l, acrossStep, []acrossArgs{work, enqueue}, func(r percentiles) {
		if r.P50 > 0 {
			p = r
		}
	})
	if err != nil {
		return err
	}
	l.add("penstock, another process enqueues: p50", "ms", p.P50)
	l.add("penstock, another process enqueues: p99", "ms", p.P99)
	l.say("round %d: another process enqueues: p50 %.2f, p99 %.2f ms", round+1, p.P50, p.P99)
	return nil
}
