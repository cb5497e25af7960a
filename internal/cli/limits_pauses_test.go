package cli

import (
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// A limit that a person and the API paused at once shows both pauses, each with its
// own end and cause, in lists and by itself; the one that ends last comes first.
func TestLimitsShowPausesAtOnce(t *testing.T) {
	const now = int64(1_800_000_000_000_000)
	paused := func(person, api time.Duration) *store.LimitInfo {
		l := &store.LimitInfo{Name: "api"}
		l.State.Observe(l.Spec, limit.Observation{At: now, Refused: true, RetryAt: now + api.Microseconds(), Reason: "status 429"}, 0)
		l.State.PauseByPerson(now, now+person.Microseconds(), "deploy")
		return l
	}
	for _, c := range []struct {
		info *store.LimitInfo
		by   string
		text string
	}{
		{paused(10*time.Minute, 2*time.Hour), "api", "paused by the API for 2h: status 429; paused by a person for 10m: deploy"},
		{paused(2*time.Hour, 10*time.Minute), "person", "paused by a person for 2h: deploy; paused by the API for 10m: status 429"},
	} {
		line := newLimitLine(c.info, 0, now)
		if got := line.state(now); got != c.text {
			t.Errorf("state is %q, want %q", got, c.text)
		}
		if line.Paused == nil || line.Paused.By != c.by || len(line.Pauses) != 2 || line.Pauses[0].Until == line.Pauses[1].Until {
			t.Errorf("paused is %+v of %+v, want that of %s", line.Paused, line.Pauses, c.by)
		}
	}
	none := newLimitLine(&store.LimitInfo{Name: "api"}, 0, now)
	if none.Paused != nil || none.Pauses == nil || len(none.Pauses) != 0 || none.state(now) != "" {
		t.Errorf("without a pause: %+v", none)
	}
}
