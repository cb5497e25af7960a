package postgres

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// TestManyAnnouncementsHideNoUrgentJob: while all places are taken, many single jobs are
// put into one lane, and then an urgent one into another. The urgent one is started as soon
// as a place is free: all that stands before it says the same of one lane.
func TestManyAnnouncementsHideNoUrgentJob(t *testing.T) {
	const many, most = 1000, 4
	r := newRig(t)
	r.register("w")
	urgent := newJob()
	urgent.Priority = 9
	for range many {
		r.insert(newJob())
	}
	r.insert(urgent)
	for claims := 1; claims <= many; claims++ {
		jobs := r.claim("w", 1)
		if len(jobs) != 1 {
			t.Fatalf("claim %d brought %d jobs, want 1", claims, len(jobs))
		}
		r.finish("w", jobs)
		if jobs[0].Priority == 9 {
			t.Logf("the urgent job was brought by claim %d", claims)
			if claims > most {
				t.Errorf("%d jobs of a lower priority were started before the urgent one, want at most %d", claims-1, most-1)
			}
			return
		}
	}
	t.Error("the urgent job was not started")
}

// TestSweepTakesAllAnnouncements: while all places of all workers are taken, nobody claims.
func TestSweepTakesAllAnnouncements(t *testing.T) {
	r := newRig(t)
	jobs := make([]store.NewJob, 300)
	for i := range jobs {
		jobs[i] = newJob()
		jobs[i].Group = fmt.Sprint(i)
	}
	r.insert(jobs...)
	if n := value[int](r, `SELECT count(*) FROM penstock.wake`); n != len(jobs) {
		t.Fatalf("%d announcements, want one for each of %d lanes", n, len(jobs))
	}
	_, err := r.st.Sweep(r.ctx())
	r.must(err)
	if n := value[int](r, `SELECT count(*) FROM penstock.wake`); n != 0 {
		t.Errorf("%d announcements are left", n)
	}
}

// TestStartedJobOvertakesNobody: a job of a caller's transaction comes behind the floor of
// its lane when that commits, and is announced. A job that would be started at once waits
// behind it.
func TestStartedJobOvertakesNobody(t *testing.T) {
	r := newRig(t)
	r.register("w")
	r.insert(newJob())
	r.drain("w")
	g := r.pgxGuest("READ COMMITTED")
	_, err := r.within(g.tx, newJob())
	r.must(err)
	r.insert(newJob())
	if n := r.drain("w"); n != 1 {
		t.Fatalf("%d jobs were drained, want 1", n)
	}
	r.must(g.commit())
	j := newJob()
	j.Start = &store.Starter{Worker: "w", Token: r.token.Add(1)}
	r.wantStarted(r.st, j, false, "one of the lane waits, is due, and came before")
}

// counted counts what is written to a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// TestFewBytesUnderTheSharedLock: what is sent under the lock goes into the network in one
// piece, however many small jobs are written together.
func TestFewBytesUnderTheSharedLock(t *testing.T) {
	r := newRig(t)
	r.register("w")
	var sent atomic.Int64
	st := openWith(t, r.dsn, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &counted{conn, &sent}, nil
		}
	})
	jobs := make([]store.NewJob, groupJobs)
	for i := range jobs {
		jobs[i] = newJob()
	}
	_, err := engine.New(st.db).Insert(r.ctx(), jobs[:1]) // makes the lane
	r.must(err)
	r.drain("w")
	jobs[0].Start = &store.Starter{Worker: "w", Token: r.token.Add(1)}
	for range 2 { // the first one prepares the statement
		before := sent.Load()
		out := r.short(st.db, jobs...)
		n := sent.Load() - before
		t.Logf("%d bytes for %d jobs, started: %t", n, len(jobs), out[0].Started != nil)
		if n > 2*startBytes && out[0].Started != nil {
			t.Errorf("%d bytes were sent under the lock, want at most about %d", n, startBytes)
		}
		r.drain("w")
		jobs[0].Start.Token = r.token.Add(1)
	}
}
