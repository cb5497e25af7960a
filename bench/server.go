package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres"
)

// serverEnv names the server to measure on: the URL of a role that may create databases.
const serverEnv = "PENSTOCK_BENCH_POSTGRES"

// defaults are PostgreSQL's own settings, where throwaway servers for tests have others.
var defaults = map[string]string{
	"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "shared_buffers": "128MB", "max_connections": "100",
}

// A server is what all systems that need PostgreSQL are measured on.
type server struct {
	dsn        string
	version    string
	postmaster int // its first process, 0 if it is on another machine
	end        func() error
}

// onServer starts the server, or connects to the one that is named, once.
func (l *lab) onServer(ctx context.Context) (*server, error) {
	if l.server != nil {
		return l.server, nil
	}
	s := &server{dsn: os.Getenv(serverEnv), end: func() error { return nil }}
	if s.dsn == "" {
		var err error
		if s.dsn, s.end, err = pgtest.Start(defaults); err != nil {
			return nil, fmt.Errorf("%w (for this program the variable is %s)", err, serverEnv)
		}
	} else if !strings.HasPrefix(s.dsn, "postgres") || !isDSN(s.dsn) {
		return nil, fmt.Errorf("%s: expected a URL such as postgres://role@host/database", serverEnv)
	}
	if err := s.look(ctx); err != nil {
		return nil, errors.Join(err, s.end())
	}
	l.server, l.report.Server = s, s.version
	if s.postmaster == 0 {
		l.say("the server's processes are not in /proc: figures of its processor time are left out")
	}
	return s, nil
}

// look finds out what the server is, and refuses one whose commits are not durable.
func (s *server) look(ctx context.Context) error {
	return s.do(ctx, s.dsn, func(c *pgx.Conn) error {
		var backend int
		var near bool
		var fsync, commit string
		err := c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
			pg_backend_pid(), coalesce(inet_client_addr() = inet_server_addr(), true)`).Scan(&s.version, &fsync, &commit, &backend, &near)
		if err != nil {
			return err
		}
		if fsync != "on" || commit != "on" {
			return fmt.Errorf("the server has fsync=%s and synchronous_commit=%s: both must be on, or its figures mean nothing", fsync, commit)
		}
		if near {
			s.postmaster = parentOf(backend)
		}
		return nil
	})
}

// do connects and runs fn.
func (s *server) do(ctx context.Context, dsn string, fn func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.Close(context.WithoutCancel(ctx)))
}

// database makes a fresh database, with Penstock's tables, and returns its DSN.
func (l *lab) database(ctx context.Context) (string, error) {
	s, err := l.onServer(ctx)
	if err != nil {
		return "", err
	}
	name := "bench_" + strings.ToLower(rand.Text())
	err = s.do(ctx, s.dsn, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+name)
		return err
	})
	if err != nil {
		return "", err
	}
	u, err := url.Parse(s.dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), postgres.Migrate(ctx, u.String())
}

// drop removes a database, whoever is still connected. It makes the server write down
// what it has in memory, so the next measurement starts afresh.
func (l *lab) drop(dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.server.do(ctx, l.server.dsn, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "DROP DATABASE "+strings.TrimPrefix(u.Path, "/")+" WITH (FORCE)")
		return err
	})
}

// settle has the server do now what it would do some time later: what follows
// is measured without it.
func settle(ctx context.Context, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// isDSN tells the URL of a database from the path of a file.
func isDSN(path string) bool { return strings.Contains(path, "://") }
