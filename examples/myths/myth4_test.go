package myths

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/penstocktest"
)

// Myth 4: a 429 is a failure, so count it as one. In a busy half hour the usual
// way buries jobs that nothing is wrong with. Both runs are Penstock's; they
// differ only in what the handler says about a 429.
func TestMyth4_ABusyHalfHourKillsNoJob(t *testing.T) {
	const jobs, minutes = 200, 40
	run := func(says func(wait time.Duration) error) (done, dead []float64, all []penstock.JobInfo, calls []apisim.Call) {
		virtual(t, func(t *testing.T) {
			api := newAPI(t, apisim.Config{Algorithm: apisim.Sliding, Limit: 10, PausedUntil: time.Now().Add(30 * time.Minute)})
			c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half})
			handle(t, c, "send", func(ctx context.Context, _ *penstock.RawJob) error {
				if status, wait := call(ctx, api); status == 429 {
					return says(wait)
				}
				return nil
			}, penstock.Kind{Limits: penstock.Draws("api")})
			enqueue(t, c, "send", jobs)
			begun := time.Now().UnixMicro()
			drain(t, c, penstock.WorkOptions{})
			all, calls = allJobs(t, c), api.Log()
			done, dead = make([]float64, minutes), make([]float64, minutes)
			for _, job := range all {
				minute := min((job.FinishedAt-begun)/time.Minute.Microseconds(), minutes-1)
				if job.State == penstock.Dead {
					dead[minute]++
				} else {
					done[minute]++
				}
			}
		})
		return sums(done), sums(dead), all, calls
	}
	_, usualDead, _, _ := run(func(time.Duration) error { return errors.New("429 Too Many Requests") })
	ourDone, ourDead, all, calls := run(penstock.RateLimited) // the API does not say how long

	if n := usualDead[1]; n != jobs {
		t.Errorf("%v jobs are dead after two minutes where a 429 counts as a failure, expected all %d", n, jobs)
	}
	if done, dead := ourDone[minutes-1], ourDead[minutes-1]; done != jobs || dead != 0 {
		t.Errorf("%v jobs are done and %v dead with Penstock, expected %d and none", done, dead, jobs)
	}
	for _, job := range all {
		if job.Attempts != 0 {
			t.Errorf("job %d lost %d attempts to refusals", job.ID, job.Attempts)
		}
	}
	// Half an hour of pauses that double up to a minute: few calls ask whether it is over.
	if n := apisim.Refused(calls); n < 30 || n > 40 {
		t.Errorf("the API refused %d calls of Penstock in half an hour, expected about 35", n)
	}
	for i := 1; i < len(calls); i++ {
		if calls[i-1].Refused && calls[i].Refused && calls[i].At-calls[i-1].At < 500*time.Millisecond {
			t.Errorf("two calls asked at a time, at %v", calls[i].At)
		}
	}
	expectPlot(t, "myth-4", panel{title: "200 jobs, an API that is too busy for half an hour", xName: "minutes", dx: 1,
		series: []series{{"dead, where a 429 counts as a failure", red, usualDead}, {"done, with Penstock", blue, ourDone}, {"dead, with Penstock", grey, ourDead}}})
}
