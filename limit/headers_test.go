package limit

import (
	"fmt"
	"testing"
	"time"
)

// What an API says is left does no harm, in whatever way it counts, however many
// calls are under way, and however long they take: no more calls are refused than
// if it said nothing, and the work takes hardly longer.
func TestWhatIsLeftDoesNoHarm(t *testing.T) {
	const (
		seconds = 10 * time.Second
		usual   = 1.1
	)
	for _, tt := range []struct {
		name   string
		spec   string
		api    strict
		slower float64 // than without, at most; the exceptions are in docs/limits.md
	}{
		{"fixed 10 s", "100/s", strict{n: 200, w: seconds, fixed: true}, usual},
		{"fixed minute", "100/m", strict{n: 60, w: time.Minute, fixed: true}, usual},
		{"fixed second", "10/s", strict{n: 6, w: time.Second, fixed: true}, usual},
		{"fixed minute, shared", "200/m", strict{n: 200, w: time.Minute, fixed: true, others: minute / 80}, usual},
		{"fixed 10 s, shared", "20/s", strict{n: 200, w: seconds, fixed: true, others: second / 8}, usual},
		{"sliding 10 s", "100/s", strict{n: 200, w: seconds}, usual},
		{"sliding minute", "100/m", strict{n: 60, w: time.Minute}, usual},
		{"sliding second", "10/s", strict{n: 6, w: time.Second}, 1.4}, // its answers take half a window
		{"sliding minute, shared", "200/m", strict{n: 200, w: time.Minute, others: minute / 80}, usual},
		{"sliding 10 s, shared", "20/s", strict{n: 200, w: seconds, others: second / 8}, usual},
		{"sliding 10 s, until it is empty", "100/s", strict{n: 200, w: seconds, newest: true}, 1.5},
		{"sliding minute, until it is empty", "100/m", strict{n: 60, w: time.Minute, newest: true}, 1.65},
		{"bucket 10 s", "100/s", strict{n: 200, w: seconds, bucket: 200}, usual},
		{"bucket minute", "100/m", strict{n: 60, w: time.Minute, bucket: 60}, usual},
		{"GCRA 10 s", "100/s", strict{n: 200, w: seconds, bucket: 20}, usual},
		{"GCRA fast", "100/s", strict{n: 60, w: time.Second, bucket: 6}, usual},
		{"bucket of one", "10/s", strict{n: 6, w: time.Second, bucket: 1}, 1.4}, // full before its answer comes
		{"as the spec has it, sliding", "50/s", strict{n: 50, w: time.Second}, usual},
		{"as the spec has it, GCRA", "50/s", strict{n: 50, w: time.Second, bucket: 5}, usual},
	} {
		for _, way := range []struct {
			name           string
			inFlight       int
			travel, answer Instant
		}{
			{"1 under way, 20 ms", 1, 10_000, 10_000},
			{"30 under way, 20 ms", 30, 10_000, 10_000},
			{"1 under way, 500 ms", 1, 20_000, 480_000},
			{"30 under way, 500 ms", 30, 20_000, 480_000},
			{"30 under way, 500 ms, half of them there", 30, 250_000, 250_000},
		} {
			for _, unit := range []Instant{1000, second} {
				t.Run(fmt.Sprintf("%s/%s/%v", tt.name, way.name, micro(unit)), func(t *testing.T) {
					api := tt.api
					api.unit, api.travel, api.answer = unit, jittery(way.travel), way.answer
					spec, calls := fmt.Sprintf("%s, %d in flight", tt.spec, way.inFlight), min(max(int(25*api.n), 1000), 5000)
					seeds, chance := uint64(1), 0.05
					if api.others > 0 && !api.fixed { // it is chance who gets what comes back
						seeds, chance, calls = 3, 0.2, 1500
					}
					var refused [2]int
					var elapsed [2]Instant
					for seed := range seeds {
						for i := range 2 {
							api.says = i > 0
							r := simulate(t, spec, api, calls, 1+seed)
							refused[i] += r.refused
							elapsed[i] += r.elapsed
						}
					}
					slower := float64(elapsed[1]) / float64(elapsed[0])
					t.Logf("%d refused, %d without what is left; %+.1f %% slower", refused[1], refused[0], 100*(slower-1))
					if float64(refused[1]) > 5+float64(refused[0])*(1+chance) {
						t.Errorf("%d refused, %d without what is left", refused[1], refused[0])
					}
					if slower > tt.slower {
						t.Errorf("%.2f times as long as without what is left, want at most %.2f", slower, tt.slower)
					}
				})
			}
		}
	}
}
