package penstock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
)

// TestE2_FarDelays: delays beyond 24.8 days overflowed a timer and ran at once
// (OptimalBits/bull#244, vercel/workflow#824).
func TestE2_FarDelays(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		const day = 24 * time.Hour
		ran := map[time.Duration]time.Duration{}
		begun := time.Now()
		handle(t, c, "k", penstock.Kind{}, func(_ context.Context, j *penstock.Job[time.Duration]) error {
			ran[j.Args] = time.Since(begun)
			return nil
		})
		delays := []time.Duration{24 * day, 25 * day, 60 * day, 400 * day}
		for _, d := range delays {
			enqueue(t, c, "k", d, penstock.Delay(d))
		}
		for _, d := range delays { // a worker is restarted shortly before each is due
			pass(time.Until(begun.Add(d - time.Minute)))
			stop := working(t, c, penstock.WorkOptions{})
			pass(2 * time.Minute)
			stop()
		}
		for _, d := range delays {
			if ran[d] < d || ran[d] > d+time.Second {
				t.Errorf("delayed by %v, ran after %v", d, ran[d])
			}
		}
		id := enqueue(t, c, "k", time.Duration(0), penstock.Delay(1<<63-1)) // 292 years
		if j := job(t, c, id); j.State != store.Waiting || time.Until(time.UnixMicro(j.At)) < 290*365*day {
			t.Errorf("%v, due %v", j.State, time.UnixMicro(j.At))
		}
		for _, o := range []penstock.EnqueueOption{
			penstock.Delay(-time.Second), penstock.Spread(-1), penstock.RunAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
			penstock.RunAt(time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC)), penstock.ExpiresIn(-1),
		} {
			if _, err := c.Enqueue(t.Context(), "k", time.Duration(0), o); err == nil {
				t.Errorf("accepted %#v", o)
			}
		}
	})
}

// TestE4_AttemptsAreCounted: killed workers spent attempts, or a maximum of one
// ran twice (hibiken/asynq#1015, contribsys/faktory#409).
func TestE4_AttemptsAreCounted(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c := newClient(t, penstock.Config{})
				var seen calls
				handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
					seen.note("call")
					return errors.New("status 500")
				})
				id := enqueue(t, c, "k", 1, penstock.Attempts(attempts))
				drain(t, c, penstock.WorkOptions{})
				wantState(t, c, id, store.Dead, store.Exhausted)
				if n := seen.count("call"); n != attempts {
					t.Errorf("%d calls, want %d", n, attempts)
				}
			})
		})
	}
	t.Run("stopped in the middle", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			c := newClient(t, penstock.Config{})
			healthy := false
			handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
				if !healthy {
					<-ctx.Done()
				}
				return ctx.Err()
			})
			id := enqueue(t, c, "k", 1, penstock.Attempts(1))
			stop := working(t, c, penstock.WorkOptions{Grace: time.Second})
			pass(time.Second)
			stop()
			if j := wantState(t, c, id, store.Waiting, ""); j.Attempts != 0 {
				t.Errorf("%d attempts were counted", j.Attempts)
			}
			healthy = true
			drain(t, c, penstock.WorkOptions{})
			wantState(t, c, id, store.Done, "")
		})
	})
}

// TestE5_WaitingForALimitIsNoFailure: being over the limit was treated as an
// error, with its back-off (bensheldon/good_job#1353, taskforcesh/bullmq#1571).
func TestE5_WaitingForALimitIsNoFailure(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "12/m"}})
		var seen calls
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api"), Retry: retry.Policy{MaxAttempts: 3}},
			func(context.Context, *penstock.Job[int]) error {
				seen.note("call")
				return nil
			})
		var ids []int64
		for i := range 200 {
			ids = append(ids, enqueue(t, c, "call", i))
		}
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{})
		// 200 at 12 a minute, spaced for the guard (5 % of a minute, at most half a second).
		if d := time.Since(begun); d < 16*time.Minute || d > 18*time.Minute {
			t.Errorf("took %v, want about 17m", d)
		}
		for _, id := range ids {
			if j := wantState(t, c, id, store.Done, ""); j.Attempts != 0 || j.Starts != 1 || j.Error != "" {
				t.Errorf("job %d: %d attempts, %d starts, error %q", id, j.Attempts, j.Starts, j.Error)
			}
		}
		noWindowAbove(t, seen.of("call"), 12, time.Minute)
	})
}

// noWindowAbove checks that no window of the length holds more than n instants.
func noWindowAbove(t *testing.T, at []time.Time, n int, window time.Duration) {
	t.Helper()
	for i := n; i < len(at); i++ {
		if d := at[i].Sub(at[i-n]); d < window {
			t.Errorf("calls %d to %d lie within %v, the limit is %d in %v", i-n, i, d, n, window)
			return
		}
	}
}

