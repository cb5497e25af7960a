package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/penstockhq/penstock/store"
)

// applicationID marks the file as ours ("PNST"); see PRAGMA application_id.
const applicationID = 0x504e5354

//go:embed schema/*.sql
var schemaFiles embed.FS

// migrations are the steps of the schema, in order: step i leads to version i+1.
// A step is never changed once it was released.
func migrations() ([]string, error) {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]string, len(names))
	for i, name := range names {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(name, want) {
			return nil, fmt.Errorf("%s: expected a name with %s", name, want)
		}
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps[i] = string(text)
	}
	return steps, nil
}

// identity is what the file says of itself.
type identity struct {
	application, version, tables int64
}

func identify(c *conn) (id identity, err error) {
	for _, q := range []struct {
		sql  string
		into *int64
	}{
		{`PRAGMA application_id`, &id.application},
		{`PRAGMA user_version`, &id.version},
		{`SELECT count(*) FROM sqlite_master`, &id.tables},
	} {
		if _, err := one(c, func(r row) { *q.into = r.int(0) }, q.sql); err != nil {
			return id, err
		}
	}
	return id, nil
}

// check refuses files that this version must not write to.
func (id identity) check(steps int, adopt bool) error {
	switch {
	case id.application == applicationID && id.version > int64(steps):
		return fmt.Errorf("%w: its schema is version %d, this program knows up to version %d: use a newer program",
			store.ErrNewerSchema, id.version, steps)
	case id.application == applicationID:
		return nil
	case id.application != 0:
		return fmt.Errorf("%w: its application_id is %#x, expected %#x", store.ErrNotOurs, id.application, applicationID)
	case id.tables > 0 && !adopt:
		return fmt.Errorf("%w: it is an SQLite database with other tables; use a file of its own, or Options.Adopt to share this one", store.ErrNotOurs)
	case id.version != 0:
		return fmt.Errorf("%w: its user_version is %d, set by another program", store.ErrNotOurs, id.version)
	}
	return nil
}

// examine refuses a file that this version must not write to. It changes nothing.
func examine(ctx context.Context, c *conn, adopt bool) (steps []string, id identity, err error) {
	if steps, err = migrations(); err != nil {
		return nil, id, err
	}
	err = whileBusy(ctx, func() error {
		// In one transaction: another process may be creating the tables.
		if err := c.exec(`BEGIN`); err != nil {
			return err
		}
		var err error
		id, err = identify(c)
		return errors.Join(err, c.exec(`ROLLBACK`))
	})
	if err == nil {
		err = id.check(len(steps), adopt)
	}
	return steps, id, err
}

// migrate brings the file to the newest schema. Several processes may try at
// once: each looks again under the write lock.
func migrate(ctx context.Context, c *conn, adopt bool) error {
	steps, id, err := examine(ctx, c, adopt)
	if err != nil {
		return err
	}
	if err := useWAL(ctx, c); err != nil {
		return err
	}
	if id.application == applicationID && id.version == int64(len(steps)) {
		return nil
	}
	if err := beginImmediate(ctx, c); err != nil {
		return err
	}
	if err := migrateLocked(c, steps, adopt); err != nil {
		_ = c.exec(`ROLLBACK`)
		return err
	}
	return c.exec(`COMMIT`)
}

func migrateLocked(c *conn, steps []string, adopt bool) error {
	id, err := identify(c)
	if err != nil {
		return err
	}
	if err := id.check(len(steps), adopt); err != nil {
		return err
	}
	for v := id.version; v < int64(len(steps)); v++ {
		if err := c.script(steps[v]); err != nil {
			return fmt.Errorf("schema version %d: %w", v+1, err)
		}
	}
	return c.script(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(steps)))
}

// useWAL needs the file to itself for a moment when it is not in WAL mode yet.
func useWAL(ctx context.Context, c *conn) error {
	var mode string
	err := whileBusy(ctx, func() error {
		_, err := one(c, func(r row) { mode = r.text(0) }, `PRAGMA journal_mode = wal`)
		return err
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("SQLite keeps journal mode %q, expected \"wal\": is the file on a local disk?", mode)
	}
	return err
}
