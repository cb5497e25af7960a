package limit

import (
	"errors"
	"fmt"
)

// SpecError is a fault in a spec.
type SpecError struct {
	Part string // the part at fault, such as "0/s"
	Text string // what was expected, what came, what to do
}

func (e *SpecError) Error() string { return fmt.Sprintf("limit %q: %s", e.Part, e.Text) }

// CostError is a cost that a spec can never grant.
type CostError struct {
	Cost int64
	Max  int64  // the largest cost that would pass
	Rate string // the rate that refuses; empty if the cost itself is no number of permits
}

func (e *CostError) Error() string {
	if e.Rate == "" {
		return fmt.Sprintf("cost: expected a whole number from 1 to %d, got %d", e.Max, e.Cost)
	}
	return fmt.Sprintf("cost: %d permits can never be free at once under %s; expected at most %d: lower the cost or raise the limit", e.Cost, e.Rate, e.Max)
}

// Validate reports every fault of the spec at once, each a *SpecError. A spec
// that Parse returned is valid.
func (sp Spec) Validate() error {
	var errs []error
	fault := func(part, format string, a ...any) {
		errs = append(errs, &SpecError{Part: part, Text: fmt.Sprintf(format, a...)})
	}
	if len(sp.Rates) > maxRates {
		fault(sp.String(), "expected at most %d rates, got %d", maxRates, len(sp.Rates))
	}
	if sp.InFlight < 0 || sp.InFlight > MaxN {
		fault(fmt.Sprintf("%d in flight", sp.InFlight), "expected a number of calls from 1 to %d", MaxN)
	}
	paced := sp.shortest()
	for i, r := range sp.Rates {
		if text := r.fault(); text != "" {
			fault(r.String(), "%s", text)
			continue
		}
		n, w := r.Limit()
		switch {
		case r.Burst == 0:
		case r.Burst < 0:
			fault(r.String(), "expected a burst of at least 1, got %d", r.Burst)
		case r.Burst > n:
			fault(r.String(), "expected a burst of at most %d, the permits of one window, got %d", n, r.Burst)
		case r.Calendar != Rolling || w > pacedUpTo || i != paced:
			fault(r.String(), "a burst belongs to the shortest window, of at most a minute: only that is paced. Take the burst away, or add a short rate that has it, such as 5/s burst 2")
		}
		for _, o := range sp.Rates[:i] {
			_, ow := o.Limit()
			if o.Calendar == r.Calendar && o.Zone == r.Zone && ow == w {
				fault(r.String(), "expected one rate per window, but %s is there too: keep the smaller one", o)
			}
		}
	}
	return errors.Join(errs...)
}

// fault says what is wrong with the rate itself, or "".
func (r Rate) fault() string {
	switch {
	case r.N == 0:
		return "expected a number of permits above 0; to let nothing through write paused"
	case r.N < 0 || r.N > MaxN:
		return fmt.Sprintf("expected a number of permits above 0 and at most %d", MaxN)
	case r.Decimals < 0 || r.Decimals > maxDecimals:
		return fmt.Sprintf("expected at most %d digits after the point", maxDecimals)
	}
	switch r.Calendar {
	case Rolling:
		if r.Zone != "" {
			return fmt.Sprintf("expected a zone only on a day or a month, got %q: write for example 10000/day@%s", r.Zone, r.Zone)
		}
		if r.Window < MinWindow {
			return fmt.Sprintf("expected a window of at least %v: write it as a number per second, such as 1000/s", MinWindow)
		}
		if r.Window > MaxWindow {
			return fmt.Sprintf("expected a window of at most %s", windowText(MaxWindow))
		}
		if r.Window%1000 != 0 {
			return "expected a window in whole microseconds"
		}
		if _, w := r.Limit(); w > MaxWindow || w < MinWindow {
			return fmt.Sprintf("expected a rate of at least one permit in %s, and a window of at least %v for its whole permits", windowText(MaxWindow), MinWindow)
		}
	case Day, Month:
		if r.Window != 0 {
			return "expected no window on a calendar quota: its length is that of the day or month"
		}
		if r.Decimals != 0 {
			return "expected a whole number of permits for a calendar quota"
		}
		if _, err := loadZone(r.Zone); err != nil {
			return err.Error()
		}
	default:
		return fmt.Sprintf("expected a rolling window, a day or a month, got calendar %d", r.Calendar)
	}
	return ""
}

// CheckCost tells whether an ask of this cost can ever pass. The error is a
// *CostError: the cost is below 1, or above the permits of a rate. The
// in-flight cap does not matter: it counts calls, not cost.
func (sp Spec) CheckCost(cost int64) error {
	if cost < 1 || cost > MaxN {
		return &CostError{Cost: cost, Max: MaxN}
	}
	for _, r := range sp.Rates {
		if n, _ := r.Limit(); cost > n {
			return &CostError{Cost: cost, Max: n, Rate: r.String()}
		}
	}
	return nil
}
