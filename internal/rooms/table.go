package rooms

// Table is the plan of the house, from the street down to the cellar. A new
// package fails the check until its rule is said here; a room lists only rooms
// further down.
var Table = []Room{
	{
		// Wiring only; the command itself is in internal/cli.
		Path:  "cmd/penstock",
		May:   []string{"internal/cli/..."},
		Tests: []string{"store/..."},
	},
	{
		// Programs as users write them, so they see what users see.
		Path:    "examples/...",
		May:     []string{".", "httpcall", "apisim", "penstocktest", "retry", "limit/header"},
		Modules: []string{"modernc.org/sqlite"},
		Tests:   []string{"store/memory"},
	},
	{
		Path: "internal/cli/...",
		May: []string{
			"internal/cli/...", "metrics", "httpcall", "apisim", ".",
			"store/memory", "store/sqlite", "store/postgres/...", "store/engine", "store",
			"dispatch", "limit", "limit/header", "retry",
		},
		Modules: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "golang.org/x/term"},
	},
	{
		// The text format is written by hand: a page of code, and no dependency.
		Path:  "metrics",
		May:   []string{".", "store", "limit"},
		Tests: []string{"store/...", "retry"},
	},
	{
		Path: "penstocktest",
		May:  []string{".", "store/memory", "store", "dispatch", "limit", "retry"},
	},
	{
		// It plays with the whole of the product, and nobody plays with it.
		Path: "internal/sim",
		May:  []string{".", "store/storetest", "store/memory", "store/engine", "store", "dispatch", "limit"},
	},
	{
		// Tests of real processes; no code of its own.
		Path:  "internal/system",
		Tests: []string{".", "store/...", "limit", "retry", "github.com/jackc/pgx/v5"},
	},
	{
		Path:  "httpcall",
		May:   []string{".", "limit/header", "retry"},
		Tests: []string{"store/...", "dispatch", "limit"},
	},
	{
		// What users import. It knows nothing of those who use it.
		Path: ".",
		May: []string{
			"store/memory", "store/sqlite", "store/postgres", "store/postgres/migrate", "store/engine", "store",
			"dispatch", "limit", "limit/header", "retry",
		},
		Tests: []string{"httpcall", "github.com/jackc/pgx/v5"},
	},
	{
		Path:    "store/storetest",
		May:     []string{"store/memory", "store/engine", "store", "dispatch", "limit"},
		Modules: []string{"pgregory.net/rapid"},
		Tests:   []string{"store/sqlite"},
	},
	{
		Path:    "store/sqlite/...",
		May:     []string{"store/sqlite/...", "store/engine", "store", "dispatch", "limit"},
		Modules: []string{"modernc.org/sqlite", "golang.org/x/sys"},
		Tests:   []string{"store/memory"},
	},
	{
		Path:    "store/postgres/...",
		May:     []string{"store/postgres/...", "store/engine", "store", "dispatch", "limit"},
		Modules: []string{"github.com/jackc/pgx/v5"},
		Tests:   []string{"store/memory"},
	},
	{
		Path: "store/memory",
		May:  []string{"store/engine", "store", "dispatch", "limit"},
	},
	{
		Path: "store/engine",
		May:  []string{"store", "dispatch", "limit"},
	},
	{
		Path: "store",
		May:  []string{"dispatch", "limit"},
	},
	{
		Path: "dispatch",
		May:  []string{"limit"},
		Pure: true,
	},
	{
		// It reads headers, and calls nobody.
		Path:   "limit/header",
		Pure:   true,
		Impure: map[string][]string{"net/http": {"CanonicalHeaderKey", "Header", "ParseTime", "Status*", "TimeFormat"}},
	},
	{Path: "limit", Pure: true},
	{Path: "retry", Pure: true, Impure: map[string][]string{"net": {"OpError", "UnknownNetworkError", "InvalidAddrError", "AddrError", "ParseError"}}},
	// The pretend API stands outside: it must judge Penstock, so it shares
	// none of its code.
	{Path: "apisim"},
	// Servers for tests; the product does not know of it.
	{Path: "internal/pgtest/...", May: []string{"internal/pgtest/..."}, Modules: []string{"github.com/jackc/pgx/v5"}},
	{Path: "internal/docs"},
	{Path: "internal/rooms"},
}

// testsMay is what the *_test.go files of every room may import.
var testsMay = []string{"store/storetest", "apisim", "penstocktest", "internal/pgtest", "pgregory.net/rapid"}
