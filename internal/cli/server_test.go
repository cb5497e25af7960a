package cli_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// migrated is a fresh database on a server, with its tables.
func migrated(t *testing.T) (dsn string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	inPostgres(t, dsn).exits(0)
	return dsn
}

// on names the database by PENSTOCK_DB.
func on(dsn string) func(*exec.Cmd) {
	return func(c *exec.Cmd) { c.Env = append(c.Env, "PENSTOCK_DB="+dsn) }
}

// password is the one of a DSN.
func password(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := u.User.Password()
	return p
}

// role is the one of a DSN.
func role(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// with is a DSN that was changed.
func with(t *testing.T, dsn string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// Each command works with a URL where the path of a file stood, leaves no file
// behind, and never prints the password.
func TestEveryCommandWorksOnAServer(t *testing.T) {
	t.Parallel()
	dir, a, dsn := t.TempDir(), newAPI(t, apisim.Config{}), migrated(t)
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	write(t, dir, "bad.jsonl", fmt.Sprintf(`{"id": "bad", "url": "%s/status/404"}`, a.URL))
	for _, c := range []struct {
		args string
		code int
		text string // on standard output
	}{
		{"run calls.jsonl --limit 100/s --out results.jsonl --json", 0, `"done":5`},
		{"run calls.jsonl --limit 100/s --out results.jsonl --json", 0, `"starts":0`},
		{"run bad.jsonl --limit 100/s -q", 1, ""},
		{"jobs --state done", 0, "c4"},
		{"jobs show calls.jsonl/c0", 0, "status 200"},
		{"jobs cancel bad.jsonl/bad", 1, ""},
		{"why bad.jsonl/bad", 0, "dead"},
		{"dead", 0, "bad"},
		{"dead show bad.jsonl/bad", 0, "404"},
		{"dead replay bad.jsonl/bad", 0, "1 dead letter replayed"},
		{"work --drain -q", 1, ""},
		{"dead discard --all --yes", 0, "1 dead letter discarded"},
		{"limits", 0, a.Host},
		{"limits set " + a.Host + " 50/s", 0, "set by hand"},
		{"limits show " + a.Host, 0, "50/s"},
		{"limits pause " + a.Host, 0, "paused by a person"},
		{"limits resume " + a.Host, 0, a.Host},
		{"limits reset " + a.Host, 0, "100/s"},
		{"limits show nothing", 2, ""},
		{"queues", 0, "default"},
		{"queues pause default", 0, "paused"},
		{"queues resume default", 0, "default"},
		{"exec --limit sms=5/s -- echo hello", 0, "hello"},
		{"enqueue --json --url " + a.URL, 0, `"new":true`},
		{"work --drain --json", 0, `"done":1`},
		{"doctor", 0, "newest this program knows"},
		{"doctor --json", 0, `"check":"oldest"`},
		{"prune --older-than 1us", 0, "removed 6 jobs"},
		{"prune --older-than 1us --json", 0, `"unused_bytes":null`},
		{"migrate --status", 0, "the newest"},
		{"__complete exec --limit s", 0, "sms"},
	} {
		by := begin(t, dir, on(dsn), strings.Fields(c.args)...)
		by.wait()
		by.exits(c.code).prints(c.text)
		if said := by.stdout.String() + by.stderr.String(); strings.Contains(said, password(t, dsn)) {
			t.Errorf("penstock %s prints the password:\n%s", c.args, said)
		}
	}
	penstock(t, dir, "jobs", "--db", dsn).exits(0)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("there are the files %v (%v), expected those of the calls and the results", files, err)
	}
}

// What is wrong with a server is said in one line, without the password.
func TestAServerThatCannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	server := pgtest.Server(t, pgtest.Options{})
	empty := server.DSN("penstock")
	server.Exec(`CREATE ROLE stranger LOGIN PASSWORD 's3cret'`)
	server.Exec(`CREATE DATABASE made OWNER ` + role(t, empty))
	made := server.DSN("made")
	inPostgres(t, made).exits(0)
	for name, c := range map[string]struct {
		dsn   string
		code  int
		texts []string
	}{
		"not migrated": {empty, 3, []string{"is not migrated", "run: penstock migrate --db 'postgres://"}},
		"not there":    {"postgres://ann:s3cret@127.0.0.1:1/jobs", 3, []string{"does not answer", "connection refused", "does the server run"}},
		"refused":      {with(t, empty, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "s3cret") }), 3, []string{"refuses the role or its password", "~/.pgpass"}},
		"no database":  {server.DSN("nothing"), 3, []string{"no such database", "nothing", "createdb"}},
		"no privilege": {with(t, made, func(u *url.URL) { u.User = url.UserPassword("stranger", "s3cret") }), 3, []string{"lacks a privilege", "docs/postgres.md"}},
		"odd schema":   {empty + "&schema=A", 2, []string{"--db: expected a URL", `schema "A"`}},
		"odd pooler":   {empty + "&pooler=session", 2, []string{"--db: expected a URL", "pooler=session"}},
		"odd URL":      {"postgres://ann:s3cret/@h/jobs", 2, []string{"--db: expected a URL", "%2F"}},
		"other URL":    {"mysql://ann:s3cret@h/jobs", 2, []string{"--db: expected a URL", "or the path of a file"}},
		"words":        {"host=h user=ann password=s3cret", 2, []string{"--db: expected a URL", "or the path of a file"}},
	} {
		for _, args := range [][]string{{"run", "calls.jsonl", "--limit", "9/s"}, {"work", "--drain"}, {"enqueue", "--url", a.URL}, {"jobs"}, {"exec", "--limit", "a=1/s", "--", "true"}, {"limits", "set", "a", "1/s"}, {"doctor"}} {
			by := penstock(t, dir, slices.Insert(slices.Clone(args), 1, "--db", c.dsn)...)
			by.exits(c.code).says(c.texts...)
			said := strings.TrimSpace(by.stderr.String())
			if strings.Contains(said, "\n") || strings.Contains(said, "s3cret") || strings.Contains(said, password(t, empty)) || by.stdout.Len() > 0 {
				t.Errorf("%s: penstock %s says %q and prints %q", name, args[0], said, &by.stdout)
			}
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 1 {
		t.Errorf("there are the files %v (%v), expected the calls only", files, err)
	}
	if n := len(a.Log()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// Commands work through a pooler of transactions.
func TestCommandsThroughAPooler(t *testing.T) {
	t.Parallel()
	dir, a, dsn := t.TempDir(), newAPI(t, apisim.Config{}), migrated(t)
	pooled := pgtest.Bouncer(t, dsn)
	if !strings.Contains(pooled, "pooler=") {
		pooled = with(t, pooled, func(u *url.URL) { u.RawQuery += "&pooler=transaction" })
	}
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	for _, c := range []struct{ args, text string }{
		{"run calls.jsonl --limit 100/s --json", `"done":5`},
		{"enqueue --url " + a.URL, ""},
		{"work --drain --json", `"done":1`},
		{"exec --limit sms=5/s -- echo hello", "hello"},
		{"doctor", "newest this program knows"},
		{"prune --older-than 1us", "removed 6 jobs"},
		{"migrate --status", "the newest"},
	} {
		by := begin(t, dir, on(pooled), strings.Fields(c.args)...)
		by.wait()
		by.exits(0).prints(c.text)
	}
}

// The demo runs on a server as on a file, and leaves nothing there, also when it is
// interrupted.
func TestDemoOnAServerLeavesNothing(t *testing.T) {
	t.Parallel()
	folder, dsn := t.TempDir(), pgtest.DSN(t)
	count := counting(t, dsn)
	schemas := func() int { return count(`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'penstock%'`) }
	c := begin(t, folder, inEmpty(folder), "demo", "--db", dsn, "--cap", "20", "--json")
	c.wait()
	c.exits(0)
	if n := schemas(); n != 0 || strings.Contains(c.stderr.String(), password(t, dsn)) {
		t.Errorf("%d schemas are left; it said\n%s", n, &c.stderr)
	}
	listeners := func() int {
		return count(`SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock listens%' AND datname = current_database()`)
	}
	until(t, "the server has noticed that it ended", func() bool { return listeners() == 0 })
	c = begin(t, folder, inEmpty(folder), "demo", "--db", dsn)
	until(t, "it works", func() bool { return listeners() > 0 })
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(143)
	if n := schemas(); n != 0 {
		t.Errorf("%d schemas are left by a demo that was interrupted", n)
	}
	isEmpty(t, folder)
	penstock(t, folder, "demo", "--db", "jobs.db").exits(2).says("expected a URL")
	penstock(t, folder, "demo", "--db", "postgres://ann:s3cret@127.0.0.1:1/jobs").exits(3).says("does not answer")
}

// counting is a connection to the server, to meddle: it runs a query and returns its
// number.
func counting(t *testing.T, dsn string) func(sql string) int {
	t.Helper()
	c, _, err := migrate.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return func(sql string) (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Only one process of all machines loads calls of a run at a time.
func TestRunsOfOneNameLoadOneByOneOnAServer(t *testing.T) {
	t.Parallel()
	dir, a, dsn := t.TempDir(), newAPI(t, apisim.Config{}), migrated(t)
	write(t, dir, "calls.jsonl", calls(a, 3)...)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, err := s.Hold(t.Context(), "load/calls.jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	run, says := spoken(t, dir, "run", "--db", dsn, "calls.jsonl", "--limit", "9/s", "--json")
	says("another process is reading calls into run \"calls.jsonl\"; waiting for it")
	if n := len(a.Log()); n != 0 {
		t.Errorf("%d calls were made meanwhile", n)
	}
	held.Release()
	run.wait()
	run.exits(0).reports(map[string]int{"done": 3, "starts": 3})
}

// A process that lost its hold on the run's name commits nothing: another one may be
// loading, and may have dropped what was staged.
func TestALoadThatIsNotAloneAnyMoreIsNotCommitted(t *testing.T) {
	t.Parallel()
	dir, a, dsn := t.TempDir(), newAPI(t, apisim.Config{}), migrated(t)
	in, feed := io.Pipe()
	run := begin(t, dir, func(c *exec.Cmd) { on(dsn)(c); c.Stdin = in }, "run", "-", "--run", "r", "--limit", "9/s")
	lines := calls(a, 2)
	if _, err := io.WriteString(feed, lines[0]+"\n"); err != nil {
		t.Fatal(err)
	}
	count := counting(t, dsn)
	until(t, "the name is held, and taken away", func() bool {
		return count(`SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database() AND query LIKE '%pg_try_advisory_xact_lock%')`) > 0
	})
	if _, err := io.WriteString(feed, lines[1]+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close()
	run.wait()
	run.exits(3).says("the connection was lost that kept other processes away")
	if n := len(a.Log()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	jobs := begin(t, dir, on(dsn), "jobs")
	jobs.wait()
	jobs.exits(0).prints("no such jobs")
}

// run and work end after a minute without a database; before, they have said once what
// is wrong. Calls under way may finish.
func TestRunAndWorkGiveUpAfterAMinuteWithoutADatabase(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	server := pgtest.Server(t, pgtest.Options{})
	dsn := server.DSN("penstock")
	inPostgres(t, dsn).exits(0)
	write(t, dir, "calls.jsonl", calls(a, 4)...)
	a.holdAll()
	var all []*command
	for _, args := range [][]string{{"run", "calls.jsonl", "--limit", "2 in flight"}, {"work"}} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // longer than patience
		t.Cleanup(cancel)
		c := &command{t: t, cmd: exec.CommandContext(ctx, binary, args...)}
		c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, &c.stdout, &c.stderr
		c.cmd.Env = append(os.Environ(), "PENSTOCK_DB="+dsn)
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		a.await(t, 2)
	}
	count := counting(t, dsn)
	until(t, "both work", func() bool { return count(`SELECT count(*) FROM penstock.worker`) == 2 })
	gone := time.Now()
	server.Stop(pgtest.Immediate)
	a.release()
	for _, c := range all {
		c.wait()
		c.exits(3).says("the store fails, trying on", "it has not worked for a minute", "does not answer")
		if took := time.Since(gone); took < 55*time.Second || took > 100*time.Second {
			t.Errorf("%s ended after %v", c.cmd.Args[1], took)
		}
		if n := strings.Count(c.stderr.String(), "the store fails"); n != 1 {
			t.Errorf("%s said %d times that the store fails:\n%s", c.cmd.Args[1], n, &c.stderr)
		}
		if strings.Contains(c.stderr.String(), password(t, dsn)) {
			t.Errorf("%s says the password:\n%s", c.cmd.Args[1], &c.stderr)
		}
	}
	server.Start()
	again := begin(t, dir, on(dsn), "run", "calls.jsonl", "--limit", "2 in flight", "--json")
	again.wait()
	again.exits(0).reports(map[string]int{"done": 4})
}
