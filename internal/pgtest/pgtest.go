package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env is the environment variable that names the server whose databases DSN
// gives out: a URL, postgres://role:password@host/database, of a role that may
// create databases.
const Env = "PENSTOCK_TEST_POSTGRES"

// callTimeout is how long a server may take to make or drop a database, while
// all cores are busy with tests.
const callTimeout = 2 * time.Minute

// shared is the DSN of the server of this process's tests. It ends with the process.
var shared = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(Env); dsn != "" {
		u, err := url.Parse(dsn)
		if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
			return "", fmt.Errorf("%s: expected a URL such as postgres://role:password@host/database", Env) // and not what came, it has a password
		}
		return dsn, nil
	}
	e, err := newEngine(nil)
	if err != nil {
		return "", err
	}
	return e.dsn(plainRole, "penstock"), nil
})

// DSN returns the DSN of a fresh, empty database, which is dropped when the
// test ends, whoever is connected to it then. Its text is sorted as English is,
// where the server can: what needs the order of bytes must say so.
func DSN(t testing.TB) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return fresh(t, server)
}

// fresh makes a database on a server.
func fresh(t testing.TB, server string) string {
	t.Helper()
	name := "pgtest_" + password()
	if err := onServer(server, func(ctx context.Context, conn *pgx.Conn) error { return create(ctx, conn, name) }); err != nil {
		t.Fatalf("make a database for the test (on the server that %s names, if it does): %v", Env, err)
	}
	t.Cleanup(func() {
		err := onServer(server, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return err
		})
		if err != nil {
			t.Logf("the test's database %s stays: %v", name, err)
		}
	})
	return withDatabase(server, name)
}

// password is hard to guess, and needs no quotes anywhere.
func password() string { return strings.ToLower(rand.Text()) }

// create makes an empty database with a collation that is not the order of bytes.
func create(ctx context.Context, conn *pgx.Conn, name string) error {
	english := " LOCALE_PROVIDER icu ICU_LOCALE 'en-US'" // since PostgreSQL 15, if built with ICU
	_, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'"+english)
	if err == nil {
		return nil
	}
	_, plain := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	if plain != nil {
		return errors.Join(err, plain)
	}
	return nil
}

func onServer(dsn string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}

// withDatabase is the URL with another database's name.
func withDatabase(dsn, name string) string {
	return change(dsn, func(u *url.URL) { u.Path = "/" + name })
}

// change changes a URL that was parsed before.
func change(dsn string, how func(*url.URL)) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // whoever connects says what is wrong with it
	}
	how(u)
	return u.String()
}
