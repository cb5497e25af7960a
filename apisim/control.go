package apisim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// controlPath is the prefix of the paths that control the API.
const controlPath = "/_apisim/"

// control serves GET log, stats and config, and POST config and reset.
func (a *API) control(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, controlPath) {
	case "GET log":
		a.writeLog(w, r)
	case "GET stats":
		answer{status: http.StatusOK, body: a.Stats()}.write(w)
	case "GET config":
		answer{status: http.StatusOK, body: a.Config().settings()}.write(w)
	case "POST config":
		a.changeConfig(w, r)
	case "POST reset":
		a.Reset()
		answer{status: http.StatusNoContent}.write(w)
	default:
		fault(http.StatusNotFound, "path", "expected GET log, stats or config, or POST config or reset, below "+controlPath+
			", got "+r.Method+" "+strconv.Quote(r.URL.Path)).write(w)
	}
}

// writeLog sends the log as JSON lines; ?from=SEQ sends what came after it.
func (a *API) writeLog(w http.ResponseWriter, r *http.Request) {
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			fault(http.StatusBadRequest, "from", "expected the seq of a call, got "+strconv.Quote(text)).write(w)
			return
		}
		from = n
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	buffer := bufio.NewWriter(w)
	lines := json.NewEncoder(buffer)
	for _, call := range a.LogFrom(from) {
		if lines.Encode(call) != nil {
			return // the client has gone
		}
	}
	_ = buffer.Flush()
}

// settings is the part of a Config that can be read and changed from outside.
// Durations are texts such as "1.5s"; what is left out stays as it is.
type settings struct {
	Algorithm    *Algorithm  `json:"algorithm,omitempty"`
	Limit        *int        `json:"limit,omitempty"`
	Window       *duration   `json:"window,omitempty"`
	Burst        *int        `json:"burst,omitempty"`
	MaxInFlight  *int        `json:"max_in_flight,omitempty"`
	CountRefused *bool       `json:"count_refused,omitempty"`
	PauseFor     *duration   `json:"pause_for,omitempty"` // from now on; 0 ends a pause
	RetryAfter   *RetryAfter `json:"retry_after,omitempty"`
	Announce     *Announce   `json:"announce,omitempty"`
	JitterMean   *duration   `json:"jitter_mean,omitempty"`
	Latency      *duration   `json:"latency,omitempty"`
	Error5xx     *float64    `json:"error_5xx,omitempty"`
	TimeoutRate  *float64    `json:"timeout_rate,omitempty"`
	TimeoutHold  *duration   `json:"timeout_hold,omitempty"`
	AfterEffect  *float64    `json:"after_effect,omitempty"`
	Dedupe       *bool       `json:"dedupe,omitempty"`
}

func (a *API) changeConfig(w http.ResponseWriter, r *http.Request) {
	var s settings
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		fault(http.StatusBadRequest, "body", `expected JSON like {"limit": 10, "window": "1s"}: `+err.Error()).write(w)
		return
	}
	if err := a.Configure(func(c *Config) { s.apply(c, a.config.clock()) }); err != nil {
		fault(http.StatusBadRequest, "body", err.Error()).write(w)
		return
	}
	answer{status: http.StatusOK, body: a.Config().settings()}.write(w)
}

// clock is the present instant of the API's clock.
func (c *Config) clock() time.Time { return c.Now().Add(c.ClockOffset) }

// apply changes what was given; now is the present instant of the API's clock.
func (s *settings) apply(c *Config, now time.Time) {
	set(&c.Algorithm, s.Algorithm)
	set(&c.Limit, s.Limit)
	set((*duration)(&c.Window), s.Window)
	set(&c.Burst, s.Burst)
	set(&c.MaxInFlight, s.MaxInFlight)
	set(&c.CountRefused, s.CountRefused)
	if s.PauseFor != nil {
		c.PausedUntil = now.Add(time.Duration(*s.PauseFor))
	}
	set(&c.RetryAfter, s.RetryAfter)
	set(&c.Announce, s.Announce)
	set((*duration)(&c.JitterMean), s.JitterMean)
	set((*duration)(&c.Latency), s.Latency)
	set(&c.Error5xx, s.Error5xx)
	set(&c.TimeoutRate, s.TimeoutRate)
	set((*duration)(&c.TimeoutHold), s.TimeoutHold)
	set(&c.AfterEffect, s.AfterEffect)
	set(&c.Dedupe, s.Dedupe)
}

// settings shows a configuration with its defaults filled in.
func (c Config) settings() settings {
	pause := duration(max(0, c.PausedUntil.Sub(c.clock())))
	return settings{
		Algorithm: &c.Algorithm, Limit: &c.Limit, Window: (*duration)(&c.Window), Burst: &c.Burst,
		MaxInFlight: &c.MaxInFlight, CountRefused: &c.CountRefused, PauseFor: &pause, RetryAfter: &c.RetryAfter, Announce: &c.Announce,
		JitterMean: (*duration)(&c.JitterMean), Latency: (*duration)(&c.Latency), Error5xx: &c.Error5xx,
		TimeoutRate: &c.TimeoutRate, TimeoutHold: (*duration)(&c.TimeoutHold), AfterEffect: &c.AfterEffect, Dedupe: &c.Dedupe,
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// duration is a time.Duration that is a text in JSON.
type duration time.Duration

// MarshalJSON writes a text such as "1.5s".
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a text such as "1.5s".
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New(`expected a duration as a text, such as "1.5s", got ` + string(data))
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`expected a duration such as "1.5s": %w`, err)
	}
	*d = duration(parsed)
	return nil
}
