//go:build unix

package system

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/storetest"
)

// technology is something that trials keep their store in.
type technology struct {
	name string
	// fresh makes an empty store, which ends with the test, and returns its target.
	fresh func(t *testing.T) string
	// seesDeaths says that a process that died is missed at once. Elsewhere it is
	// when its lease and the margin are over.
	seesDeaths bool
}

var (
	onSQLite   = technology{"sqlite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "jobs.db") }, true}
	onPostgres = technology{"postgres", func(t *testing.T) string { return migrated(t, pgtest.DSN(t)) }, false}
)

// shortLease is the lease of processes whose death only silence tells.
const shortLease = 3 * time.Second

// lease is what worker processes get, so that nothing has to wait long for the dead.
func (on technology) lease() time.Duration {
	if on.seesDeaths {
		return 0 // the default
	}
	return shortLease
}

// onEach runs a trial on every technology.
func onEach(t *testing.T, trial func(t *testing.T, on technology)) {
	t.Parallel()
	for _, on := range []technology{onSQLite, onPostgres} {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			trial(t, on)
		})
	}
}

// onEachAlone is onEach for trials of how much a limit lets through: the others would
// take the processors away, and a start that comes late is not made.
func onEachAlone(t *testing.T, trial func(t *testing.T, on technology)) {
	for _, on := range []technology{onSQLite, onPostgres} {
		t.Run(on.name, func(t *testing.T) { trial(t, on) })
	}
}

// migrated makes the tables, and returns the DSN for processes that must not take
// all the connections there are.
func migrated(t *testing.T, dsn string) string {
	t.Helper()
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	return with(dsn, "pool_max_conns=4")
}

// with adds a parameter to a DSN.
func with(dsn, parameter string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + parameter
	}
	return dsn + "?" + parameter
}

// audit checks that what is stored fits together, that no job waits or runs, that
// each job has ended once, and, of the jobs that are listed (nil: of none), that
// they are there. No process works any more.
func audit(t *testing.T, c *penstock.Client, ids []int64) {
	t.Helper()
	storetest.Audit(t, c.Store())
	there := map[int64]bool{}
	for _, j := range jobs(t, c, penstock.Filter{}) {
		there[j.ID] = true
		if !j.State.Ended() {
			t.Errorf("job %d (%s) is %v, and nobody works any more", j.ID, j.Kind, j.State)
			continue
		}
		// A success is no event: the job itself says all of it.
		if n := timesEnded(t, c, j.ID); n > 1 || n == 0 && j.State != penstock.Done {
			t.Errorf("job %d (%s) is %v and ended %d times: %s", j.ID, j.Kind, j.State, n, history(t, c, j.ID))
		}
	}
	for _, id := range ids {
		if !there[id] {
			t.Errorf("job %d was acknowledged and is lost", id)
		}
	}
}

// timesEnded is how often the job's history says that it ended for good.
func timesEnded(t *testing.T, c *penstock.Client, id int64) (n int) {
	t.Helper()
	events, err := c.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Outcome == store.OutcomeDone || e.Outcome == store.OutcomeDead || e.Outcome == store.OutcomeCancelled {
			n++
		}
	}
	return n
}

// history is a job's history in a line, for failures.
func history(t *testing.T, c *penstock.Client, id int64) string {
	t.Helper()
	events, err := c.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "; %v %s", e.Outcome, e.Error)
	}
	return strings.TrimPrefix(b.String(), "; ")
}
