package pgtest

import (
	"testing"
)

// Mode is a way to stop a server.
type Mode string

// The modes of Stop and Restart.
const (
	Fast      Mode = "fast"      // connections are cut, what was committed is written down
	Immediate Mode = "immediate" // a crash: all processes end at once; the next start recovers
)

// Options of a server of a test's own.
type Options struct {
	// Conf are settings of postgresql.conf, by name. fsync is off if it is not among them.
	Conf map[string]string
}

// Postgres is a server of a test's own. Its methods end the test if they fail,
// so they are for the test's goroutine.
type Postgres struct {
	t testing.TB
	e *engine
}

// Server starts a server that ends with the test.
func Server(t testing.TB, o Options) *Postgres {
	t.Helper()
	e, err := newEngine(o.Conf)
	if err != nil {
		t.Fatal(err)
	}
	s := &Postgres{t, e}
	t.Cleanup(func() { s.must(e.close()) })
	return s
}

func (s *Postgres) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Stop stops the server, if it runs, and returns when it has ended.
func (s *Postgres) Stop(mode Mode) {
	s.t.Helper()
	s.must(s.e.stop(mode))
}

// Start starts the server again, on the same port, and returns when it answers.
func (s *Postgres) Start() {
	s.t.Helper()
	s.must(s.e.start())
}

// Restart is Stop and Start.
func (s *Postgres) Restart(mode Mode) {
	s.t.Helper()
	s.Stop(mode)
	s.Start()
}

// DSN is how to connect to a database over TCP, as a role that owns the
// database penstock and may make more. It does not change by a restart.
func (s *Postgres) DSN(db string) string { return s.e.dsn(plainRole, db) }

// SocketDSN is DSN over the server's Unix socket.
func (s *Postgres) SocketDSN(db string) string { return s.e.socketDSN(plainRole, db) }

// SuperDSN is DSN as the superuser.
func (s *Postgres) SuperDSN(db string) string { return s.e.dsn(superRole, db) }

// Exec runs one statement as the superuser, in the database postgres.
func (s *Postgres) Exec(sql string) {
	s.t.Helper()
	s.must(s.e.exec(sql))
}

// PID is the process id of the server's first process, 0 while it is stopped.
func (s *Postgres) PID() int { return s.e.pid() }

// Freeze stops all processes of the server, as SIGSTOP does: connections stay
// open, new ones are accepted, and nothing answers until Thaw.
func (s *Postgres) Freeze() {
	s.t.Helper()
	s.must(s.e.freeze())
}

// Thaw ends Freeze.
func (s *Postgres) Thaw() {
	s.t.Helper()
	s.must(s.e.thaw())
}
