package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// drawList is what --limit and --cost give in their order: a cost is that of the
// limit before it.
type drawList struct {
	draws []penstock.Draw
	specs map[string]limit.Spec // of those that are given as NAME=SPEC
	costs map[string]bool
}

// add gives a command the two options.
func (l *drawList) add(o *pflag.FlagSet, usage string) {
	l.specs, l.costs = map[string]limit.Spec{}, map[string]bool{}
	o.Var((*limitValue)(l), "limit", usage)
	o.Var((*costValue)(l), "cost", "permits to take of the --limit before it (default 1)")
}

type limitValue drawList

// String implements pflag.Value.
func (l *limitValue) String() string { return "" }

// Type implements pflag.Value.
func (l *limitValue) Type() string { return "NAME[=SPEC]" }

// Set implements pflag.Value.
func (l *limitValue) Set(text string) error {
	name, spec, given := strings.Cut(text, "=")
	if name == "" {
		return fmt.Errorf("expected NAME, or NAME=SPEC to declare it, got %q", text)
	}
	if _, err := limit.Parse(name); err == nil && !given && strings.Contains(name, "/") {
		return fmt.Errorf("expected a name, got what looks like a spec, %q: write NAME=%s", text, text)
	}
	for _, d := range l.draws {
		if d.Limit == name {
			return fmt.Errorf("%s is given twice", name)
		}
	}
	if _, twice := l.specs[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	if given {
		sp, err := limit.Parse(spec)
		if err != nil {
			return oneLine(err)
		}
		l.specs[name] = sp
	}
	if strings.HasSuffix(name, "/*") {
		if !given {
			return fmt.Errorf("%s stands for all its keys: name one, or write %[1]s=SPEC to declare them", name)
		}
		return nil // a pattern is declared, and not drawn on
	}
	l.draws = append(l.draws, penstock.Draw{Limit: name, Cost: 1})
	return nil
}

type costValue drawList

// String implements pflag.Value.
func (l *costValue) String() string { return "" }

// Type implements pflag.Value.
func (l *costValue) Type() string { return "N" }

// Set implements pflag.Value.
func (l *costValue) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("expected a number of permits, at least 1, got %q", text)
	}
	if len(l.draws) == 0 {
		return errors.New("it stands behind the --limit that it belongs to")
	}
	d := &l.draws[len(l.draws)-1]
	if l.costs[d.Limit] {
		return fmt.Errorf("the cost of %s is given twice", d.Limit)
	}
	l.costs[d.Limit], d.Cost = true, n
	return nil
}

// declare makes known what was given as NAME=SPEC.
func (l *drawList) declare(ctx context.Context, c *penstock.Client) error {
	for _, name := range sortedNames(l.specs) {
		if err := c.DeclareLimit(ctx, name, l.specs[name].String()); err != nil {
			if !isStoreFailure(err) && ctx.Err() == nil { // what is wrong is the name
				err = inputf("%v", oneLine(err))
			}
			return err
		}
	}
	return nil
}

// check says which limit is not declared, or can never grant its cost. Other
// errors are the store's.
func (l *drawList) check(ctx context.Context, c *penstock.Client) error {
	for _, d := range l.draws {
		info, err := c.LimitByName(ctx, d.Limit)
		var unknown *store.UnknownLimitError
		switch {
		case errors.As(err, &unknown):
			return inputf("%s", undeclared(unknown))
		case errors.Is(err, store.ErrNotFound):
			return inputf("%s", undeclared(&store.UnknownLimitError{Name: d.Limit}))
		case err != nil:
			return err
		}
		if err := info.Spec.CheckCost(d.Cost); err != nil {
			return inputf("limit %q: %v", d.Limit, err)
		}
	}
	return nil
}

func undeclared(e *store.UnknownLimitError) string {
	switch hint := e.Hint(); {
	case hint == "":
		return fmt.Sprintf("limit %q is not declared: write %s=SPEC to declare it, as in %[2]s=5/s", e.Name, e.Name)
	case strings.HasSuffix(hint, "?"):
		return fmt.Sprintf("limit %q is not declared; %s Write NAME=SPEC to declare a new one", e.Name, hint)
	default:
		return fmt.Sprintf("limit %q is not declared; %s; write NAME=SPEC to declare a new one", e.Name, hint)
	}
}
