package limit_test

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
)

func Example() {
	spec, err := limit.Parse("5/s, 20 in flight")
	if err != nil {
		fmt.Println(err)
		return
	}
	var state limit.State
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	ask := limit.Ask{Cost: 1}

	slot, _ := state.Earliest(spec, ask, now)
	state.Take(spec, ask, slot)

	next, why := state.Earliest(spec, ask, now)
	fmt.Println(time.Duration(next-now)*time.Microsecond, why)

	state.Observe(spec, limit.Observation{At: now, Slot: slot, Refused: true, RetryAt: now + 30_000_000}, 0.5)
	state.Release(spec, 1, slot, now, false)
	next, why = state.Earliest(spec, ask, now)
	fmt.Println(time.Duration(next-now)*time.Microsecond, why)
	// Output:
	// 210ms pacing
	// 30s paused by the API
}

func ExampleParse() {
	_, err := limit.Parse("0/s")
	fmt.Println(err)
	// Output: limit "0/s": expected a number of permits above 0; to let nothing through write paused
}
