package penstock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstockhq/penstock/limit"
)

// Defaults of a Config, used for each field that is zero.
const (
	DefaultMaxPayload = 1 << 20
	DefaultLease      = 15 * time.Second
	DefaultLostMax    = 3
)

// Config is how a client behaves. The zero value works.
type Config struct {
	// Logger gets one line per ended start, and what goes wrong. nil: slog.Default().
	Logger *slog.Logger
	// Limits are declared when the client is made: a name, or a pattern as
	// "shopify/*", and its spec, as "5/s". A spec that a person has set goes on
	// winning; see [Client.SetLimit].
	Limits map[string]string
	// OnDead is called for each job that this process makes a dead letter, after
	// that was stored. It runs apart from the worker's loops. A process that dies
	// in between does not call it, so it is for telling people, not for keeping
	// books. Its context ends after a minute, and at the end of Work after the grace.
	OnDead func(ctx context.Context, job JobInfo)
	// Middleware wraps every handler, the first one outermost.
	Middleware []Middleware
	// Random returns numbers in [0, 1) for jitter, spreading and weights. It must
	// be safe for concurrent use. nil: math/rand/v2.
	Random func() float64
	// MaxPayload is the longest payload in bytes that is taken; 0 means 1 MiB.
	MaxPayload int
	// Lease is how long a silent process keeps its jobs where the store cannot
	// see that it died; 0 means 15 s, at least 3 s. Heartbeats come three times
	// a lease.
	Lease time.Duration
	// LostMax is how often a job may lose its process, as the only suspect of
	// that process, before it is dead; 0 means 3.
	LostMax int
	// Adopt lets Open make a SQLite file that holds other tables a Penstock
	// database, too; see [Client.EnqueueTx].
	Adopt bool
}

// Validate reports every fault of the configuration at once, as one joined
// error, or nil.
func (c Config) Validate() error {
	var faults []error
	for _, name := range sortedKeys(c.Limits) {
		if _, err := limit.Parse(c.Limits[name]); err != nil {
			faults = append(faults, fmt.Errorf("limit %q: %w", name, err))
		}
		if name == "" {
			faults = append(faults, errors.New("a limit needs a name"))
		}
	}
	for i, m := range c.Middleware {
		if m == nil {
			faults = append(faults, fmt.Errorf("middleware %d is nil", i))
		}
	}
	if c.MaxPayload < 0 {
		faults = append(faults, fmt.Errorf("MaxPayload must be above 0 bytes (or 0 for the default, %d), got %d", DefaultMaxPayload, c.MaxPayload))
	}
	if c.Lease != 0 && c.Lease < 3*time.Second {
		faults = append(faults, fmt.Errorf("a lease must be at least 3s (or 0 for the default, %v), got %v", DefaultLease, c.Lease))
	}
	if c.LostMax < 0 {
		faults = append(faults, fmt.Errorf("LostMax must be at least 1 (or 0 for the default, %d), got %d", DefaultLostMax, c.LostMax))
	}
	return errors.Join(faults...)
}

// resolved returns the configuration with its defaults filled in.
func (c Config) resolved() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.LostMax == 0 {
		c.LostMax = DefaultLostMax
	}
	return c
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