// TestE6_RetriesSpread: jobs that fail together retried together
// (sidekiq/sidekiq#480, rails/rails#31872).
func TestE6_RetriesSpread(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		begun := time.Now()
		perSecond := map[[2]int]int{} // attempt, second
		handle(t, c, "k", penstock.Kind{Retry: retry.Policy{MaxAttempts: 9}}, func(_ context.Context, j *penstock.Job[int]) error {
			if j.Attempts > 0 {
				perSecond[[2]int{j.Attempts, int(time.Since(begun) / time.Second)}]++
			}
			if time.Since(begun) < time.Minute {
				return errors.New("outage")
			}
			return nil
		})
		for i := range 500 {
			enqueue(t, c, "k", i)
		}
		drain(t, c, penstock.WorkOptions{Concurrency: 1})
		for at, n := range perSecond {
			// After 4 failures the step is 8 s, spread over 4 s and more by the
			// earlier ones; then 16 s over 8 s, and so on. Half as much again is luck.
			most := map[int]int{1: 500, 2: 500, 3: 375, 4: 190}[at[0]]
			if n > max(most, 95) {
				t.Errorf("second %d holds %d of 500 retries after %d failures", at[1], n, at[0])
			}
		}
	})
}

// TestE7_PermanentIsPermanent: 401, 404 and 422 were retried to exhaustion, or
// swallowed, or a 429 was taken as permanent (friggframework/frigg#566).
func TestE7_PermanentIsPermanent(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "100/s"}})
		var seen calls
		k := penstock.Kind{Limits: penstock.Draws("api"), Timeout: time.Second, Classify: func(err error) error {
			if err.Error() == "status 422" {
				return penstock.Permanent(err)
			}
			return nil
		}}
		handle(t, c, "call", k, func(ctx context.Context, j *penstock.Job[int]) error {
			first := seen.note(fmt.Sprint(j.Args)) == 1
			switch m := j.Args % 10; {
			case m < 2:
				return penstock.Permanent(errors.New("status 401"))
			case m < 4:
				return fmt.Errorf("send: %w", penstock.Permanent(errors.New("status 404")))
			case m < 6:
				return errors.New("status 422")
			case m < 8 && first:
				return fmt.Errorf("send: %w", penstock.RateLimited(time.Second))
			case m == 8 && first:
				return errors.New("status 500")
			case m == 9 && first:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		var ids []int64
		for i := range 1000 {
			ids = append(ids, enqueue(t, c, "call", i))
		}
		drain(t, c, penstock.WorkOptions{})
		for i, id := range ids {
			if i%10 < 6 {
				wantState(t, c, id, store.Dead, store.Rejected)
				if n := seen.count(fmt.Sprint(i)); n != 1 {
					t.Errorf("job %d was called %d times", i, n)
				}
			} else {
				wantState(t, c, id, store.Done, "")
			}
		}
	})
}

// TestE8_InstantsHaveNoZone: due times were off by the zone's offset
// (celery/celery#2306, coleifer/huey#215).
func TestE8_InstantsHaveNoZone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		begun := time.Now()
		ran := map[string]time.Duration{}
		handle(t, c, "k", penstock.Kind{}, func(_ context.Context, j *penstock.Job[string]) error {
			ran[j.Args] = time.Since(begun)
			return nil
		})
		london, err := time.LoadLocation("Europe/London")
		if err != nil {
			t.Fatal(err)
		}
		kolkata := time.FixedZone("IST", 5*3600+1800)
		enqueue(t, c, "k", "delay", penstock.Delay(10*time.Second))
		enqueue(t, c, "k", "london", penstock.RunAt(begun.Add(30*time.Minute).In(london)))
		enqueue(t, c, "k", "kolkata", penstock.RunAt(begun.Add(40*time.Minute).In(kolkata)))
		enqueue(t, c, "k", "past", penstock.RunAt(begun.Add(-time.Hour).In(kolkata)))
		repeated := time.Date(2000, 10, 29, 1, 30, 0, 0, london).Add(time.Hour) // the second 01:30 of that night
		enqueue(t, c, "k", "repeated hour", penstock.RunAt(repeated))
		stop := working(t, c, penstock.WorkOptions{})
		pass(time.Hour)
		stop()
		pass(time.Until(repeated.Add(-time.Minute)))
		drain(t, c, penstock.WorkOptions{})
		for what, want := range map[string]time.Duration{
			"delay": 10 * time.Second, "london": 30 * time.Minute, "kolkata": 40 * time.Minute, "past": 0, "repeated hour": repeated.Sub(begun),
		} {
			if got := ran[what]; got < want || got > want+2*time.Second {
				t.Errorf("%s ran after %v, want %v", what, got, want)
			}
		}
	})
}
