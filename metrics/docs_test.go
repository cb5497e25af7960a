package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/penstockhq/penstock/metrics"
	"github.com/penstockhq/penstock/store/memory"
)

// TestDocsNameEveryMetric: docs/metrics.md lists the metrics that there are.
func TestDocsNameEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(text []byte, pattern string) []string {
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		slices.Sort(all)
		return all
	}
	page := metrics.New(newClient(t, memory.New(memory.Options{}), nil)).Text(t.Context())
	served, told := names(page, `(?m)^# TYPE (\S+)`), names(text, "(?m)^\\| `(penstock_[a-z_]+)` \\|")
	if !slices.Equal(served, told) || len(served) < 20 {
		t.Errorf("served %v\ntold   %v", served, told)
	}
}
