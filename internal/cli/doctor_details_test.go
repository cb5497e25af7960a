package cli_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// What doctor finds of a server is there for programs, each number in a field.
func TestDoctorHasFieldsForPrograms(t *testing.T) {
	t.Parallel()
	dir, dsn := t.TempDir(), migrated(t)
	penstock(t, dir, "enqueue", "--db", dsn, "--url", "http://127.0.0.1:1/x").id()
	details := func() map[string]map[string]any {
		t.Helper()
		all := map[string]map[string]any{}
		c := penstock(t, dir, "doctor", "--db", dsn, "--json")
		for _, f := range c.lines() {
			d, ok := f["details"].(map[string]any)
			if !ok {
				t.Fatalf("no details: %v", f)
			}
			all[fmt.Sprint(f["check"])] = d
		}
		return all
	}
	d := details()
	for check, fields := range map[string][]string{
		"schema": {"version", "newest_known", "schema", "server_version", "bytes"}, "offset": {"offset_seconds", "error_seconds"},
		"oldest": {"age_seconds", "pid", "application", "role", "state", "prepared", "hidden"}, "dead rows": {"tables"},
		"listener": {"listeners", "live_processes", "pooler"}, "clock": {"now", "newest_at", "ahead_seconds"}, "processes": {"live", "gone", "jobs_held_by_gone"},
		"leases": {"running", "held_by_nobody"}, "sweeps": {"finds", "last_at"}, "limits": {"paused"}, "queues": {"paused"}, "workers": {"count"}, "dead": {"count"},
	} {
		if len(d[check]) != len(fields) {
			t.Errorf("%s has the fields %v, want %q", check, d[check], fields)
		}
		for _, f := range fields {
			if _, ok := d[check][f]; !ok {
				t.Errorf("%s lacks %s: %v", check, f, d[check])
			}
		}
	}
	if d["workers"]["count"] != json.Number("1") || d["schema"]["version"] != d["schema"]["newest_known"] || d["oldest"]["age_seconds"] != nil {
		t.Errorf("workers %v, schema %v, oldest %v", d["workers"], d["schema"], d["oldest"])
	}
	names := map[any]bool{}
	for _, table := range d["dead rows"]["tables"].([]any) {
		row := table.(map[string]any)
		names[row["name"]] = row["live_rows"] != nil && row["dead_rows"] != nil
	}
	if !names["job"] || !names["lane"] {
		t.Errorf("the tables are %v", d["dead rows"])
	}
}
