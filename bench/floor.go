package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

type floorArgs struct {
	Path string
	Rows int
}

// floors are the rates of plain statements, rows per second.
type floors struct {
	Insert, Claim, Update, Delete, Single float64
}

// floorStep measures what the SQLite driver does on a table like that of a job
// system, with statements prepared once and nothing around them.
var floorStep = newStep("floor", func(ctx context.Context, a floorArgs) (f floors, err error) {
	db, err := sql.Open("sqlite", dsn(a.Path))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `
		CREATE TABLE job (id INTEGER PRIMARY KEY, lane INTEGER NOT NULL, at INTEGER NOT NULL, token INTEGER, payload BLOB NOT NULL);
		CREATE INDEX job_waiting ON job (lane, at, id) WHERE token IS NULL`)
	if err != nil {
		return f, err
	}
	const (
		insert = `INSERT INTO job (id, lane, at, payload) VALUES (?, 1, 1, x'` + payloadHex + `')`
		claim  = `UPDATE job SET token = 1 WHERE id IN (SELECT id FROM job WHERE lane = 1 AND token IS NULL ORDER BY at, id LIMIT 500) RETURNING id, payload`
	)
	if f.Insert, err = batches(ctx, db, insert, a.Rows, 1000); err != nil {
		return f, err
	}
	if f.Claim, err = claims(ctx, db, claim, a.Rows, 500); err != nil {
		return f, err
	}
	if f.Update, err = batches(ctx, db, `UPDATE job SET token = 2 WHERE id = ?`, a.Rows, 500); err != nil {
		return f, err
	}
	if f.Delete, err = batches(ctx, db, `DELETE FROM job WHERE id = ?`, a.Rows, 500); err != nil {
		return f, err
	}
	f.Single, err = batches(ctx, db, insert, a.Rows/50, 1)
	return f, err
})

// batches runs a statement for the ids 1 to n, size of them in a transaction.
func batches(ctx context.Context, db *sql.DB, query string, n, size int) (float64, error) {
	before := time.Now()
	for first := 1; first <= n; first += size {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		s, err := tx.PrepareContext(ctx, query)
		for id := first; err == nil && id < first+size && id <= n; id++ {
			_, err = s.ExecContext(ctx, id)
		}
		if err != nil {
			return 0, errors.Join(err, tx.Rollback())
		}
		if err := errors.Join(s.Close(), tx.Commit()); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(before).Seconds(), nil
}

// claims runs a statement that takes rows until n are taken.
func claims(ctx context.Context, db *sql.DB, query string, n, size int) (float64, error) {
	before := time.Now()
	for taken := 0; taken < n; {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return 0, err
		}
		got := 0
		for rows.Next() {
			var id int64
			var body []byte
			if err := rows.Scan(&id, &body); err != nil {
				return 0, errors.Join(err, rows.Close())
			}
			got++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return 0, err
		}
		if got == 0 {
			return 0, fmt.Errorf("%d of %d rows claimed, then none", taken, n)
		}
		taken += got
	}
	return float64(n) / time.Since(before).Seconds(), nil
}

// payloadHex is payload as a literal.
const payloadHex = tenX + tenX + tenX + tenX + tenX + tenX + tenX + tenX + tenX + tenX

const tenX = "78787878787878787878"

func floorOnce(ctx context.Context, l *lab, round, n int) error {
	path, err := l.path("floor.db")
	if err != nil {
		return err
	}
	defer l.forget(path)
	f, _, err := floorStep.run(ctx, l, floorArgs{path, n})
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	l.add("floor: insert 1,000", "rows/s", f.Insert)
	l.add("floor: claim 500", "rows/s", f.Claim)
	l.add("floor: update 500", "rows/s", f.Update)
	l.add("floor: delete 500", "rows/s", f.Delete)
	l.add("floor: single commits", "rows/s", f.Single)
	l.add("floor: claim 500, delete 500", "jobs/s", 1/(1/f.Claim+1/f.Delete))
	l.say("round %d: floor: insert %.0f, claim %.0f, update %.0f, delete %.0f rows/s", round+1, f.Insert, f.Claim, f.Update, f.Delete)
	return nil
}
