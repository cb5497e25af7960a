package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkCallFlags checks what run and work say of calls in the same words.
func checkCallFlags(attempts int, timeout, budget, grace time.Duration, queues []string) error {
	for _, d := range []struct {
		name string
		bad  bool
	}{
		{"--attempts must be at least 1", attempts < 1},
		{"--timeout must be above 0", timeout <= 0},
		{"--throttle-budget must be above 0", budget <= 0},
		{"--grace must be above 0", grace <= 0},
	} {
		if d.bad {
			return usagef("%s", d.name)
		}
	}
	for i, q := range queues {
		if q == "" || slices.Contains(queues[:i], q) {
			return usagef("--queues: expected names like high,low, each once, got %q", strings.Join(queues, ","))
		}
	}
	return nil
}

// parsePlaces reads --concurrency; 0 is automatic.
func parsePlaces(text string) (int, error) {
	if text == "auto" || text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, usagef("--concurrency: expected auto or a number of at least 1, got %q", text)
	}
	return n, nil
}
