package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres/fault"
)

// connect tries to, with the URL changed, and returns what came of it by name.
func connect(t *testing.T, dsn string, change func(u *url.URL)) error {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	conn, err := pgx.Connect(t.Context(), u.String())
	if err == nil {
		conn.Close(context.Background())
		t.Fatal("connected")
	}
	return fault.Name(err)
}

func TestConnectingIsNamed(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t, pgtest.Options{})
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		name   error
		text   string
		change func(u *url.URL)
	}{
		{fault.ErrUnreachable, "connection refused", func(u *url.URL) { u.Host = "127.0.0.1:1"; u.RawQuery = "" }},
		{fault.ErrUnreachable, "no such host", func(u *url.URL) { u.Host = "nowhere.invalid" }},
		{fault.ErrUnreachable, "timeout", func(u *url.URL) { u.Host = silent.Addr().String(); u.RawQuery += "&connect_timeout=1" }},
		{fault.ErrRefused, "password authentication failed", func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "s3cret") }},
		{fault.ErrNoDatabase, "does not exist", func(u *url.URL) { u.Path = "/nothing" }},
	} {
		err := connect(t, s.DSN("penstock"), c.change)
		if !errors.Is(err, c.name) || !strings.Contains(err.Error(), c.text) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v (%q): expected %v with %q, on one line, without the password", err, c.text, c.name, c.text)
		}
	}
}

func TestAServerThatEndsIsNamed(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t, pgtest.Options{})
	for _, mode := range []pgtest.Mode{pgtest.Fast, pgtest.Immediate} {
		conn, err := pgx.Connect(t.Context(), s.DSN("penstock"))
		if err != nil {
			t.Fatal(err)
		}
		s.Stop(mode)
		for range 2 { // it goes away, and is gone
			if _, err := conn.Exec(t.Context(), "SELECT 1"); !errors.Is(fault.Name(err), fault.ErrUnreachable) {
				t.Errorf("%s: %v", mode, fault.Name(err))
			}
		}
		s.Start()
	}
}

func TestASilentServerIsNamed(t *testing.T) {
	t.Parallel()
	link := pgtest.Proxy(t, pgtest.DSN(t))
	conn, err := pgx.Connect(t.Context(), link.DSN())
	if err != nil {
		t.Fatal(err)
	}
	link.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT 1"); !errors.Is(fault.Name(err), fault.ErrUnreachable) || !errors.Is(fault.Name(err), context.DeadlineExceeded) {
		t.Errorf("%v", fault.Name(err))
	}
}

func TestOtherErrorsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("x"), context.Canceled, &pgconn.PgError{Code: "22012"}} {
		if fault.Name(err) != err {
			t.Errorf("%v became %v", err, fault.Name(err))
		}
	}
	twice := fault.Name(fmt.Errorf("read: %w", fault.Name(&pgconn.PgError{Code: "25006", Message: "m"})))
	if !errors.Is(twice, fault.ErrReadOnly) || strings.Count(twice.Error(), fault.ErrReadOnly.Error()) != 1 {
		t.Errorf("named twice: %v", twice)
	}
}
