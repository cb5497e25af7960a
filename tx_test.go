package penstock_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// onEach runs a test over a file and over a server.
func onEach(t *testing.T, fn func(t *testing.T, c *penstock.Client)) {
	t.Run("sqlite", func(t *testing.T) {
		fn(t, clientOn(t, filepath.Join(t.TempDir(), "q.db"), penstock.Config{}))
	})
	t.Run("postgres", func(t *testing.T) {
		dsn, _ := onServer(t)
		fn(t, clientOn(t, dsn, penstock.Config{}))
	})
}

// No transaction at all is an error, also where a nil pointer stands for it.
func TestTxNil(t *testing.T) {
	onEach(t, func(t *testing.T, c *penstock.Client) {
		var none *sql.Tx
		var nonePgx pgx.Tx
		for _, tx := range []penstock.Transaction{nil, none, nonePgx} {
			_, err := c.EnqueueTx(t.Context(), tx, "mail", 1, nil)
			_, errs := c.EnqueueManyTx(t.Context(), tx, []penstock.NewJob{{Kind: "mail"}})
			for _, err := range []error{err, errs} {
				if err == nil || !strings.Contains(err.Error(), "the transaction is nil") {
					t.Errorf("%T: %v", tx, err)
				}
			}
		}
		handle(t, c, "mail", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			_, err := penstock.OnceTx(ctx, none, "key", func(context.Context) (int, error) { t.Error("it ran"); return 1, nil })
			if err == nil || !strings.Contains(err.Error(), "the transaction is nil") {
				t.Errorf("OnceTx: %v", err)
			}
			return nil
		})
		id := enqueue(t, c, "mail", 1)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
	})
}

// A transaction on another database than the client's.
func TestTxOnAnotherDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, c *penstock.Client) {
		other := filepath.Join(t.TempDir(), "other.db")
		_ = clientOn(t, other, penstock.Config{})
		db, err := sql.Open("sqlite", "file:"+other)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = c.EnqueueTx(t.Context(), tx, "mail", 1)
		if onFile := strings.HasPrefix(t.Name(), "TestTxOnAnotherDatabase/sqlite"); onFile != errors.Is(err, penstock.ErrOtherDatabase) || err == nil {
			t.Errorf("%v", err)
		}
	})
}

// The effects that are Penstock's own are refused by every way to name one.
func TestOnceRefusesReservedKeys(t *testing.T) {
	onEach(t, func(t *testing.T, c *penstock.Client) {
		handle(t, c, "mail", penstock.Kind{}, func(ctx context.Context, j *penstock.Job[int]) error {
			for _, key := range []string{store.JobEffect(j.ID), store.PrivateKind, ""} {
				ran := func(context.Context) (int, error) { t.Errorf("%q: it ran", key); return 1, nil }
				_, once := penstock.Once(ctx, key, ran)
				_, tx := penstock.OnceTx(ctx, nil, key, ran)
				if once == nil || tx == nil || once.Error() != tx.Error() {
					t.Errorf("%q: Once says %v, OnceTx %v", key, once, tx)
				}
			}
			return nil
		})
		id := enqueue(t, c, "mail", 1)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
	})
}
