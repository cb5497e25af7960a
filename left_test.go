package penstock_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/limit/header"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// hourly is a base transport to an API that takes so many calls an hour, by its
// own clock, and says what is left. It refuses none and counts those too many.
type hourly struct {
	mu    sync.Mutex
	most  int
	hour  time.Time
	used  int
	calls int
	over  int
}

func (a *hourly) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if hour := now.Truncate(time.Hour); hour != a.hour {
		a.hour, a.used = hour, 0
	}
	a.calls++
	if a.used++; a.used > a.most {
		a.over++
	}
	h := http.Header{}
	if r.URL.Host == "api.test" {
		h.Set("X-RateLimit-Limit", strconv.Itoa(a.most))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, a.most-a.used)))
		h.Set("X-RateLimit-Reset", strconv.FormatFloat(a.hour.Add(time.Hour).Sub(now).Seconds(), 'f', 3, 64))
	} else if r.URL.Host == "other.test" {
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-RateLimit-Reset", "600")
	}
	return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func get(ctx context.Context, base http.RoundTripper, host string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		return nil, err
	}
	answer, err := base.RoundTrip(r)
	if err == nil {
		err = answer.Body.Close()
	}
	return answer, err
}

// observing counts the observations that come with outcomes.
type observing struct {
	store.Store
	mu   sync.Mutex
	seen []store.Observed
}

func (o *observing) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	o.mu.Lock()
	for _, f := range fs {
		o.seen = append(o.seen, f.Observations...)
	}
	o.mu.Unlock()
	return o.Store.Finish(ctx, fs)
}

// A limit of 10 a second over an API that takes 100 an hour: the headers of
// accepted calls stop it in time, whoever reads them.
func TestALimitStopsBeforeTheAPIRefuses(t *testing.T) {
	for name, read := range map[string]func(context.Context, http.RoundTripper) error{
		"Transport": func(ctx context.Context, api http.RoundTripper) error {
			_, err := get(ctx, penstock.Transport(api), "api.test")
			return err
		},
		"Transport, another host says nothing": func(ctx context.Context, api http.RoundTripper) error {
			if _, err := get(ctx, penstock.Transport(api), "api.test"); err != nil {
				return err
			}
			_, err := get(ctx, penstock.Transport(&hourly{}), "silent.test")
			return err
		},
		"ObserveHeaders": func(ctx context.Context, api http.RoundTripper) error {
			answer, err := get(ctx, api, "api.test")
			if err != nil {
				return err
			}
			return penstock.ObserveHeaders(ctx, "", header.Read(answer.StatusCode, answer.Header, nil, time.Now()))
		},
		"ObserveHeaders, by name": func(ctx context.Context, api http.RoundTripper) error {
			answer, err := get(ctx, api, "api.test")
			if err != nil {
				return err
			}
			return penstock.ObserveHeaders(ctx, "api", header.Read(answer.StatusCode, answer.Header, nil, time.Now()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				api := &hourly{most: 100}
				c := newClient(t, penstock.Config{Limits: map[string]string{"slots": "20 in flight", "api": "10/s"}})
				handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("slots", "api")}, func(ctx context.Context, _ *penstock.Job[int]) error {
					<-time.After(50 * time.Millisecond)
					return read(ctx, api)
				})
				for i := range 250 {
					enqueue(t, c, "call", i)
				}
				begun := time.Now()
				drain(t, c, penstock.WorkOptions{})
				if api.calls != 250 || api.over != 0 {
					t.Errorf("%d calls, %d more than the API takes", api.calls, api.over)
				}
				if d := time.Since(begun); d < 2*time.Hour || d > 3*time.Hour {
					t.Errorf("250 calls at 100 an hour took %v", d)
				}
				info, err := c.LimitByName(t.Context(), "api")
				if err != nil {
					t.Fatal(err)
				}
				if n := len(info.Spec.Rates); n != 1 || info.State.Guard(info.Spec) > 60*time.Millisecond {
					t.Errorf("the guard is %v, though nothing was refused", info.State.Guard(info.Spec))
				}
				if l, ok := info.State.Left(time.Now().UnixMicro()); !ok || l.Of != 100 {
					t.Errorf("left: %+v %v", l, ok)
				}
			})
		})
	}
}

// What is plenty is not stored: the outcome goes the short way. Once little was
// left, the first answer that says otherwise is.
func TestPlentyLeftIsNotStored(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := &observing{Store: memory.New(memory.Options{})}
		c := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		left := []int64{90000, 89999, 5, 89997, 89996}
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(ctx context.Context, j *penstock.Job[int]) error {
			now := penstock.Micros(time.Now())
			return penstock.Observe(ctx, "api", penstock.Observation{LeftKnown: true, Left: left[j.Args], Whole: 100000, ResetAt: now + 3_600_000_000})
		})
		for i := range left {
			enqueue(t, c, "call", i)
			drain(t, c, penstock.WorkOptions{})
		}
		if len(st.seen) != 2 || st.seen[0].Left != 5 || st.seen[1].Left != 89997 {
			t.Errorf("stored: %+v", st.seen)
		}
		info, err := c.LimitByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixMicro()
		if at, why := info.State.Earliest(info.Spec, limit.Ask{Cost: 1}, now+1_000_000); at > now+1_000_000 {
			t.Errorf("it still waits for what was said before: %v", why)
		}
	})
}

// Where a handler calls several APIs that say what is left, nobody knows whose
// limit it is about.
func TestLeftOfSeveralHostsIsNobodys(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := &observing{Store: memory.New(memory.Options{})}
		c := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		api := penstock.Transport(&hourly{most: 3})
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(ctx context.Context, j *penstock.Job[int]) error {
			for _, host := range []string{"api.test", "other.test"} {
				if _, err := get(ctx, api, host); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range 5 {
			enqueue(t, c, "call", i)
		}
		drain(t, c, penstock.WorkOptions{})
		if len(st.seen) != 0 {
			t.Errorf("stored: %+v", st.seen)
		}
	})
}

// A permit without a job says it the same way.
func TestPermitTellsWhatIsLeft(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		p, err := c.Acquire(t.Context(), penstock.Draw{Limit: "api", Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		reset := time.Now().Add(time.Hour)
		p.Observe("api", penstock.Observation{LeftKnown: true, ResetAt: penstock.Micros(reset)})
		if err := p.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err = c.Acquire(t.Context(), penstock.Draw{Limit: "api", Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if now := time.Now(); now.Before(reset) {
			t.Errorf("the next permit came %v before the reset", reset.Sub(now))
		}
		if err := p.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A limit that waits for a reset goes on at once when a later answer says that
// there is more.
func TestMoreLeftOpensTheLimit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s burst 1"}})
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(ctx context.Context, j *penstock.Job[int]) error {
			o := penstock.Observation{LeftKnown: true, Left: 4000, Whole: 5000, ResetAt: penstock.Micros(time.Now().Add(time.Hour))}
			switch j.Args {
			case 0:
				<-time.After(300 * time.Millisecond)
				o.Left = 0
			case 1:
				<-time.After(2 * time.Second)
			}
			return penstock.Observe(ctx, "api", o)
		})
		for i := range 10 {
			enqueue(t, c, "call", i)
		}
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{})
		if d := time.Since(begun); d < 2*time.Second || d > 5*time.Second {
			t.Errorf("ten calls took %v, the second said after 2 s that there is more", d)
		}
	})
}
