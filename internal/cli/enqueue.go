package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/batch"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const enqueueLong = `Put one HTTP call into the database, for "penstock work" or any other process that
works on it, and print its id. A database file is made if it is not there.

The call draws on the limits that --limit names, and on the limit of its host, named
as the host ("api.example.com", "127.0.0.1:8080"), which is declared without any
limit if nobody has declared it. --limit NAME=SPEC declares a limit, also the host's, and
--limit 'NAME/*=SPEC' one for each key after the slash.

--data is sent as JSON if it is JSON, else as text; @FILE reads a file, @- standard
input. ${NAME} in the URL and in headers is read from the environment of the process
that makes the call, and is not stored; secrets can be given in no other way.

With --unique nothing is put in while a waiting or running job has the same key: that
job's id is printed.`

const enqueueExample = `  penstock enqueue --url https://api.example.com/v1/orders --data '{"n": 1}' \
    -H 'Authorization: Bearer ${API_TOKEN}' --limit api.example.com=5/s

  # tomorrow at nine, once, before all others
  penstock enqueue --url https://api.example.com/v1/report --unique report \
    --run-at 2030-01-31T09:00:00+01:00 --priority 9`

// enqueueFlags are the options of penstock enqueue.
type enqueueFlags struct {
	db, url, method, data string
	headers               []string
	draws                 drawList
	queue, group          string
	priority, attempts    int
	delay, timeout        time.Duration
	runAt, expiresAt      string
	unique, key           string
	replace, atMostOnce   bool
	json                  bool
}

func newEnqueue() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:     "enqueue --url URL [flags]",
		Short:   "Put one HTTP call into the database",
		Long:    enqueueLong,
		Example: enqueueExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runEnqueue(cmd, &f)
		},
		DisableFlagsInUseLine: true,
	}
	o := cmd.Flags()
	o.SortFlags = false
	addDB(cmd.Flags(), &f.db)
	o.StringVar(&f.url, "url", "", "the `URL` to call")
	o.StringVarP(&f.method, "method", "X", "", "the `method` (default POST with --data, else GET)")
	o.StringArrayVarP(&f.headers, "header", "H", nil, "a header, `'Name: value'`; secrets as ${NAME} (repeatable)")
	o.StringVarP(&f.data, "data", "d", "", "the `body`, or @FILE, or @- for standard input")
	f.draws.add(o, "a limit to draw on beside the host's; with =SPEC it is declared (repeatable)")
	o.Var((*filled)(&f.queue), "queue", "the `queue` to wait in (default "+penstock.DefaultQueue+")")
	o.IntVar(&f.priority, "priority", 0, "1 to 9, larger first (default 5)")
	o.Var((*filled)(&f.group), "group", "a `name`; groups share what there is evenly")
	o.DurationVar(&f.delay, "delay", 0, "not before so long from now")
	o.Var((*filled)(&f.runAt), "run-at", "not before this `time`, as 2030-01-31T09:00:00+01:00")
	o.Var((*filled)(&f.expiresAt), "expires-at", "dead if not started by this `time`")
	o.Var((*filled)(&f.unique), "unique", "a `key` that at most one waiting or running job has")
	o.BoolVar(&f.replace, "replace", false, "with --unique: a waiting job gets this call, a running one is followed by it")
	o.Var((*filled)(&f.key), "idempotency-key", "the `key` sent with each start (default one is made)")
	o.BoolVar(&f.atMostOnce, "at-most-once", false, "it is not repeated if it may have happened: it is dead (in_doubt)")
	o.IntVar(&f.attempts, "attempts", 0, "attempts in all (default what the worker says)")
	o.DurationVar(&f.timeout, "timeout", 0, "of each start (default what the worker says)")
	o.BoolVar(&f.json, "json", false, "print a JSON line")
	_ = cmd.RegisterFlagCompletionFunc("limit", completeLimits)
	_ = cmd.RegisterFlagCompletionFunc("queue", completeQueues)
	return cmd
}

// enqueuedLine is what became of the call, as JSON.
type enqueuedLine struct {
	ID       int64          `json:"id"`
	State    penstock.State `json:"state"`
	New      bool           `json:"new"`
	Replaced bool           `json:"replaced"`
}

func runEnqueue(cmd *cobra.Command, f *enqueueFlags) error {
	ctx := cmd.Context()
	job, err := f.job(cmd.InOrStdin())
	if err != nil {
		return err
	}
	db := dbPath(f.db)
	c, err := openClient(ctx, db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := saysIfLocked(lockedOn(cmd), func() error { return f.limits(ctx, c) }); err != nil {
		return storeFailure(db, err)
	}
	var done []penstock.Enqueued
	err = saysIfLocked(lockedOn(cmd), func() (err error) {
		done, err = c.EnqueueMany(ctx, []penstock.NewJob{job})
		return err
	})
	if err != nil {
		var refused *penstock.EnqueueError
		if errors.As(err, &refused) && !isStoreFailure(err) {
			return inputf("%v", oneLine(refused.Err))
		}
		return storeFailure(db, err)
	}
	d := done[0]
	if f.json {
		return show.NewLines(cmd.OutOrStdout()).Print(enqueuedLine{d.ID, d.State, d.New, d.Replaced})
	}
	switch {
	case d.Replaced:
		fmt.Fprintf(cmd.ErrOrStderr(), "penstock: job %d had the unique key, and makes this call now\n", d.ID)
	case !d.New:
		fmt.Fprintf(cmd.ErrOrStderr(), "penstock: nothing was put in: job %d has the unique key, and is %v\n", d.ID, d.State)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), d.ID)
	return err
}

