package myths

import (
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/penstocktest"
)

// Myth 6: the documented limit is the limit. The documents say 10 a second, the
// API takes 6. Where it says so in the headers of its answers, it need not refuse.
// Where it does not, Penstock waits as long as each refusal asks for, until a
// person sets the limit right while everything runs: no deploy, no restart.
func TestMyth6_TheLimitIsSetWhileItRuns(t *testing.T) {
	const shown, setAt = 60, 30
	silent := myth6(t, setAt, apisim.AnnounceNone)
	told := myth6(t, setAt, apisim.AnnounceExact)
	before, after, used := 0, 0, 0
	for _, c := range silent {
		switch {
		case !c.Refused && c.At >= (setAt+2)*time.Second && c.At < shown*time.Second:
			used++
		case c.Refused && c.At < setAt*time.Second:
			before++
		case c.Refused && c.At > (setAt+1)*time.Second:
			after++
		}
	}
	if before == 0 || after != 0 {
		t.Errorf("%d calls were refused before the limit was set right, %d after; expected some and none", before, after)
	}
	if all := 6 * (shown - setAt - 2); used < all*9/10 {
		t.Errorf("%d calls from two seconds after the limit was set right, of %d that the API takes; expected nine in ten", used, all)
	}
	accepts := 0
	for _, c := range told {
		if !c.Refused && c.At < setAt*time.Second {
			accepts++
		}
	}
	if n := apisim.Refused(told); n > 0 {
		t.Errorf("%d calls were refused by the API that says what is left, %d by the one that does not", n, before)
	}
	if accepts < 6*setAt*9/10 {
		t.Errorf("%d calls in %d s while the limit was wrong; the API takes %d", accepts, setAt, 6*setAt)
	}
	t.Logf("%d refused, %d where each answer says what is left", before, apisim.Refused(told))
	draw := func(title string, calls []apisim.Call) panel {
		return panel{title: title, xName: "seconds", dx: 1, limit: 6,
			series: []series{{"accepted", blue, perSecond(calls, shown, accepted)}, {"refused", red, perSecond(calls, shown, refused)}}}
	}
	expectPlot(t, "myth-6",
		draw("Calls each second to an API that takes 6, not 10; the limit is set at 30 s", silent),
		draw("The same where each answer says how many calls are left", told))
}

// myth6 makes 400 calls under a limit of 10 a second that is set to 6 on the way.
func myth6(t *testing.T, setAt time.Duration, says apisim.Announce) (calls []apisim.Call) {
	virtual(t, func(t *testing.T) {
		api := newAPI(t, apisim.Config{Algorithm: apisim.Sliding, Limit: 6, RetryAfter: apisim.RetryAfterExact, Announce: says, Latency: 20 * time.Millisecond})
		c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half})
		handle(t, c, "send", attentive(api), penstock.Kind{Limits: penstock.Draws("api")})
		enqueue(t, c, "send", 400)
		time.AfterFunc(setAt*time.Second, func() {
			if err := c.SetLimit(t.Context(), "api", "6/s"); err != nil {
				t.Error(err)
			}
		})
		drain(t, c, penstock.WorkOptions{Concurrency: 1}) // a call takes less time than the next one is away
		calls = api.Log()
		for _, job := range allJobs(t, c) {
			if job.State != penstock.Done || job.Attempts != 0 {
				t.Errorf("job %d is %v after %d attempts", job.ID, job.State, job.Attempts)
			}
		}
	})
	return calls
}
