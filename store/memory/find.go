package memory

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Queue(name string) (engine.QueueRow, bool, error) {
	q, ok := t.queues[name]
	return q, ok, nil
}

func (t *tx) SaveQueue(q engine.QueueRow) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	put(t, t.queues, q.Name, q)
	return nil
}

func (t *tx) DropQueue(name string) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	del(t, t.queues, name)
	return nil
}

// visible calls fn with every job that is not staged, in no order.
func (t *tx) visible(fn func(j *engine.Job, l engine.Lane, b engine.Band)) {
	for _, m := range []map[int64]*engine.Job{t.hot, t.ended} {
		for _, j := range m {
			l := t.lanes[j.Lane]
			if b := t.bands[l.Band.ID]; b.Load == "" {
				fn(j, l, b)
			}
		}
	}
}

func (t *tx) QueueInfos(now int64) ([]store.QueueInfo, error) {
	infos := make(map[string]*store.QueueInfo)
	info := func(name string) *store.QueueInfo {
		if infos[name] == nil {
			infos[name] = &store.QueueInfo{Name: name}
		}
		return infos[name]
	}
	for name, q := range t.queues {
		info(name).Paused, info(name).PausedReason, info(name).PausedAt = true, q.Reason, q.At
	}
	t.visible(func(j *engine.Job, _ engine.Lane, b engine.Band) {
		q := info(b.Queue)
		switch j.State {
		case store.Waiting:
			if j.At > now {
				q.Scheduled++
				break
			}
			q.Due++
			if q.OldestDue == 0 || j.At < q.OldestDue {
				q.OldestDue = j.At
			}
		case store.Running:
			q.Running++
		case store.Dead:
			q.Dead++
		case store.Done:
			q.Done++
		case store.Cancelled:
			q.Cancelled++
		}
	})
	var out []store.QueueInfo
	for _, name := range slices.Sorted(maps.Keys(infos)) {
		out = append(out, *infos[name])
	}
	return out, nil
}

func (t *tx) CountRun(run string) (map[store.State]int64, error) {
	counts := make(map[store.State]int64)
	t.visible(func(j *engine.Job, _ engine.Lane, b engine.Band) {
		if b.Run == run {
			counts[j.State]++
		}
	})
	return counts, nil
}

func (t *tx) Find(f store.Filter) ([]*engine.Job, error) {
	var out []*engine.Job
	t.visible(func(j *engine.Job, l engine.Lane, b engine.Band) {
		if matches(f, j, l, b) {
			out = append(out, j)
		}
	})
	engine.SortFound(f, out)
	n := f.N
	if n <= 0 {
		n = 100
	}
	out = out[:min(n, len(out))]
	for i, j := range out {
		out[i] = cloneJob(j)
	}
	return out, nil
}

func matches(f store.Filter, j *engine.Job, l engine.Lane, b engine.Band) bool {
	if j.ID <= f.AfterID || f.BeforeID != 0 && j.ID >= f.BeforeID || f.States != nil && !slices.Contains(f.States, j.State) {
		return false // most, at little cost
	}
	when := j.EnqueuedAt
	if j.State.Ended() {
		when = j.FinishedAt
	}
	draws := func(d dispatch.Draw) bool {
		keys, ok := strings.CutSuffix(f.Limit, "/*")
		return d.Limit == f.Limit || ok && strings.HasPrefix(d.Limit, keys+"/")
	}
	return (f.IDs == nil || slices.Contains(f.IDs, j.ID)) &&
		(f.Queue == "" || f.Queue == b.Queue) &&
		(f.Kind == "" || f.Kind == b.Kind) &&
		(f.Limit == "" || slices.ContainsFunc(l.Draws, draws)) &&
		(f.Run == "" || f.Run == b.Run) &&
		(f.Refs == nil || slices.Contains(f.Refs, j.Ref)) &&
		(f.Reason == "" || f.Reason == j.Reason) &&
		(f.Text == "" || strings.Contains(j.Error, f.Text)) &&
		(f.Before == 0 || when < f.Before) &&
		(f.After == 0 || when >= f.After)
}
