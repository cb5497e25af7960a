//go:build !unix

package pgtest

import (
	"errors"
	"testing"
)

const plainRole, superRole = "", ""

// engine is a server that this system cannot have: name one in Env.
type engine struct{}

func newEngine(map[string]string) (*engine, error) {
	return nil, errors.New("throwaway servers of PostgreSQL need a Unix system: name a server in " + Env)
}

func (*engine) close() error                 { return nil }
func (*engine) start() error                 { return nil }
func (*engine) stop(Mode) error              { return nil }
func (*engine) pid() int                     { return 0 }
func (*engine) freeze() error                { return nil }
func (*engine) thaw() error                  { return nil }
func (*engine) exec(...string) error         { return nil }
func (*engine) dsn(_, _ string) string       { return "" }
func (*engine) socketDSN(_, _ string) string { return "" }

// Bouncer fails the test: this system has no throwaway servers.
func Bouncer(t testing.TB, dsn string) string {
	t.Helper()
	t.Fatal("PgBouncer is tested on Unix systems only")
	return ""
}

// Run has no server to offer on this system.
func Run(string, ...string) (int, error) {
	return 1, errors.New("throwaway servers of PostgreSQL need a Unix system: name a server in " + Env)
}
