package metrics_test

import (
	"context"
	"log"
	"net/http"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/metrics"
)

func Example() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "jobs.db", penstock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	m := metrics.New(client)
	http.Handle("GET /metrics", m)
	go func() { log.Print(http.ListenAndServe("127.0.0.1:9090", nil)) }()

	if err := client.Work(ctx, m.Watch(penstock.WorkOptions{})); err != nil {
		log.Print(err)
	}
}
