package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres"
)

// judged is the finding of a check of a server.
func judged(t *testing.T, check func(d *doctor)) finding {
	t.Helper()
	d := &doctor{now: time.Now().UnixMicro(), workers: []store.WorkerInfo{{}}}
	check(d)
	if len(d.findings) != 1 {
		t.Fatalf("there are %d findings", len(d.findings))
	}
	return d.findings[0]
}

func TestDoctorJudgesAServer(t *testing.T) {
	old := func(age time.Duration) postgres.Transaction {
		return postgres.Transaction{PID: 77, Age: age, Application: "nightly report", Role: "reports", State: "idle in transaction"}
	}
	prepared := postgres.Transaction{Age: time.Hour, Application: "gid-1", Role: "app", State: "prepared", Prepared: true}
	for name, c := range map[string]struct {
		check func(d *doctor)
		level level
		texts []string
	}{
		"clocks agree":   {func(d *doctor) { d.offset(&postgres.Condition{Offset: 3 * time.Millisecond}) }, fine, []string{"3ms"}},
		"a clock behind": {func(d *doctor) { d.offset(&postgres.Condition{Offset: 5 * time.Minute}) }, noted, []string{"5m", "ahead of this machine's"}},
		"a clock ahead":  {func(d *doctor) { d.offset(&postgres.Condition{Offset: -5 * time.Minute}) }, noted, []string{"5m", "behind this machine's"}},
		"a slow network": {func(d *doctor) { d.offset(&postgres.Condition{Offset: 2 * time.Second, OffsetE: 2 * time.Second}) }, fine, nil},
		"no transaction": {func(d *doctor) { d.transactions(&postgres.Condition{}) }, fine, []string{"no transaction"}},
		"a young one":    {func(d *doctor) { d.transactions(&postgres.Condition{Oldest: old(time.Second)}) }, fine, []string{"process 77 (nightly report) of role reports"}},
		"an old one":     {func(d *doctor) { d.transactions(&postgres.Condition{Oldest: old(2 * time.Minute)}) }, noted, []string{"2m", "idle in transaction", "claims get slower"}},
		"a very old one": {func(d *doctor) { d.transactions(&postgres.Condition{Oldest: old(time.Hour)}) }, problem, []string{"pg_terminate_backend(77)"}},
		"a prepared one": {func(d *doctor) { d.transactions(&postgres.Condition{Oldest: prepared}) }, problem, []string{`prepared transaction "gid-1"`, "ROLLBACK PREPARED"}},
		"hidden ones":    {func(d *doctor) { d.transactions(&postgres.Condition{Hidden: 2}) }, fine, []string{"2 open transactions", "pg_read_all_stats"}},
		"no dead rows":   {func(d *doctor) { d.deadRows(&postgres.Condition{Tables: []postgres.Table{{Name: "job", Live: 9}}}) }, fine, []string{"none"}},
		"a few":          {func(d *doctor) { d.deadRows(&postgres.Condition{Tables: []postgres.Table{{Name: "job", Dead: 9}}}) }, fine, []string{"job 9"}},
		"too many": {func(d *doctor) {
			d.deadRows(&postgres.Condition{Tables: []postgres.Table{{Name: "job", Live: 5, Dead: 200_000}}})
		}, noted, []string{"job 200", "autovacuum"}},
		"they are notified": {func(d *doctor) { d.listeners(&postgres.Condition{Listeners: 2}) }, fine, []string{"2 processes are"}},
		"they are not":      {func(d *doctor) { d.listeners(&postgres.Condition{}) }, noted, []string{"every 100 ms", "pooler"}},
	} {
		f := judged(t, c.check)
		if f.Level != c.level {
			t.Errorf("%s: %+v, expected %s", name, f, c.level)
		}
		for _, text := range c.texts {
			if !strings.Contains(f.Text+f.Do, text) {
				t.Errorf("%s: %+v lacks %q", name, f, text)
			}
		}
		if strings.Contains(f.Do, "terminate_backend(0)") {
			t.Errorf("%s: %s", name, f.Do)
		}
	}
}

// The fields of a finding say what its text says.
func TestDoctorDetailsOfAServer(t *testing.T) {
	open := postgres.Transaction{PID: 77, Age: 90 * time.Second, Application: "report", Role: "reports", State: "idle in transaction"}
	prepared := postgres.Transaction{Age: time.Hour, Application: "gid-1", Role: "app", State: "prepared", Prepared: true}
	cleaned := time.UnixMicro(1_700_000_000_000_000)
	for want, check := range map[string]func(d *doctor){
		`{"age_seconds":90,"pid":77,"application":"report","role":"reports","state":"idle in transaction","prepared":false,"hidden":1}`: func(d *doctor) {
			d.transactions(&postgres.Condition{Oldest: open, Hidden: 1})
		},
		`{"age_seconds":3600,"pid":null,"application":"gid-1","role":"app","state":"prepared","prepared":true,"hidden":0}`: func(d *doctor) {
			d.transactions(&postgres.Condition{Oldest: prepared})
		},
		`{"age_seconds":null,"pid":null,"application":null,"role":null,"state":null,"prepared":false,"hidden":0}`: func(d *doctor) {
			d.transactions(&postgres.Condition{})
		},
		`{"tables":[{"name":"job","live_rows":5,"dead_rows":9,"cleaned_at":"2023-11-14T22:13:20.000000Z"},{"name":"lane","live_rows":1,"dead_rows":0,"cleaned_at":null}]}`: func(d *doctor) {
			d.deadRows(&postgres.Condition{Tables: []postgres.Table{{Name: "lane", Live: 1}, {Name: "job", Live: 5, Dead: 9, Cleaned: cleaned}}})
		},
		`{"offset_seconds":-300,"error_seconds":0.002}`: func(d *doctor) {
			d.offset(&postgres.Condition{Offset: -5 * time.Minute, OffsetE: 2 * time.Millisecond})
		},
		`{"listeners":2,"live_processes":1,"pooler":true}`: func(d *doctor) { d.listeners(&postgres.Condition{Listeners: 2, Pooler: true}) },
	} {
		got, err := json.Marshal(judged(t, check).Details)
		if err != nil || string(got) != want {
			t.Errorf("details are %s (%v), want %s", got, err, want)
		}
	}
}
