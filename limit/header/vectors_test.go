package header

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"
)

// noon is the instant at which all responses of these tests arrive, a Sunday.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// deviations are the vectors that Read answers otherwise, on purpose.
var deviations = map[string]struct {
	want Observation
	why  string
}{
	"core-retry-after-float": {
		want: Observation{Limited: true, Stated: true, RetryAfter: 2 * time.Second, Source: "Retry-After"},
		why:  "a fraction of a second rounds up, so that no call is early by what the server cut off",
	},
	"core-retry-after-past-date": {
		want: Observation{Limited: true},
		why:  "a date in the past is no wait of 0, which would bring all clients back at once, but ordinary backoff",
	},
}

// TestVectors reads responses as about sixty APIs send them. Each row names the
// place its format was read in.
func TestVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		ID           string
		Status       int
		Headers      http.Header
		Limited      bool
		RetryAfterMS *int64 `json:"retry_after_ms"`
		Note         string
	}
	if err := json.Unmarshal(file, &rows); err != nil {
		t.Fatal(err)
	}
	deviated := 0
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			got := Read(row.Status, row.Headers, nil, noon)
			if d, ok := deviations[row.ID]; ok {
				deviated++
				if got != d.want {
					t.Errorf("got %+v, want %+v: %s", got, d.want, d.why)
				}
				return
			}
			if got.Limited != row.Limited {
				t.Errorf("limited %v, want %v (%s)", got.Limited, row.Limited, row.Note)
			}
			if got.Stated != (row.RetryAfterMS != nil) {
				t.Fatalf("stated %v, want %v (%s): %+v", got.Stated, !got.Stated, row.Note, got)
			}
			if got.Stated && got.RetryAfter.Milliseconds() != *row.RetryAfterMS {
				t.Errorf("wait %v, want %d ms (%s)", got.RetryAfter, *row.RetryAfterMS, row.Note)
			}
			if got.Stated == (got.Source == "") {
				t.Errorf("source %q with stated %v", got.Source, got.Stated)
			}
		})
	}
	if deviated != len(deviations) {
		t.Errorf("%d of %d deviations met", deviated, len(deviations))
	}
}
