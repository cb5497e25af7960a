package penstock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres"
)

// resumesWithin is what docs/postgres.md promises after an outage.
const resumesWithin = 30 * time.Second

// site is a worker whose server can be made to fail.
type site struct {
	t      *testing.T
	server *pgtest.Postgres
	link   *pgtest.Link
	worker *penstock.Client // by way of the link
	other  *penstock.Client // straight to the server
	said   *syncBuffer
	called chan struct{}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, server: pgtest.Server(t, pgtest.Options{}), said: &syncBuffer{}, called: make(chan struct{}, 1000)}
	dsn := s.server.DSN("penstock")
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s.link = pgtest.Proxy(t, dsn)
	s.worker = s.open(s.link.DSN(), s.said)
	s.other = s.open(dsn, &syncBuffer{})
	handle(t, s.worker, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
		s.called <- struct{}{}
		return nil
	})
	stop := working(t, s.worker, penstock.WorkOptions{Grace: time.Second})
	t.Cleanup(stop)
	s.enqueue(1)
	s.awaitCalls(1)
	return s
}

func (s *site) open(dsn string, log *syncBuffer) *penstock.Client {
	s.t.Helper()
	c, err := penstock.Open(s.t.Context(), dsn, penstock.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// enqueue puts jobs in as another process does. Its own connections may have to be
// dialled anew first.
func (s *site) enqueue(n int) {
	s.t.Helper()
	for i := range n {
		s.await("a job is enqueued", func() bool {
			_, err := s.other.Enqueue(s.t.Context(), "call", i)
			return err == nil
		})
	}
}

func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(resumesWithin)
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			s.t.Fatalf("after %v still not: %s\n%s", resumesWithin, what, s.said)
		}
	}
}

func (s *site) awaitCalls(n int) {
	s.t.Helper()
	late := time.After(resumesWithin)
	for i := range n {
		select {
		case <-s.called:
		case <-late:
			s.t.Fatalf("%v after the outage %d of %d jobs were called\n%s", resumesWithin, i, n, s.said)
		}
	}
}

func (s *site) health() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	return s.worker.Health(ctx)
}

// awaitIll waits until the outage is known everywhere: by Health, and by the worker.
func (s *site) awaitIll() {
	s.t.Helper()
	s.await("Health is ill, and the outage is said", func() bool {
		return s.health() != nil && strings.Contains(s.said.String(), "the store fails, trying on")
	})
}

// resumes checks that work goes on, and that the outage was said once, as its end.
func (s *site) resumes() {
	s.t.Helper()
	s.enqueue(50)
	s.awaitCalls(50)
	s.await("Health is well, and the end of the outage is said", func() bool {
		return s.health() == nil && strings.Contains(s.said.String(), "the store works again")
	})
	for _, text := range []string{"the store fails, trying on", "the store works again"} {
		if n := strings.Count(s.said.String(), text); n != 1 {
			s.t.Errorf("%q was said %d times:\n%s", text, n, s.said)
		}
	}
}

// TestA2_WorkResumesAfterAnOutageOfTheServer: see TestA2_AnOutageIsSaidAndEnds. On a
// real server: stopped, crashed, and behind a network that swallows what is sent.
func TestA2_WorkResumesAfterAnOutageOfTheServer(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(s *site){
		"stopped": func(s *site) { s.server.Stop(pgtest.Fast); s.awaitIll(); s.server.Start() },
		"crashed": func(s *site) { s.server.Stop(pgtest.Immediate); s.awaitIll(); s.server.Start() },
		"refused": func(s *site) { s.link.Refuse(); s.awaitIll(); s.link.Pass() },
		"swallowed": func(s *site) {
			<-s.link.Swallow()
			s.awaitIll()
			s.link.Pass()
		},
		"frozen": func(s *site) { s.server.Freeze(); s.awaitIll(); s.server.Thaw() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			outage(s)
			s.resumes()
		})
	}
}

// A blink is no outage that anybody must hear of for long: work just goes on.
func TestA2_WorkResumesAfterABlink(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.link.Cut()
		s.enqueue(10)
		s.awaitCalls(10)
	}
	s.server.Restart(pgtest.Immediate)
	s.enqueue(10)
	s.awaitCalls(10)
	s.await("Health is well", func() bool { return s.health() == nil })
}

// TestA3_AServerThatTakesNoWritesIsLeft: after a role swap that keeps sockets open,
// pooled connections stay on the node that is now read-only (riverqueue/river#1225).
func TestA3_AServerThatTakesNoWritesIsLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server.Exec(`ALTER DATABASE penstock SET default_transaction_read_only = on`)
	s.link.Cut()
	s.awaitIll()
	if err := s.health(); !errors.Is(err, postgres.ErrReadOnly) {
		t.Errorf("Health: %v, expected ErrReadOnly", err)
	}
	// Nor is one well that has nothing to write just now.
	if err := s.open(s.server.DSN("penstock"), &syncBuffer{}).Health(t.Context()); !errors.Is(err, postgres.ErrReadOnly) {
		t.Errorf("Health of a client without work: %v, expected ErrReadOnly", err)
	}
	// From now on it takes writes, over connections that are new.
	s.server.Exec(`ALTER DATABASE penstock RESET default_transaction_read_only`)
	s.resumes()
}
