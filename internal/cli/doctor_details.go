package cli

import (
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store/postgres"
)

// What checks found, in fields of their own: the "details" of findings in JSON.

type schemaDetails struct {
	Version int64  `json:"version"`
	Newest  int64  `json:"newest_known"`
	Schema  string `json:"schema,omitempty"` // on a server
	Server  string `json:"server_version,omitempty"`
	Bytes   int64  `json:"bytes"` // of the file, or of tables and indexes
}

type bytesDetails struct {
	Bytes int64 `json:"bytes"`
}

type diskDetails struct {
	Free   *int64 `json:"free_bytes"` // null: not known
	File   int64  `json:"file_bytes"`
	Unused int64  `json:"unused_bytes"` // in the file
}

type offsetDetails struct {
	Offset show.Seconds `json:"offset_seconds"` // the server's clock is so far ahead of this machine's
	Give   show.Seconds `json:"error_seconds"`  // give or take
}

// oldestDetails is the oldest open transaction; all but Hidden is null if none is open.
type oldestDetails struct {
	Age         *show.Seconds `json:"age_seconds"`
	PID         *int          `json:"pid"` // null if it is prepared, too
	Application *string       `json:"application"`
	Role        *string       `json:"role"`
	State       *string       `json:"state"`
	Prepared    bool          `json:"prepared"`
	Hidden      int           `json:"hidden"` // open transactions whose age may not be seen
}

func newOldestDetails(c *postgres.Condition) (d oldestDetails) {
	d.Hidden = c.Hidden
	o := c.Oldest
	if o == (postgres.Transaction{}) {
		return d
	}
	age := show.Seconds(o.Age)
	d.Age, d.Application, d.Role, d.State, d.Prepared = &age, &o.Application, &o.Role, &o.State, o.Prepared
	if o.PID != 0 {
		d.PID = &o.PID
	}
	return d
}

type tablesDetails struct {
	Tables []tableDetails `json:"tables"`
}

type tableDetails struct {
	Name    string    `json:"name"`
	Live    int64     `json:"live_rows"`
	Dead    int64     `json:"dead_rows"`
	Cleaned show.Time `json:"cleaned_at"` // null: never
}

func newTablesDetails(c *postgres.Condition) tablesDetails {
	d := tablesDetails{Tables: []tableDetails{}}
	for _, t := range c.Tables {
		one := tableDetails{Name: t.Name, Live: t.Live, Dead: t.Dead}
		if !t.Cleaned.IsZero() {
			one.Cleaned = show.Time(t.Cleaned.UnixMicro())
		}
		d.Tables = append(d.Tables, one)
	}
	return d
}

type listenerDetails struct {
	Listeners int  `json:"listeners"` // processes that are notified
	Live      int  `json:"live_processes"`
	Pooler    bool `json:"pooler"` // of transactions: nobody can be notified through it
}

type clockDetails struct {
	Now    show.Time    `json:"now"`
	Newest show.Time    `json:"newest_at"` // null: there is nothing
	Ahead  show.Seconds `json:"ahead_seconds"`
}

type processDetails struct {
	Live int   `json:"live"`
	Gone int   `json:"gone"`
	Held int64 `json:"jobs_held_by_gone"`
}

type leaseDetails struct {
	Running int64 `json:"running"`
	Lost    int   `json:"held_by_nobody"`
}

type sweepDetails struct {
	Finds int64     `json:"finds"`
	Last  show.Time `json:"last_at"`
}

type pausedDetails struct {
	Paused int `json:"paused"`
}

type countDetails struct {
	Count int64 `json:"count"`
}

// details adds fields to the last finding.
func (d *doctor) details(v any) { d.findings[len(d.findings)-1].Details = v }

// ahead is how far an instant lies after now, 0 if it does not.
func ahead(now, at int64) show.Seconds {
	if at == 0 {
		return 0
	}
	return show.Seconds(max(show.Between(now, at), time.Duration(0)))
}
