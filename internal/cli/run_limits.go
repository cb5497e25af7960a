package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// limitBook knows the limits that the lines of a run draw on. What the options
// say of a limit that other runs may be using takes hold only when the whole
// file is known to be good; a limit that nobody has yet is declared at once,
// since calls can only be stored if their limits exist.
type limitBook struct {
	client *penstock.Client
	plan   *runPlan
	uses   map[string]*limitUse
	given  map[string]bool // names and patterns of --limit that a line drew on
}

type limitUse struct {
	spec     limit.Spec  // that will be in force
	declare  *limit.Spec // still to be declared
	stored   limit.Spec  // in force now
	override bool        // a person's word, which options do not change
	host     bool
	known    bool   // from before: no option says anything of it
	before   string // the spec that an option changes, for all who share the database
}

// forgetAfter bounds the memory of keyed limits, of which there may be many.
const forgetAfter = 100_000

func newLimitBook(c *penstock.Client, p *runPlan) *limitBook {
	return &limitBook{client: c, plan: p, uses: map[string]*limitUse{}, given: map[string]bool{}}
}

// draw checks that a call can draw cost permits from a limit, and sees to it
// that it exists. A *store.UnknownLimitError or a *limit.CostError is the line's
// fault; other errors are the store's.
func (b *limitBook) draw(ctx context.Context, name string, cost int64, host bool) error {
	u := b.uses[name]
	if u == nil {
		var err error
		if u, err = b.look(ctx, name, host); err != nil {
			return err
		}
		if len(b.uses) >= forgetAfter {
			b.forgetKeys()
		}
		b.uses[name] = u
	}
	u.host = u.host || host
	if err := u.spec.CheckCost(cost); err != nil {
		return fmt.Errorf("limit %q: %w", name, err)
	}
	if u.declare != nil && u.stored.CheckCost(cost) != nil {
		return b.declare(ctx, name, u)
	}
	return nil
}

// look asks the store about a limit.
func (b *limitBook) look(ctx context.Context, name string, host bool) (*limitUse, error) {
	wanted, from := b.wanted(name, host)
	b.given[from] = true
	info, err := b.client.LimitByName(ctx, name)
	var unknown *store.UnknownLimitError
	switch {
	case errors.As(err, &unknown) || errors.Is(err, store.ErrNotFound):
		if wanted == nil && host {
			wanted, from = &limit.Spec{}, name
		}
		if wanted == nil {
			return nil, b.unknown(name, unknown)
		}
		u := &limitUse{spec: *wanted, declare: wanted, host: host}
		return u, b.declare(ctx, from, u)
	case err != nil:
		return nil, err
	}
	u := &limitUse{spec: info.Spec, stored: info.Spec, override: info.Set != "", host: host, known: wanted == nil}
	if wanted != nil && info.Declared != wanted.String() {
		if u.declare = wanted; !u.override {
			u.spec, u.before = *wanted, info.Spec.String()
		}
	}
	return u, nil
}

// wanted is what the options say of a limit, and under which name.
func (b *limitBook) wanted(name string, host bool) (spec *limit.Spec, from string) {
	if s, ok := b.plan.namedLimits[name]; ok {
		return &s, name
	}
	if base, _, keyed := strings.Cut(name, "/"); keyed {
		if s, ok := b.plan.namedLimits[base+"/*"]; ok {
			return &s, base + "/*"
		}
	}
	if host {
		return b.plan.hostLimit, name
	}
	return nil, ""
}

// unknown says that a limit does not exist, with the name that looks most like it.
func (b *limitBook) unknown(name string, stored *store.UnknownLimitError) error {
	var names []string
	for n := range b.plan.namedLimits {
		names = append(names, n)
	}
	slices.Sort(names)
	if stored != nil {
		names = append(names, stored.Nearest...)
		if stored.Pattern != "" {
			names = append(names, stored.Pattern)
		}
	}
	if hint := store.UnknownLimit(name, names).Hint(); hint != "" {
		return badLimit{fmt.Errorf("limit %q is not declared; %s", name, hint)}
	}
	return badLimit{fmt.Errorf("limit %q is not declared: give --limit '%s=SPEC'", name, name)}
}

// badLimit is a line's fault.
type badLimit struct{ error }

// faultOfLine tells a line's fault from a failure of the store.
func faultOfLine(err error) bool {
	var cost *limit.CostError
	var bad badLimit
	return errors.As(err, &cost) || errors.As(err, &bad)
}

func (b *limitBook) declare(ctx context.Context, name string, u *limitUse) error {
	spec := *u.declare
	if err := b.client.DeclareLimit(ctx, name, spec.String()); err != nil {
		return err
	}
	u.stored, u.declare = spec, nil
	return nil
}

// apply declares what is still to be declared.
func (b *limitBook) apply(ctx context.Context) error {
	for name, u := range b.uses {
		if _, from := b.wanted(name, u.host); u.declare != nil && from == name {
			if err := b.declare(ctx, name, u); err != nil {
				return err
			}
		}
	}
	for name, spec := range b.plan.namedLimits {
		if b.uses[name] == nil { // a pattern, or not drawn on by any line
			if err := b.client.DeclareLimit(ctx, name, spec.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetKeys drops the keyed limits, which are read again when they come back.
func (b *limitBook) forgetKeys() {
	for name, u := range b.uses {
		if !u.host && strings.Contains(name, "/") {
			delete(b.uses, name)
		}
	}
}

// names are the limits in use, hosts first, at most n.
func (b *limitBook) names(n int) []string {
	var hosts, others []string
	for name, u := range b.uses {
		if u.host {
			hosts = append(hosts, name)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(hosts)
	slices.Sort(others)
	all := append(hosts, others...)
	return all[:min(n, len(all))]
}

// hosts is how many hosts the calls go to.
func (b *limitBook) hosts() int {
	n := 0
	for _, u := range b.uses {
		if u.host {
			n++
		}
	}
	return n
}
