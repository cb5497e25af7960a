package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/metrics"
)

const metricsUsage = "serve metrics for Prometheus at http://`ADDR`/metrics; without a host, as in :9090, on this machine only"

// metricsAddress reads --metrics. Who wants the world to see metrics has to say
// so: an address without a host is the machine's own.
func metricsAddress(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(text)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || n > 65535 || strings.ContainsAny(host, "/ ") {
		return "", usagef("--metrics: expected an address such as :9090 or 0.0.0.0:9090, got %q", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveMetrics serves a client's metrics until stop is called, and returns the
// options of Work with hooks that count. An empty address: it does nothing.
func serveMetrics(c *penstock.Client, addr string, o penstock.WorkOptions, s *screen) (watched penstock.WorkOptions, stop func(), err error) {
	if addr == "" {
		return o, func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return o, nil, inputf("--metrics: %v", err)
	}
	m := metrics.New(c)
	mux := http.NewServeMux()
	mux.Handle("/metrics", m)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "penstock: see /metrics")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.say("metrics are not served any more: %v", err)
		}
	}()
	s.say("metrics at http://%s/metrics", listener.Addr())
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
	return m.Watch(o), stop, nil
}
