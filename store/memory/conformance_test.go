package memory_test

import (
	"sync"
	"testing"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/storetest"
)

func factory(o memory.Options) storetest.Factory {
	return storetest.Factory{Open: func(t testing.TB, so storetest.Options) storetest.Handle {
		var gone sync.Map
		o := o
		o.Now = so.Now
		o.Alive = func(w store.Worker) engine.Liveness {
			if _, ok := gone.Load(w.ID); ok {
				return engine.Gone
			}
			return engine.Unknown
		}
		db := memory.NewDB(o)
		return storetest.Handle{
			Store:   so.NewEngine(db),
			Another: func(testing.TB) store.Store { return engine.New(db) },
			Kill:    func(worker string) { gone.Store(worker, true) },
		}
	}}
}

func TestConformance(t *testing.T) { storetest.Run(t, factory(memory.Options{})) }

// Every transaction is run twice, as after a conflict.
func TestConformanceRunTwice(t *testing.T) { storetest.Run(t, factory(memory.Options{RunTwice: true})) }
