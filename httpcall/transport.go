package httpcall

import (
	"net/http"
	"time"
)

// hostIdle is how many connections are kept to a host: as many as a process
// makes calls at a time.
const hostIdle = 1000

// newTransport returns a transport that keeps a connection for each of many
// calls at a time: the standard one keeps two to a host and closes the rest,
// so that most calls would begin with a handshake.
func newTransport() *http.Transport {
	t := &http.Transport{}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		t = standard.Clone()
	}
	t.Proxy = http.ProxyFromEnvironment
	t.ForceAttemptHTTP2 = true
	t.MaxIdleConns = 0 // no bound beyond that of each host
	t.MaxIdleConnsPerHost = hostIdle
	// Below the minute after which many servers close: a connection that
	// closes as it is used again costs an attempt.
	t.IdleConnTimeout = 30 * time.Second
	return t
}
