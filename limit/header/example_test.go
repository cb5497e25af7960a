package header_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/penstockhq/penstock/limit/header"
)

func ExampleRead() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := http.Header{
		"Date":        {"Sun, 01 Mar 2026 12:05:00 GMT"}, // the server's clock is ahead
		"Retry-After": {"Sun, 01 Mar 2026 12:05:30 GMT"},
	}
	o := header.Read(http.StatusTooManyRequests, h, nil, now)
	fmt.Println(o.Limited, o.RetryAfter, o.Source)
	// Output: true 30s Retry-After
}
