package storetest

import (
	"context"

	"github.com/penstockhq/penstock/store"
)

// The methods of store.Operator, each under its plan.

func (f *FaultyStore) Lines(ctx context.Context) (map[string]int64, error) {
	return get(f, "Lines", func() (map[string]int64, error) { return f.s.Lines(ctx) })
}
func (f *FaultyStore) Flow(ctx context.Context, since int64) (map[string]store.Flow, error) {
	return get(f, "Flow", func() (map[string]store.Flow, error) { return f.s.Flow(ctx, since) })
}
func (f *FaultyStore) Unserved(ctx context.Context) ([]store.Unserved, error) {
	return get(f, "Unserved", func() ([]store.Unserved, error) { return f.s.Unserved(ctx) })
}
func (f *FaultyStore) Checkup(ctx context.Context) (store.Checkup, error) {
	return get(f, "Checkup", func() (store.Checkup, error) { return f.s.Checkup(ctx) })
}
func (f *FaultyStore) Notes(ctx context.Context, subject string, n int) ([]store.Note, error) {
	return get(f, "Notes", func() ([]store.Note, error) { return f.s.Notes(ctx, subject, n) })
}
func (f *FaultyStore) Pace(ctx context.Context, lines []string, fn func(now int64, taken []int64)) error {
	return do(f, "Pace", func() error { return f.s.Pace(ctx, lines, fn) })
}
func (f *FaultyStore) Prune(ctx context.Context, states []store.State, before int64, n int) (int, error) {
	return get(f, "Prune", func() (int, error) { return f.s.Prune(ctx, states, before, n) })
}
func (f *FaultyStore) PruneCalls(ctx context.Context, states []store.State, before int64, n int) (int, error) {
	return get(f, "PruneCalls", func() (int, error) { return f.s.PruneCalls(ctx, states, before, n) })
}
func (f *FaultyStore) Tidy(ctx context.Context) (store.Tidied, error) {
	return get(f, "Tidy", func() (store.Tidied, error) { return f.s.Tidy(ctx) })
}
