package apisim_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

func ExampleServe() {
	server, err := apisim.Serve(context.Background(), apisim.Config{
		Algorithm: apisim.Sliding, Limit: 2, Window: time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	for range 3 {
		response, err := http.Get(server.URL + "/orders")
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	stats := server.API.Stats()
	fmt.Println(stats.Accepted, "accepted,", stats.Refused, "refused")
	// Output:
	// 200
	// 200
	// 429
	// 2 accepted, 1 refused
}
