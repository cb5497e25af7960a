//go:build !unix

package pgtest

import "errors"

const plainRole, superRole = "", ""

// engine is a server that this system cannot have: name one in Env.
type engine struct{}

func newEngine(map[string]string) (*engine, error) {
	return nil, errors.New("throwaway servers of PostgreSQL need a Unix system: name a server in " + Env)
}

func (*engine) close() error                 { return nil }
func (*engine) start() error                 { return nil }
func (*engine) stop(Mode) error              { return nil }
func (*engine) exec(...string) error         { return nil }
func (*engine) dsn(_, _ string) string       { return "" }
func (*engine) socketDSN(_, _ string) string { return "" }
