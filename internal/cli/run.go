package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// runFlags are the options of penstock run, as they were given.
type runFlags struct {
	db, run, base  string
	limits         []string
	concurrency    string
	headers        []string
	keyHeader      string
	out            string
	attempts       int
	timeout        time.Duration
	throttleBudget time.Duration
	grace          time.Duration
	atMostOnce     bool
	retryDead      bool
	skipInvalid    bool
	queues         []string
	metrics        string
	json, quiet    bool
}

const runLong = `Run the HTTP calls of a file, one JSON object a line, under rate limits that all
processes on the database share. "-" reads standard input.

A line needs a "url"; all else can be left out:

  {"id": "order-17",                    unique in the run; else "line-N"
   "method": "POST",                    else POST with a body, GET without one
   "url": "https://api.example.com/v1/orders?key=${API_KEY}",
   "headers": {"Authorization": "Bearer ${API_TOKEN}"},
   "body": {"n": 1},                    JSON, sent as it is; a string is sent as text
   "limits": ["orders"],                or with costs: {"orders": 1, "tokens": 800}
   "cost": 2,                           for the host's limit and a list of limits
   "queue": "high", "priority": 9,      larger priority first, 1 to 9, else 5
   "delay": "90s",                      or "run_at": "2030-01-31T09:00:00+01:00"
   "timeout": "30s", "attempts": 3,
   "expires_at": "2030-02-01T00:00:00Z",
   "idempotency_key": "…",              else one is made; the same at every start
   "at_most_once": true,                dead rather than called twice, if in doubt
   "group": "customer-7"}               groups share what there is evenly

Files of the OpenAI batch API run as they are, with --base-url.

Limits. Each call draws on the limits its line names, and then on the limit of
its host, named as the host ("api.example.com", "127.0.0.1:8080"). --limit SPEC
sets the limit of each host in the file, --limit NAME=SPEC a limit by its name.
A SPEC is like 5/s, 100/m, "10/s, 10000/day", "40/10s burst 8", "20 in flight".

Again. The database keeps what was done. The same command goes on where it
stopped, however it stopped: nothing is lost, and nothing that finished is called
again. Lines that were added are new calls. Several processes may work on one
run, and runs on one database share its limits.

Secrets. ${NAME} in URLs and headers is read from the environment when a call is
made, and -H stays in memory; neither is stored.

Exit code: 0 all calls are done, 1 some are not (dead, cancelled, or invalid
lines skipped), 2 bad usage or input and nothing was sent, 3 the database or the
file of results failed, or the database did not work for a minute, 130 or 143 ended
by INT or TERM. The first signal lets running calls finish; a second one stops at
once.`

const runExample = `  # 5 calls a second, the results in a file; run it again to go on
  penstock run calls.jsonl --limit 5/s --out results.jsonl

  # an OpenAI batch file, under two limits at once
  penstock run batch.jsonl --base-url https://api.openai.com \
    -H "Authorization: Bearer $OPENAI_API_KEY" --limit "500/m, 20 in flight"

  # from a pipe; a limit of its own for the calls that name it
  make-calls | penstock run - --run nightly --limit orders=100/m

  # give those that failed another chance
  penstock run calls.jsonl --limit 5/s --out results.jsonl --retry-dead`

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run FILE.jsonl",
		Short:   "Run a file of HTTP calls under shared rate limits",
		Long:    runLong,
		Example: runExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("expected one file of calls (\"-\" for standard input), got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := f.plan(args[0])
			if err != nil {
				return err
			}
			return runFile(cmd.Context(), plan, streams{in: cmd.InOrStdin(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
		},
	}
	o := cmd.Flags()
	o.SortFlags = false
	addDB(cmd.Flags(), &f.db)
	o.Var((*filled)(&f.run), "run", "the run's `name` (default the file's base name; of standard input: stdin)")
	o.StringArrayVar(&f.limits, "limit", nil, "`SPEC` for each host of the file, or NAME=SPEC (repeatable)")
	o.Var((*filled)(&f.base), "base-url", "`URL` that goes before urls that are only a path")
	o.StringArrayVarP(&f.headers, "header", "H", nil, "`'Name: value'` sent with every call, kept in memory only (repeatable)")
	o.Var((*filled)(&f.out), "out", "`FILE` for the results, one JSON line for each call that has ended")
	o.StringVar(&f.concurrency, "concurrency", "auto", "calls at a time: a `number`, or auto (100, and up to 1,000 where they wait)")
	o.IntVar(&f.attempts, "attempts", 5, "attempts of a call that says nothing else")
	o.DurationVar(&f.timeout, "timeout", 10*time.Minute, "timeout of a call that says nothing else")
	o.DurationVar(&f.throttleBudget, "throttle-budget", 6*time.Hour, "how long an API may go on refusing a call before it is dead")
	o.DurationVar(&f.grace, "grace", 25*time.Second, "how long running calls get to finish after INT or TERM")
	o.Var((*filledList)(&f.queues), "queues", "the order of queues, as in high,low (default all alike); others come after them")
	o.StringVar(&f.keyHeader, "key-header", "Idempotency-Key", "`header` that carries a call's idempotency key, \"-\" for none")
	o.BoolVar(&f.atMostOnce, "at-most-once", false, "no call is repeated that may have happened: it is dead (in_doubt); for calls that are new to the run")
	o.BoolVar(&f.retryDead, "retry-dead", false, "put the run's dead calls back in line first, but not those in doubt")
	o.BoolVar(&f.skipInvalid, "skip-invalid", false, "run the good lines of a file that has bad ones")
	o.Var((*filled)(&f.metrics), "metrics", metricsUsage)
	o.BoolVar(&f.json, "json", false, "print one JSON object on standard output at the end; starts, refused, elapsed_seconds and rate are of this command")
	o.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	return cmd
}
