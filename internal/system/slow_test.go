//go:build unix

package system

import (
	"context"
	"flag"
	"hash/fnv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

var holdFor = flag.Duration("system.hold", 14*time.Second, "how long commits are held up; people met 45s")

// TestA4_CommitsHeldUp: the calls succeeded, the writes that should have said so
// timed out under strain of the database, and the jobs were rescued as stuck and
// sent again (riverqueue/river#995, riverqueue/river#917).
func TestA4_CommitsHeldUp(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(context.Context, pgx.Tx) error{
		"writers": lockWriters,
		// What outcomes need and claims do not.
		"outcomes": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `LOCK TABLE penstock.ended IN SHARE MODE`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commitsHeldUp(t, hold)
		})
	}
}

// lockWriters takes the lock that every claim has to have, as the store does.
func lockWriters(ctx context.Context, tx pgx.Tx) error {
	h := fnv.New64a()
	_, _ = h.Write([]byte("penstock/penstock"))
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(h.Sum64()))
	return err
}

func commitsHeldUp(t *testing.T, hold func(context.Context, pgx.Tx) error) {
	const jobs, places, within = 500, 10, 10 * time.Second
	v := newVendor(t, apisim.Config{Latency: 100 * time.Millisecond}, "call")
	o := orders{DB: onPostgres.fresh(t), Lease: shortLease, URL: v.URL, Concurrency: places, Drain: true}
	c := open(t, o.DB, penstock.Config{})
	ids := enqueue(t, c, jobs, penstock.NewJob{Kind: "call"})
	ws := starts(t, 2, o)
	v.awaitCalls(t, "call", 2*places)

	tx, err := connect(t, o.DB).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := hold(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	before := len(v.calls("call"))
	<-time.After(*holdFor) // that long the fault lasts
	during := len(v.calls("call")) - before
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	released := time.Now()
	t.Logf("%d calls before, %d while commits were held up", before, during)
	// What the processes had, what one claim of each brought that was under way, and
	// what began before they could know.
	if most := jobs / 2; during > most {
		t.Errorf("%d calls began while outcomes piled up, expected at most %d", during, most)
	}
	v.awaitCalls(t, "call", before+during+1)
	took := time.Since(released)
	t.Logf("work went on %v after the release", took)
	if took > within {
		t.Errorf("work went on %v after the release, expected at most %v", took, within)
	}
	for _, w := range ws {
		w.ends()
	}

	v.distinct(t)
	audit(t, c, ids)
	allDone(t, c, v, "call", ids)
	for id, n := range perJob(v.calls("call")) {
		if n != 1 {
			t.Errorf("job %d, whose process lived, was sent %d times: %s", id, n, history(t, c, id))
		}
	}
}
