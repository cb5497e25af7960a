package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// connectTimeout is for servers that do not answer at all, unless the DSN says
// something else.
const connectTimeout = 10 * time.Second

// Connect opens a connection to the database of a store's DSN, which is a URL that
// may name the schema, and returns both. No error has the password.
func Connect(ctx context.Context, dsn string) (conn *pgx.Conn, schema string, err error) {
	dsn, schema, err = split(dsn)
	if err != nil {
		return nil, "", err
	}
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %v", ErrDSN, err) // pgx masks the password in the text, and has it in the value
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "penstock migrate")
	conn, err = pgx.ConnectConfig(ctx, c)
	return conn, schema, err
}

// ErrDSN says that a text is no DSN of a store.
var ErrDSN = errors.New("expected a URL such as postgres://user@host:5432/database?schema=penstock")

// split takes the schema's name out of a DSN, and leaves what pgx knows.
func split(dsn string) (rest, schema string, err error) {
	u, err := ParseDSN(dsn)
	if err != nil {
		return "", "", err
	}
	q := Parameters(u)
	schema = cmp.Or(q.Get("schema"), DefaultSchema)
	if err := CheckName(schema); err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrDSN, err)
	}
	for name := range q { // the other ones are a store's
		if name == "schema" || name == "pooler" || strings.HasPrefix(name, "pool_") {
			q.Del(name)
		}
	}
	SetParameters(u, q)
	return u.String(), schema, nil
}

// WithSchema is a DSN that names the schema.
func WithSchema(dsn, schema string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	q := Parameters(u)
	if cmp.Or(q.Get("schema"), DefaultSchema) != schema {
		q.Set("schema", schema)
		SetParameters(u, q)
	}
	return u.String()
}
