// Package migrate leads the tables of a Penstock in PostgreSQL from version to
// version, forward and back.
//
// The tables are in a schema of their own, among them the table migration: which
// versions were applied, and when. Each version is one transaction, so a database is
// always at one of them, whatever fails. Processes may migrate at once: each
// transaction takes an advisory lock that ends with it, which works through poolers
// of transactions, too, and looks again what is left to do.
package migrate

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
)

// Steps are all versions that this program knows.
type Steps struct {
	steps []step // step i leads from version i to i+1, and back
}

type step struct {
	name     string // the file's, without .up.sql
	up, down string
}

var fileName = regexp.MustCompile(`^(\d{4})_(\w+)\.(up|down)\.sql$`)

// Load reads the versions from files like 0001_tables.up.sql, which leads to
// version 1, and 0001_tables.down.sql, which leads back. A file is SQL that may run in
// a transaction; names without a schema are in Penstock's. Other files do not matter.
func Load(files fs.FS) (*Steps, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	s := new(Steps)
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) }) // each up before its down
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(a[:min(4, len(a))], b[:min(4, len(b))]) })
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if err := s.add(name, string(text)); err != nil {
			return nil, err
		}
	}
	for _, step := range s.steps {
		if step.down == "" {
			return nil, fmt.Errorf("%s.down.sql: expected a way back beside %[1]s.up.sql", step.name)
		}
	}
	return s, nil
}

func (s *Steps) add(name, text string) error {
	m := fileName.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%s: expected a name like 0001_tables.up.sql", name)
	}
	version, _ := strconv.Atoi(m[1])
	base := m[1] + "_" + m[2]
	switch {
	case text == "":
		return fmt.Errorf("%s is empty", name)
	case m[3] == "up" && version == len(s.steps)+1:
		s.steps = append(s.steps, step{name: base, up: text})
	case m[3] == "down" && version == len(s.steps) && version > 0 && s.steps[version-1].name == base:
		s.steps[version-1].down = text
	default:
		return fmt.Errorf("%s: expected the versions to be 0001, 0002 and so on, each with one .up.sql and one .down.sql of one name", name)
	}
	return nil
}

// Newest is the newest version; 0 is a database without tables.
func (s *Steps) Newest() int { return len(s.steps) }
