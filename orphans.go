package penstock

import (
	"context"
	"errors"
	"slices"

	"github.com/penstockhq/penstock/store"
)

// sweepWishes removes the wishes for permits whose process is gone: nobody else
// can grant them. Those under way are removed by a rescue; these never began.
// before are the orphans of the last sweep, and the result those of this one:
// only what was one both times is removed, since a process that was declared
// dead by mistake comes back.
func (w *worker) sweepWishes(ctx context.Context, before map[int64]bool) map[int64]bool {
	wishes, err := w.st.Jobs(ctx, store.Filter{Queue: permitQueue, States: []store.State{store.Waiting}, N: 1000})
	if err != nil || len(wishes) == 0 {
		return nil
	}
	// Read after the wishes: a process is known before it wishes for anything.
	workers, err := w.st.Workers(ctx)
	if err != nil {
		return before
	}
	alive := map[string]bool{}
	for _, other := range workers {
		for _, kind := range other.Kinds {
			alive[kind] = true
		}
	}
	now := map[int64]bool{}
	var gone []int64
	for _, j := range wishes {
		if alive[j.Kind] {
			continue
		}
		now[j.ID] = true
		if before[j.ID] {
			gone = append(gone, j.ID)
		}
	}
	gone = slices.DeleteFunc(gone, func(id int64) bool {
		state, err := w.st.Cancel(ctx, id)
		return err != nil || state != store.Cancelled
	})
	if len(gone) == 0 {
		return now
	}
	if errs, err := w.st.Discard(ctx, gone); err != nil || errors.Join(errs...) != nil {
		w.log.Warn("wishes for permits of processes that are gone could not be removed", "wishes", len(gone), "error", errors.Join(append(errs, err)...))
	}
	return now
}