// job makes the job of the options. All errors are of usage.
func (f *enqueueFlags) job(in io.Reader) (penstock.NewJob, error) {
	r := httpcall.Request{Method: f.method, URL: f.url}
	var err error
	if r.Headers, err = f.header(); err != nil {
		return penstock.NewJob{}, err
	}
	if r.Body, err = body(f.data, in); err != nil {
		return penstock.NewJob{}, err
	}
	if f.url == "" {
		return penstock.NewJob{}, usagef("expected --url")
	}
	job, err := r.Job()
	if err != nil {
		return job, usagef("%v", oneLine(err))
	}
	f.draws.draws = drawsAndHost(f.draws.draws, httpcall.HostLimit(f.url))
	job.Limits = f.draws.draws
	job.Queue, job.Group, job.Priority, job.Attempts = f.queue, f.group, f.priority, f.attempts
	job.Delay, job.Timeout, job.Unique, job.Replace, job.AtMostOnce = f.delay, f.timeout, f.unique, f.replace, f.atMostOnce
	if f.key != "" {
		if err := httpcall.CheckKey(f.key); err != nil {
			return job, usagef("%v", err)
		}
		job.IdempotencyKey = f.key
	}
	if job.RunAt, err = instant("--run-at", f.runAt); err != nil {
		return job, err
	}
	if job.ExpiresAt, err = instant("--expires-at", f.expiresAt); err != nil {
		return job, err
	}
	if f.delay != 0 && f.runAt != "" {
		return job, usagef("give --delay or --run-at, not both")
	}
	for _, bad := range []struct {
		is   bool
		text string
	}{
		{f.delay < 0, "--delay must not be negative"},
		{f.timeout < 0, "--timeout must be above 0"},
		{f.attempts < 0, "--attempts must be at least 1"},
		{f.priority < 0 || f.priority > 9, "--priority must be from 1 to 9"},
		{f.replace && f.unique == "", "--replace needs --unique"},
	} {
		if bad.is {
			return job, usagef("%s", bad.text)
		}
	}
	return job, nil
}

// header reads -H. What is stored must not be a secret, which httpcall checks.
func (f *enqueueFlags) header() (map[string]string, error) {
	headers, err := parseHeaders(f.headers)
	if err != nil || len(headers) == 0 {
		return nil, err
	}
	out := map[string]string{}
	for name, values := range headers {
		out[name] = strings.Join(values, ", ")
	}
	return out, nil
}

// drawsAndHost adds the limit of the host, unless it is named.
func drawsAndHost(draws []penstock.Draw, host string) []penstock.Draw {
	for _, d := range draws {
		if d.Limit == host {
			return draws
		}
	}
	return append(draws, penstock.Draw{Limit: host, Cost: 1})
}

// body reads --data. Text that is not JSON, or is one JSON string, is sent as it
// is, which in a request is a JSON string.
func body(data string, in io.Reader) (json.RawMessage, error) {
	text := []byte(data)
	if name, isFile := strings.CutPrefix(data, "@"); isFile {
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, inputf("--data: %v", err)
			}
			defer f.Close()
			in = f
		}
		var err error
		if text, err = io.ReadAll(io.LimitReader(in, batch.MaxLine+1)); err != nil {
			return nil, inputf("--data: %v", err)
		}
		if len(text) > batch.MaxLine {
			return nil, inputf("--data: it has more than %s: keep large data elsewhere and send where it is", show.Bytes(batch.MaxLine))
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	if trimmed := bytes.TrimSpace(text); json.Valid(text) && trimmed[0] != '"' {
		return text, nil
	}
	if !utf8.Valid(text) {
		return nil, inputf("--data: expected JSON or text in UTF-8, got other bytes")
	}
	return quoteText(string(text)), nil
}

// instant reads a time of an option.
func instant(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usagef("%s: expected a time such as 2030-01-31T09:00:00+01:00, got %q", flag, text)
	}
	return t, nil
}

// limits sees to it that the limits exist: those given with a spec, and the
// host's, which holds nothing back unless somebody said so.
func (f *enqueueFlags) limits(ctx context.Context, c *penstock.Client) error {
	if err := f.draws.declare(ctx, c); err != nil {
		return err
	}
	host := httpcall.HostLimit(f.url)
	var unknown *store.UnknownLimitError
	if _, err := c.LimitByName(ctx, host); errors.As(err, &unknown) || errors.Is(err, store.ErrNotFound) {
		if err := c.DeclareLimit(ctx, host, "unlimited"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return f.draws.check(ctx, c)
}
