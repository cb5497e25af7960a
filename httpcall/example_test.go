package httpcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
)

func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"id": 9007199254740993}`)
	}))
	defer api.Close()

	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{
		Logger: slog.New(slog.DiscardHandler),
		Limits: map[string]string{httpcall.HostLimit(api.URL): "5/s"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := httpcall.Register(client, httpcall.Options{
		Headers: http.Header{"X-Client": {"example"}},
	}); err != nil {
		log.Fatal(err)
	}

	call := httpcall.Request{URL: api.URL + "/things", Body: json.RawMessage(`{"name": "a thing"}`)}
	job, err := call.Job()
	if err != nil {
		log.Fatal(err)
	}
	stored, err := client.EnqueueMany(ctx, []penstock.NewJob{job})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Work(ctx, penstock.WorkOptions{Drain: true}); err != nil {
		log.Fatal(err)
	}
	done, err := client.Job(ctx, stored[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	result, err := httpcall.ParseResult(done.Result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.State, result.Status, string(result.Response))
	// Output: done 200 {"id":9007199254740993}
}
