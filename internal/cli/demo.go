package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/internal/cli/demo"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

const demoWorkerName = "demo-worker"

func newDemo() *cobra.Command {
	var (
		o       = demo.Options{Algorithm: apisim.Sliding}
		algo    string
		without string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Send messages through a pretend SMS API, kill a worker, and check",
		Long: `Shows the main job. A pretend SMS API runs in this process, and takes only so
many calls a second. It is slow, fails at times, and rejects numbers that are
none. 50 messages are enqueued in a temporary database, some of them twice, some
to bad numbers. Three worker processes send them, under one limit. One of them
is killed in the middle of a call. Then the API's own log says what it saw, and
whether each claim is true.

Nothing outside of this machine is called, and nothing is left behind. It takes
about 15 seconds. With --db it runs on a PostgreSQL server, in a schema that it makes
for itself and removes. Exit code: 0 if all claims are true, 1 if one is false, 2 bad
usage, 3 the database failed.`,
		Example: `  penstock demo
  penstock demo --cap 50 --algo bucket
  penstock demo --algo inflight --seed 7
  penstock demo --json | jq .claims
  penstock demo --db postgres://penstock@db.example/test
  penstock demo --break limit; echo $?`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Algorithm = apisim.Algorithm(algo)
			switch {
			case !slices.Contains(demoAlgorithms, algo):
				return usagef("--algo must be one of %s, got %q", strings.Join(demoAlgorithms, ", "), algo)
			case o.Cap < 1 || o.Cap > 1000:
				return usagef("--cap must be from 1 to 1000, got %d", o.Cap)
			case o.Server != "" && !migrate.IsDSN(o.Server):
				return usagef("--db: %v; on a file the demo makes its own", migrate.ErrDSN)
			case without != "" && without != "limit":
				return usagef(`--break can only be "limit", got %q`, without)
			}
			o.NoLimit = without == "limit"
			return runDemo(cmd, o, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Cap, "cap", 5, "calls the API takes per second (inflight: at a time)")
	flags.StringVar(&algo, "algo", string(apisim.Sliding), "how the API counts: "+strings.Join(demoAlgorithms, ", "))
	flags.Uint64Var(&o.Seed, "seed", 1, "decides what is left to chance: failures, bad numbers")
	flags.Var((*filled)(&o.Server), "db", "the `URL` of a PostgreSQL database to run on, instead of a temporary file")
	flags.StringVar(&without, "break", "", `"limit" leaves the limit away on Penstock's side, so that the demo must fail`)
	flags.BoolVar(&asJSON, "json", false, "print one JSON object with the figures and the claims")
	return cmd
}

var demoAlgorithms = []string{"sliding", "fixed", "bucket", "gcra", "inflight"}

// runDemo runs a demo and prints what came of it.
func runDemo(cmd *cobra.Command, o demo.Options, asJSON bool) error {
	signals := watchSignals(cmd.Context())
	defer signals.close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program, to start it as a worker: %w", err)
	}
	o.Worker = func(w demo.Worker) *exec.Cmd {
		cmd := exec.Command(self, demoWorkerName, strconv.Itoa(w.Number), w.Contacts, w.API)
		cmd.Env = append(os.Environ(), "PENSTOCK_DB="+w.Database) // lists of processes show arguments, and it may have a password
		return cmd
	}
	out, aside := cmd.OutOrStdout(), cmd.ErrOrStderr()
	width, terminal := paper(out)
	style := demo.Style{Colour: terminal && os.Getenv("NO_COLOR") == ""}
	room, drawable := paper(aside)
	live := &demo.Live{Story: out, Aside: aside, Terminal: drawable, Width: min(width, room)}
	if asJSON {
		live.Story = aside
	}
	o.Watch = live
	fmt.Fprintf(live.Story, "%s\n\n", demo.Opening(o))
	result, err := demo.Run(signals.stop, o)
	live.Clear()
	switch {
	case err != nil && signals.stopped():
		return &exitError{Code: signals.code()}
	case err != nil && o.Server != "":
		return storeFailure(o.Server, err)
	case err != nil:
		return err
	}
	figures := result.Figures(o.Seed)
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(figures); err != nil {
			return fmt.Errorf("the figures cannot be printed: %w", err)
		}
	} else {
		result.Report(out, figures, width, style)
	}
	if n := figures.Failed(); n > 0 {
		return &exitError{Code: exitFailed} // the report has said which
	}
	return nil
}

// paper is how wide lines may be on w, and whether it is a terminal that can be
// drawn on.
func paper(w io.Writer) (width int, terminal bool) {
	const plain, most = 100, 140
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return plain, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return min(width, most), true
}

// newDemoWorker is what the demo starts its worker processes with.
func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    demoWorkerName + " NUMBER CONTACTS URL",
		Short:  "A worker process of the demo, until its standard input ends",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.Atoi(args[0])
			if err != nil {
				return usagef("expected the worker's number, got %q", args[0])
			}
			w := demo.Worker{Number: number, Database: os.Getenv("PENSTOCK_DB"), Contacts: args[1], API: args[2]}
			return w.Run(cmd.Context(), cmd.InOrStdin())
		},
	}
}
