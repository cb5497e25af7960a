package sqlite

import (
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/store"
)

// Every query of a claim, of a finish and of an insert finds its rows by an index
// and in the order of the index: none scans a table or sorts.
func TestQueryPlans(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	c := d.writer.conn
	bands := func(kinds []string, run string, queues []string) string {
		sql, _ := bandsQuery(kinds, run, queues)
		return sql
	}
	for name, sql := range map[string]string{
		"Bands":              bands(nil, "", nil),
		"Bands of kinds":     bands([]string{"k"}, "", nil),
		"Bands of a run":     bands([]string{"k"}, "r", []string{"q"}),
		"OpenGates":          sqlOpenGates,
		"NextGate":           sqlNextGate,
		"NextGates":          sqlNextGates,
		"Gate":               sqlGate,
		"ReadyLanes":         sqlReadyLanes,
		"SleepingLanes":      sqlSleepingLanes,
		"NextSleeper":        sqlNextSleeper,
		"NextSleeper of":     sqlNextSleeperOf,
		"Lanes":              sqlLanes,
		"BandLanes":          sqlBandLanes,
		"FindLane":           sqlFindLane,
		"FindLane's band":    sqlFindBand,
		"FirstDue":           sqlFirstDue,
		"FirstAfter":         sqlFirstAfter,
		"Heads":              sqlHeads,
		"Job":                sqlJob,
		"Jobs":               sqlJobs,
		"Lease":              sqlLease,
		"Leases":             sqlLeases,
		"DropJobs":           sqlDropJobs,
		"HeldBy":             sqlHeldBy,
		"CancelsOf":          sqlCancelsOf,
		"UniqueHolder":       sqlUniqueHolder,
		"AddJobs":            sqlAddAlike,
		"AddJobs' bodies":    sqlAddBodies,
		"EndJobs":            sqlMoveEnded,
		"EndedJobs":          sqlEndedJobs,
		"Bodies":             sqlBodies,
		"Call":               sqlCall,
		"LimitRow":           sqlLimitRow,
		"LimitState":         sqlLimitState,
		"Worker":             sqlWorker,
		"WakeGates":          sqlWakeGates,
		"EndedBefore":        sqlPrunable([]store.State{store.Done, store.Cancelled}),
		"dead letters":       `SELECT j.id FROM penstock_ended j WHERE j.state = 4 AND j.id > ? ORDER BY j.id LIMIT ?`,
		"jobs of a run":      `SELECT j.id FROM penstock_job j WHERE j.run = ? AND j.id > ? ORDER BY j.id LIMIT ?`,
		"ended of a run":     `SELECT j.id FROM penstock_ended j WHERE j.run = ? AND j.id > ? ORDER BY j.id LIMIT ?`,
		"count ended of run": `SELECT j.state, count(*) FROM penstock_ended j WHERE j.run = ?`,
	} {
		for _, step := range explain(t, c, sql) {
			// The list of ids or names that was passed in is read from end to end.
			if strings.HasPrefix(step, "SCAN e VIRTUAL TABLE") || strings.HasPrefix(step, "SCAN json_each VIRTUAL TABLE") ||
				strings.HasPrefix(step, "SCAN gated") || strings.HasPrefix(step, "SCAN asleep") || step == "SCAN a" { // the active bands found
				continue
			}
			if strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") || strings.Contains(step, "AUTOMATIC") {
				t.Errorf("%s: %s\n%s", name, step, sql)
			}
		}
	}
	for sql, index := range map[string]string{
		sqlHeads: "penstock_job_due", sqlFirstDue: "penstock_job_due", sqlFirstAfter: "penstock_job_due", sqlHeldBy: "penstock_job_held",
		sqlCancelsOf: "penstock_job_cancel", sqlReadyLanes: "penstock_lane_ready", sqlUniqueHolder: "penstock_job_unique",
		sqlPrunable([]store.State{store.Done}): "penstock_ended_prune", sqlOpenGates: "penstock_gate_opens",
	} {
		if plan := strings.Join(explain(t, c, sql), "; "); !strings.Contains(plan, index+" ") {
			t.Errorf("expected index %s: %s\n%s", index, plan, sql)
		}
	}
}

func explain(t *testing.T, c *conn, sql string) (steps []string) {
	t.Helper()
	rows := func(r row) { steps = append(steps, r.text(3)) }
	args := make([]driver.Value, strings.Count(sql, "?"))
	if err := c.query(rows, `EXPLAIN QUERY PLAN `+sql, args...); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	if len(steps) == 0 {
		t.Fatalf("no plan\n%s", sql)
	}
	return steps
}
