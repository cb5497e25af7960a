package cli

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/batch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/retry"
)

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// runPlan is what penstock run is to do: its options, checked.
type runPlan struct {
	runFlags
	file        string
	base        batch.Base
	hostLimit   *limit.Spec           // for each host; nil: not given
	namedLimits map[string]limit.Spec // by name or pattern
	headers     http.Header
	concurrency int
}

// plan checks the options. All errors are of usage.
func (f runFlags) plan(file string) (*runPlan, error) {
	p := &runPlan{runFlags: f, file: file, namedLimits: map[string]limit.Spec{}}
	p.db = dbPath(f.db)
	if err := checkDB(p.db); err != nil {
		return nil, err
	}
	if f.out == "-" {
		return nil, usagef("--out -: results go to a file, since they are put right after a crash; standard output is for --json (a file of that name is ./-)")
	}
	if p.run == "" {
		if p.run = filepath.Base(file); file == "-" {
			p.run = "stdin"
		}
	}
	var err error
	if p.metrics, err = metricsAddress(f.metrics); err != nil {
		return nil, err
	}
	if p.base, err = batch.ParseBase(f.base); err != nil {
		return nil, usagef("--base-url: %v", err)
	}
	for _, text := range f.limits {
		if err := p.addLimit(text); err != nil {
			return nil, err
		}
	}
	if p.headers, err = parseHeaders(f.headers); err != nil {
		return nil, err
	}
	if p.concurrency, err = parsePlaces(f.concurrency); err != nil {
		return nil, err
	}
	if err := checkCallFlags(f.attempts, f.timeout, f.throttleBudget, f.grace, f.queues); err != nil {
		return nil, err
	}
	if err := p.callOptions().Validate(); err != nil {
		return nil, usagef("%v", oneLine(err))
	}
	return p, nil
}

// addLimit reads one --limit: SPEC, or NAME=SPEC.
func (p *runPlan) addLimit(text string) error {
	i := strings.LastIndex(text, "=")
	spec, err := limit.Parse(text[i+1:])
	if err != nil {
		return usagef("--limit %q: %v", text, oneLine(err))
	}
	if i < 0 {
		if p.hostLimit != nil {
			return usagef("--limit %q: each host has a limit already, %s: join what must hold together with a comma, or write NAME=SPEC", text, p.hostLimit)
		}
		p.hostLimit = &spec
		return nil
	}
	name := text[:i]
	if name == "" {
		return usagef("--limit %q: expected a name before the =", text)
	}
	if _, twice := p.namedLimits[name]; twice {
		return usagef("--limit %q: this limit is given twice: join what must hold together with a comma", text)
	}
	p.namedLimits[name] = spec
	return nil
}

func parseHeaders(texts []string) (http.Header, error) {
	headers := http.Header{}
	for i, text := range texts {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			// The text may be a secret, so it is not quoted.
			return nil, usagef("-H number %d: expected 'Name: value'", i+1)
		}
		headers.Add(name, strings.TrimSpace(value))
	}
	return headers, nil
}

func (p *runPlan) callOptions() httpcall.Options {
	return httpcall.Options{
		Headers:        p.headers,
		KeyHeader:      p.keyHeader,
		Timeout:        p.timeout,
		Retry:          retry.Policy{MaxAttempts: p.attempts},
		ThrottleBudget: p.throttleBudget,
	}
}

// oneLine writes joined errors on one line.
func oneLine(err error) error {
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
}
