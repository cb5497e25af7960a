package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// DeclareLimit creates a limit or changes what code declares of it.
func (s *Store) DeclareLimit(ctx context.Context, name string, spec limit.Spec) error {
	return s.config(ctx, name, spec, func(r *LimitRow, text string) { r.Declared = text })
}

// SetLimit overrides what is declared.
func (s *Store) SetLimit(ctx context.Context, name string, spec limit.Spec) error {
	return s.config(ctx, name, spec, func(r *LimitRow, text string) { r.Set = text })
}

// config changes a limit's row and lets all its gates look again.
func (s *Store) config(ctx context.Context, name string, spec limit.Spec, change func(*LimitRow, string)) error {
	if err := checkLimitName(name); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("limit %q: %w", name, err)
	}
	return s.db.Update(ctx, func(tx Tx) error {
		row, _, err := tx.LimitRow(name)
		if err != nil {
			return err
		}
		was := row
		row.Name = name
		change(&row, spec.String())
		if row == was {
			return nil
		}
		if row.Declared == "" { // set by a person before any code declared it
			row.Declared = row.Set
		}
		return saveConfig(tx, was, row)
	})
}

// saveConfig writes a row, notes what changed for people, and lets the limit's
// gates look again.
func saveConfig(tx Tx, was, row LimitRow) error {
	if err := tx.SaveLimitRow(row); err != nil {
		return err
	}
	now, err := tx.Now()
	if err != nil {
		return err
	}
	if text := configNote(was, row); text != "" {
		if err := note(tx, now, store.NoteLimit+row.Name, "%s", text); err != nil {
			return err
		}
	}
	return loosened(tx, row.Name, now)
}

// configNote says what changed; a first declaration is no change.
func configNote(was, row LimitRow) string {
	switch {
	case row.Set != was.Set && row.Set == "":
		return fmt.Sprintf("reset from %s to what is declared, %s", was.Set, row.Declared)
	case row.Set != was.Set && was.Set != "":
		return fmt.Sprintf("set to %s, was set to %s", row.Set, was.Set)
	case row.Set != was.Set:
		return fmt.Sprintf("set to %s, declared is %s", row.Set, row.Declared)
	case was.Declared != "":
		return fmt.Sprintf("declared as %s, was %s", row.Declared, was.Declared)
	}
	return ""
}

// ResetLimit takes a person's override away. Resetting a key that only its
// pattern declares gives it back to the pattern.
func (s *Store) ResetLimit(ctx context.Context, name string) error {
	return s.db.Update(ctx, func(tx Tx) error {
		row, ok, err := tx.LimitRow(name)
		if err != nil {
			return err
		}
		if !ok {
			if _, known, err := configOf(tx, name); err != nil || known {
				return err
			}
			return unknownLimit(tx, name)
		}
		if row.Set == "" {
			return nil
		}
		was := row
		row.Set = ""
		return saveConfig(tx, was, row)
	})
}

// PauseLimit stops a limit until the instant.
func (s *Store) PauseLimit(ctx context.Context, name string, until int64, reason string) error {
	return s.change(ctx, name, func(tx Tx, l *loadedLimit, now int64) error {
		if until <= now {
			return fmt.Errorf("limit %q: a pause until %s is over already, it is %s by the store's clock: expected a later instant", name, clock(until), clock(now))
		}
		l.State.PauseByPerson(now, until, clean(reason))
		end := ""
		if until != limit.Never {
			end = " until " + time.UnixMicro(until).UTC().Format(time.RFC3339)
		}
		return note(tx, now, store.NoteLimit+name, "paused%s%s", end, because(reason))
	})
}

// clock is an instant as errors show it.
func clock(at int64) string { return time.UnixMicro(at).UTC().Format("2006-01-02T15:04:05.000Z") }

// ResumeLimit lifts a person's pause and the API's.
func (s *Store) ResumeLimit(ctx context.Context, name string) error {
	return s.change(ctx, name, func(tx Tx, l *loadedLimit, now int64) error {
		until, _, _ := l.State.Paused(now)
		l.State.Resume()
		if until == 0 {
			return nil
		}
		return note(tx, now, store.NoteLimit+name, "resumed")
	})
}

// change changes one limit's state and lets its gates look again.
func (s *Store) change(ctx context.Context, name string, fn func(tx Tx, l *loadedLimit, now int64) error) error {
	if strings.HasSuffix(name, "/*") {
		return fmt.Errorf("limit %q is a pattern: name one of its keys, or set the pattern to \"paused\"", name)
	}
	return s.db.Update(ctx, func(tx Tx) error {
		ls := newLimits(tx)
		l, err := ls.get(name)
		if err != nil {
			return err
		}
		if !l.Known {
			return unknownLimit(tx, name)
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if err := fn(tx, l, now); err != nil {
			return err
		}
		l.changed = true
		if err := ls.save(); err != nil {
			return err
		}
		return loosened(tx, name, now)
	})
}

// Observe applies observations that belong to no job.
func (s *Store) Observe(ctx context.Context, obs []store.Observed) error {
	return s.db.Update(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		e := ender{tx: tx, now: now, limits: newLimits(tx)}
		if err := e.observe(0, obs); err != nil {
			return err
		}
		return e.limits.save()
	})
}

// Limit returns one limit.
func (s *Store) Limit(ctx context.Context, name string) (info store.LimitInfo, err error) {
	if err := s.catchUp(ctx); err != nil {
		return info, err
	}
	err = s.db.View(ctx, func(tx Tx) error {
		info, err = limitInfo(tx, name)
		return err
	})
	return info, err
}

// ListLimits returns limits in name order: declared ones, and keys in use.
func (s *Store) ListLimits(ctx context.Context, after string, n int) (out []store.LimitInfo, err error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	err = s.db.View(ctx, func(tx Tx) error {
		out = nil
		rows, err := tx.LimitRows(after, n)
		if err != nil {
			return err
		}
		names, err := tx.LimitStates(after, n)
		if err != nil {
			return err
		}
		for _, r := range rows {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		names = names[:min(n, len(names))]
		if err := tx.Ahead(Ahead{Limits: names}); err != nil {
			return err
		}
		for _, name := range names {
			info, err := limitInfo(tx, name)
			if err != nil {
				return err
			}
			out = append(out, info)
		}
		return nil
	})
	return out, err
}

func limitInfo(tx Tx, name string) (store.LimitInfo, error) {
	row, ok, err := configOf(tx, name)
	if err != nil {
		return store.LimitInfo{}, err
	}
	if !ok {
		return store.LimitInfo{}, unknownLimit(tx, name)
	}
	l, err := newLimits(tx).get(name)
	if err != nil {
		return store.LimitInfo{}, err
	}
	return store.LimitInfo{Name: name, Declared: row.Declared, Set: row.Set, Spec: l.Spec, State: l.State}, nil
}

// checkLimitName accepts names, keyed names and patterns "name/*".
func checkLimitName(name string) error {
	base := strings.TrimSuffix(name, "/*")
	switch {
	case base == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r"):
		return fmt.Errorf("limit name %q: expected 1 to %d bytes of text, as in stripe, shopify/shop-17 or shopify/*", name, maxName)
	case strings.HasSuffix(name, "/*") && strings.Contains(base, "/"):
		return fmt.Errorf("limit pattern %q: expected NAME/*; the key is all that follows the first slash", name)
	}
	return nil
}
