// A payment, with a key and an effect guard, beside the shop's own tables.
//
// The shop's tables and Penstock's are in one SQLite file, which makes three
// things safe:
//
//   - EnqueueTx: the order and its job are written in one transaction. One that
//     is rolled back leaves neither.
//   - Once and the idempotency key: the charge succeeds at the gateway, but its
//     answer is a 500. Nobody here can know, so it is asked again, under the same
//     key, and the gateway answers with the first charge instead of a second.
//   - OnceTx: the entry in the ledger and the note that it was made commit
//     together. The handler fails right after that commit, and its next start
//     does not enter the payment again.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/retry"
)

type Order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

type shop struct {
	db     *sql.DB
	client *penstock.Client
	api    *apisim.Server
}

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "penstock-example-")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")

	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, `
		CREATE TABLE orders (id TEXT PRIMARY KEY, amount INTEGER NOT NULL, paid INTEGER NOT NULL DEFAULT 0);
		CREATE TABLE ledger (order_id TEXT NOT NULL, amount INTEGER NOT NULL, charge TEXT NOT NULL)`)
	check(err)

	client, err := penstock.Open(ctx, path, penstock.Config{
		Adopt:  true, // the file has tables of its own
		Limits: map[string]string{"gateway": "50/s, 5 in flight"},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	defer client.Close()
	api, err := apisim.Serve(ctx, apisim.Config{
		Dedupe:   true,              // by Idempotency-Key, as Stripe does
		Error5xx: 1, AfterEffect: 1, // every call takes effect and then fails, for now
	})
	check(err)
	defer api.Close()

	s := &shop{db: db, client: client, api: api}
	check(penstock.Handle(client, "pay", s.pay, penstock.Kind{
		Limits:          penstock.Draws("gateway"),
		IdempotencyKeys: true, // made when the job is enqueued, the same at every start
		Retry:           retry.Policy{Base: 20 * time.Millisecond},
	}))

	check(s.order(ctx, Order{"order-1", 4200}, nil))
	fmt.Println("order-2:", s.order(ctx, Order{"order-2", 100}, errors.New("the cart was empty after all")))
	check(client.Work(ctx, penstock.WorkOptions{Drain: true, OnEnd: func(e *penstock.End) {
		if e.Started.IsZero() {
			return // it came too late for its slot, and is given out again
		}
		fmt.Printf("start %d: %s %s\n", e.Job.Starts, e.Outcome, e.Error)
		// The gateway is well again after the first answer.
		check(api.API.Configure(func(c *apisim.Config) { c.Error5xx = 0 }))
	}}))
	s.report(ctx)
}

// order takes an order: its row and its job are there together, or not at all.
func (s *shop) order(ctx context.Context, o Order, trouble error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, amount) VALUES (?, ?)", o.ID, o.Amount); err != nil {
		return err
	}
	if _, err := s.client.EnqueueTx(ctx, tx, "pay", o, penstock.Unique("pay/"+o.ID)); err != nil {
		return err
	}
	if trouble != nil {
		return trouble
	}
	return tx.Commit()
}

func (s *shop) pay(ctx context.Context, job *penstock.Job[Order]) error {
	charge, err := penstock.Once(ctx, "charge/"+job.Args.ID, func(ctx context.Context) (string, error) {
		return s.charge(ctx, job.Args, job.IdempotencyKey())
	})
	if err != nil {
		return err
	}
	if err := s.enter(ctx, job.Args, charge); err != nil {
		return err
	}
	if job.Attempts == 1 {
		return errors.New("failed after the books were written")
	}
	return nil
}

// charge calls the gateway.
func (s *shop) charge(ctx context.Context, o Order, key string) (string, error) {
	body := fmt.Sprintf(`{"to": "+15550001234", "text": "charge %d", "message_id": %q}`, o.Amount, o.ID)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api.URL+"/messages", bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		return "", penstock.RateLimited(0)
	case answer.StatusCode >= 500:
		return "", errors.New("the gateway failed, and nobody knows whether it charged")
	case answer.StatusCode >= 400:
		return "", penstock.Permanent(fmt.Errorf("status %d", answer.StatusCode))
	}
	return "charge of " + o.ID, nil
}

// enter writes the payment into the books, once.
func (s *shop) enter(ctx context.Context, o Order, charge string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = penstock.OnceTx(ctx, tx, "ledger/"+o.ID, func(ctx context.Context) (bool, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (order_id, amount, charge) VALUES (?, ?, ?)", o.ID, o.Amount, charge); err != nil {
			return false, err
		}
		_, err := tx.ExecContext(ctx, "UPDATE orders SET paid = paid + amount WHERE id = ?", o.ID)
		return true, err
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// report says what the three books hold: the gateway's, the shop's, Penstock's.
func (s *shop) report(ctx context.Context) {
	keys := map[string]bool{}
	calls := s.api.API.Log()
	for _, call := range calls {
		keys[call.Key] = true
	}
	fmt.Printf("gateway: %d calls, %d key, %d charge of order-1\n", len(calls), len(keys), apisim.Delivered(calls)["order-1"])
	var orders, entries, paid int64
	check(s.db.QueryRowContext(ctx, "SELECT count(*), sum(paid) FROM orders").Scan(&orders, &paid))
	check(s.db.QueryRowContext(ctx, "SELECT count(*) FROM ledger").Scan(&entries))
	fmt.Printf("shop: %d order, %d paid, %d entry in the ledger\n", orders, paid, entries)
	jobs, err := s.client.Jobs(ctx, penstock.Filter{})
	check(err)
	for _, job := range jobs {
		fmt.Printf("penstock: %s is %s after %d starts\n", job.Kind, job.State, job.Starts)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
