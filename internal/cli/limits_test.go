package cli_test

import (
	"strings"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// Where only NAME/* is declared, each command that takes the limit says that NAME
// needs a key.
func TestALimitWithoutItsKeyIsExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", `{"url": "`+a.URL+`/1", "limits": ["k/shop-17"]}`)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "k/*=100/s", "--limit", "kk=5/s", "-q").exits(0)
	const hint = `"k/*" needs a key, like "k/shop-17"`
	for _, args := range [][]string{
		{"limits", "show", "k"},
		{"limits", "set", "k", "5/s"},
		{"limits", "reset", "k"},
		{"limits", "pause", "k"},
		{"limits", "resume", "k"},
		{"exec", "--limit", "k", "--", "true"},
		{"enqueue", "--url", a.URL, "--limit", "k"},
	} {
		c := penstock(t, dir, args...)
		if c.code != 2 || !strings.Contains(c.stderr.String(), hint) || strings.Contains(c.stderr.String(), `"kk"`) {
			t.Errorf("%q exits with %d: %s", args, c.code, &c.stderr)
		}
	}
	write(t, dir, "more.jsonl", `{"url": "`+a.URL+`/2", "limits": ["k"]}`)
	for _, flags := range [][]string{{"--db", "new.db", "--limit", "k/*=100/s"}, {}} { // declared on the line, or in the database
		penstock(t, dir, append([]string{"run", "more.jsonl"}, flags...)...).exits(2).says(hint)
	}
}

// A pause that is over before it begins is refused, and not taken for done.
func TestLimitPauseThatIsOverIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 1)
	penstock(t, dir, "limits", "pause", a.Host, "--for", "1ns").exits(2).says("is over already", "later instant")
}
