// Package pgtest gives tests a real PostgreSQL. Nothing in it is for production.
//
//	db := pgtest.DSN(t)                         // a fresh, empty database
//	srv := pgtest.Server(t, pgtest.Options{})   // a server of the test's own, to be crashed
//	link := pgtest.Proxy(t, db)                 // a network that can be made to fail
//	db = pgtest.Bouncer(t, db)                  // PgBouncer in transaction mode
//
// DSN's databases are on one server: the one that the environment variable
// PENSTOCK_TEST_POSTGRES names by the URL of a role that may create databases, else
// a throwaway one that the test's process starts from the binaries it finds.
// `make test` starts one for the whole run (the command in cmd does).
//
// A throwaway server lives in a temporary directory and listens on a Unix socket
// in it and on a loopback port, both with a random password. It ends, and its
// directory goes, with the process that started it, however that ends. It runs with
// fsync=off: it survives the crash of a process, not of the machine. Tests that want
// to know what a crash leaves ask Server for fsync=on.
//
// Where PostgreSQL is not installed, tests fail: they are never skipped.
package pgtest
