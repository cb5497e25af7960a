package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const riverLeft = `SELECT count(*) FROM river_job WHERE state <> 'completed'`

// riverOnFile is a SQLite file.
type riverOnFile struct{ db *sql.DB }

func (f riverOnFile) exec(ctx context.Context, query string) error {
	_, err := f.db.ExecContext(ctx, query)
	return err
}

func (f riverOnFile) left(ctx context.Context) (n int, err error) {
	err = f.db.QueryRowContext(ctx, riverLeft).Scan(&n)
	return n, err
}

func (f riverOnFile) permit(ctx context.Context, n int) (wait time.Duration, err error) {
	tx, err := f.db.BeginTx(ctx, nil) // the connection begins IMMEDIATE
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	now := time.Now().UnixMicro()
	const window = 1_000_000
	if _, err := tx.ExecContext(ctx, `DELETE FROM sent WHERE at <= ?`, now-window); err != nil {
		return 0, err
	}
	var count int
	var oldest sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT count(*), min(at) FROM sent`).Scan(&count, &oldest); err != nil {
		return 0, err
	}
	if count >= n {
		return time.Duration(oldest.Int64+window-now) * time.Microsecond, tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO sent (at) VALUES (?)`, now); err != nil {
		return 0, err
	}
	return 0, tx.Commit()
}

func (f riverOnFile) close() error { return f.db.Close() }

// riverOnServer is a database on PostgreSQL.
type riverOnServer struct{ pool *pgxpool.Pool }

func (s riverOnServer) exec(ctx context.Context, query string) error {
	_, err := s.pool.Exec(ctx, query)
	return err
}

func (s riverOnServer) left(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, riverLeft).Scan(&n)
	return n, err
}

func (s riverOnServer) permit(ctx context.Context, n int) (wait time.Duration, err error) {
	var micros int64
	err = s.pool.QueryRow(ctx, `SELECT permit($1)`, n).Scan(&micros)
	return time.Duration(micros) * time.Microsecond, err
}

func (s riverOnServer) close() error { s.pool.Close(); return nil }

// What permit needs. On the server it is one call: one round trip.
const (
	sentOnFile   = `CREATE TABLE sent (at INTEGER NOT NULL)`
	sentOnServer = `
CREATE TABLE sent (at bigint NOT NULL);
CREATE INDEX ON sent (at);
CREATE FUNCTION permit(most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE now bigint; taken bigint; oldest bigint;
BEGIN
	PERFORM pg_advisory_xact_lock(50);
	now := extract(epoch FROM clock_timestamp()) * 1000000;
	DELETE FROM sent WHERE at <= now - 1000000;
	SELECT count(*), min(at) INTO taken, oldest FROM sent;
	IF taken >= most THEN
		RETURN oldest + 1000000 - now;
	END IF;
	INSERT INTO sent (at) VALUES (now);
	RETURN 0;
END $$`
)
