package penstock

import (
	"context"
	"log/slog"

	"github.com/penstockhq/penstock/store"
)

type start struct {
	w   *worker
	job store.Claimed
}

func (s *start) setResult(b []byte) {}
func (s *start) setDetail(b []byte) {}

func startOf(ctx context.Context) *start { return nil }

type worker struct {
	st  store.Store
	log *slog.Logger
}

const autoFirst = 100

func (c *Client) work(ctx context.Context, o WorkOptions, kinds []string, x any) error { return nil }
