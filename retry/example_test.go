package retry_test

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/retry"
)

func ExamplePolicy_Delay() {
	policy := retry.Policy{Base: time.Second, Cap: 10 * time.Second}
	for attempt := 1; attempt <= 5; attempt++ {
		fmt.Println(policy.Delay(attempt, 0.5)) // 0.5: in the middle of the jitter
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 8s
	// 10s
}
