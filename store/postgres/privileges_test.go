package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/postgres"
)

// documented are the statements of docs/postgres.md that grant what a role needs.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			all = append(all, strings.TrimSuffix(line, ";"))
		}
	}
	if len(all) != 5 {
		t.Fatalf("docs/postgres.md has %d statements, expected 5: %q", len(all), all)
	}
	return all
}

// asRunner is the DSN for the role that works.
func asRunner(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("runner", "runner")
	return u.String()
}

// The privileges of docs/postgres.md are enough, for tables of later versions, too;
// and without any one of them it is said that one is missing.
func TestTheDocumentedPrivilegesAreEnough(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Options{})
	server.Exec(`CREATE ROLE runner LOGIN PASSWORD 'runner'`)
	dsn := server.DSN("penstock")
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	owner := session(t, dsn, "owner")
	for _, c := range []string{"REVOKE ALL ON SCHEMA public FROM public", "REVOKE TEMPORARY ON DATABASE penstock FROM public"} {
		run(t, session(t, server.SuperDSN("penstock"), "super"), c)
	}
	grants := documented(t)
	for _, grant := range grants {
		run(t, owner, grant)
	}
	if err := works(t.Context(), asRunner(t, dsn)); err != nil {
		t.Errorf("with all of them: %v", err)
	}
	for _, grant := range grants[:3] {
		revoke := strings.Replace(strings.Replace(grant, "GRANT", "REVOKE", 1), "TO runner", "FROM runner", 1)
		run(t, owner, revoke)
		if err := works(t.Context(), asRunner(t, dsn)); !errors.Is(err, postgres.ErrPrivileges) {
			t.Errorf("after %s: %v, expected ErrPrivileges", revoke, err)
		}
		run(t, owner, grant)
	}
	// Each kind of privilege on tables is needed.
	for _, one := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
		run(t, owner, "REVOKE "+one+" ON ALL TABLES IN SCHEMA penstock FROM runner")
		if err := works(t.Context(), asRunner(t, dsn)); !errors.Is(err, postgres.ErrPrivileges) {
			t.Errorf("without %s: %v, expected ErrPrivileges", one, err)
		}
		run(t, owner, grants[1])
	}
	run(t, owner, `CREATE TABLE penstock.later (n bigserial)`) // as the owner's next version does
	run(t, session(t, asRunner(t, dsn), "runner"), `INSERT INTO penstock.later DEFAULT VALUES`)
}

// works does what processes of a store do.
func works(ctx context.Context, dsn string) error {
	s, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	held, err := s.Hold(ctx, "x", nil)
	if err != nil {
		return err
	}
	held.Release()
	jobs := []store.NewJob{{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5, Draws: []dispatch.Draw{{Limit: "api", Cost: 1}}}, Payload: []byte("1")},
		{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}, Unique: "u", Payload: []byte("2")}}
	claim := store.ClaimRequest{Worker: "w", Token: 1, Kinds: []string{"k"}, Places: 9, Horizon: time.Second}
	var claimed store.ClaimResult
	for _, step := range []func() error{
		func() error { return s.Ping(ctx) },
		func() error { return s.DeclareLimit(ctx, "api", limit.Spec{InFlight: 9}) },
		func() error { _, err := s.Insert(ctx, jobs); return err },
		func() error { return s.Register(ctx, store.Worker{ID: "w", Kinds: []string{"k"}, Lease: time.Minute}) },
		func() (err error) { claimed, err = s.Claim(ctx, claim); return err },
		func() error { _, err := s.Heartbeat(ctx, "w"); return err },
		func() error {
			var fs []store.Finish
			for _, j := range claimed.Jobs {
				fs = append(fs, store.Finish{ID: j.ID, Worker: "w", Token: j.Token, Outcome: store.OutcomeDone})
			}
			_, err := s.Finish(ctx, fs)
			return err
		},
		func() error { return s.PauseQueue(ctx, "q", "test") },
		func() error { return s.ResumeQueue(ctx, "q") },
		func() error { _, err := s.Prune(ctx, []store.State{store.Done}, 1<<60, 100); return err },
		func() error { _, err := s.Tidy(ctx); return err },
		func() error { _, err := s.Sweep(ctx); return err },
		func() error { _, err := s.Examine(ctx); return err },
		func() error { return s.Deregister(ctx, "w") },
		func() error { return guest(ctx, s, dsn, jobs[:1]) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if len(claimed.Jobs) != len(jobs) {
		return errors.New("not all jobs were claimed")
	}
	return nil
}

// guest enqueues in a transaction of the role's own.
func guest(ctx context.Context, s *postgres.Store, dsn string, jobs []store.NewJob) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	err = s.Within(ctx, tx, func(t engine.Tx) error {
		_, err := engine.Insert(t, jobs)
		return err
	})
	return errors.Join(err, tx.Rollback(ctx))
}
