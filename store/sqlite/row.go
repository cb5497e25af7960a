package sqlite

import "database/sql/driver"

// row is one row of a result, as SQLite's types arrive from any driver.
type row []driver.Value

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) num(i int) int { return int(r.int(i)) }

func (r row) bool(i int) bool { return r.int(i) != 0 }

// text returns "" for NULL.
func (r row) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// blob returns nil for NULL and for no bytes at all. The caller owns it.
func (r row) blob(i int) []byte {
	switch v := r[i].(type) {
	case []byte:
		if len(v) > 0 {
			return v
		}
	case string:
		if v != "" {
			return []byte(v)
		}
	}
	return nil
}

// orNull is for columns that hold NULL instead of the empty string.
func orNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

// blobOrNull is for columns that hold NULL instead of no bytes.
func blobOrNull(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// link runs statements: on a connection of this package, or in a transaction of
// the caller's. Arguments are int64, string, []byte or nil.
type link interface {
	exec(sql string, args ...driver.Value) error
	// query calls each for every row; the row is valid until each returns. It must
	// not run another statement.
	query(each func(row), sql string, args ...driver.Value) error
}

// one runs a query of at most one row.
func one(l link, each func(row), sql string, args ...driver.Value) (found bool, err error) {
	err = l.query(func(r row) { found = true; each(r) }, sql, args...)
	return found, err
}
