package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Factory{Open: func(t testing.TB, o storetest.Options) storetest.Handle {
		path := filepath.Join(t.TempDir(), "penstock.db")
		d, err := openDB(context.Background(), path, Options{Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Handle{Store: o.NewEngine(d), Another: func(t testing.TB) store.Store {
			other, err := openDB(context.Background(), path, Options{Now: o.Now})
			if err != nil {
				t.Fatal(err)
			}
			s := engine.New(other)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close the other handle: %v", err)
				}
			})
			return s
		}}
	}})
}
