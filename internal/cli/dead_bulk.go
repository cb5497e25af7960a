package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

// bulk changes dead letters: those named, or those that match.
type bulk struct {
	*jobsFlags
	verb, done string
	pick       jobFilter
	all, yes   bool
	most       int64
	rate       string
	newKeys    bool
	beside     bool

	client *penstock.Client
	path   string
	signal *interrupts
	screen *screen
	out    io.Writer
	err    io.Writer
	apply  func(ctx context.Context, jobs []penstock.JobInfo) ([]error, error)

	report bulkReport
}

// bulkReport is what became of all, as JSON. The fields' names are said by the
// command, see end.
type bulkReport struct {
	done    int64
	refused int64
	gone    int64 // somebody else was faster
	doubt   int64 // left alone
}

// bulkChunk is how many jobs are changed in one commit.
const bulkChunk = 250

func (b *bulk) replay(cmd *cobra.Command, args []string) error {
	rate, err := parsePace(b.rate)
	if err != nil {
		return err
	}
	var newKey func() string
	if b.newKeys {
		newKey = penstock.NewIdempotencyKey
	}
	var p *pacer
	b.apply = func(ctx context.Context, jobs []penstock.JobInfo) ([]error, error) {
		var due []int64
		if rate > 0 || len(args) == 0 {
			first := p == nil
			if first {
				p = &pacer{client: b.client, rate: rate, beside: b.beside, lines: map[string]*pace{}}
			}
			var err error
			if due, err = p.dues(ctx, jobs); err != nil {
				return nil, err
			}
			if wait := show.Between(p.begin, slices.Min(due)); first && wait > second*time.Microsecond {
				b.screen.say("they come due behind what was put back before, the first one in %s; --beside begins now", show.Duration(wait))
			}
		}
		return b.client.Store().Replay(ctx, idsOf(jobs), due, newKey)
	}
	return b.run(cmd, args, penstock.Dead, penstock.Cancelled)
}

func (b *bulk) discard(cmd *cobra.Command, args []string) error {
	b.apply = func(ctx context.Context, jobs []penstock.JobInfo) ([]error, error) {
		return b.client.Store().Discard(ctx, idsOf(jobs))
	}
	return b.run(cmd, args, penstock.Dead)
}

func idsOf(jobs []penstock.JobInfo) []int64 {
	ids := make([]int64, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

// run applies the change to the jobs named, if they are in one of the states, or
// to the dead letters that match.
func (b *bulk) run(cmd *cobra.Command, args []string, states ...penstock.State) error {
	if err := checkIDs(args); err != nil {
		return err
	}
	if err := b.checkChoice(len(args) > 0); err != nil {
		return err
	}
	ctx := cmd.Context()
	var err error
	b.out, b.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if b.client, b.path, err = openThere(ctx, b.db, b.err); err != nil {
		return err
	}
	defer b.client.Close()
	ids, err := findIDs(ctx, b.client, args)
	if err != nil {
		return storeFailure(b.path, err)
	}
	now, err := b.client.Store().Now(ctx)
	if err != nil {
		return storeFailure(b.path, err)
	}
	filter, err := b.pick.filter(now)
	if err != nil {
		return err
	}
	if len(ids) == 0 && !b.yes && isTerminal(cmd.InOrStdin()) {
		if ok, err := b.confirm(ctx, cmd.InOrStdin(), filter, now); !ok || err != nil {
			return err
		}
	}
	b.signal = watchSignals(ctx)
	defer b.signal.close()
	b.screen = newScreen(b.err, b.json)
	defer b.screen.close()
	if len(ids) > 0 {
		err = b.named(ctx, ids, states)
	} else {
		err = b.matching(ctx, filter, now)
	}
	return b.end(err)
}

// checkChoice sees to it that something is chosen, and in one way only.
func (b *bulk) checkChoice(named bool) error {
	filters := !b.pick.empty()
	switch {
	case b.most < 0:
		return usagef("-n: expected at least 1, got %d", b.most)
	case named && (filters || b.all || b.most > 0):
		return usagef("give ids or options that select, not both")
	case !named && !filters && !b.all && b.most == 0:
		return usagef("say which: ids, options that select, or --all")
	}
	return nil
}

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// dead completes a filter: dead letters only, and none that dies from now on, so
// that what is replayed and dies again is not replayed again and again.
func (b *bulk) dead(f penstock.Filter, now int64) penstock.Filter {
	f.States = []penstock.State{penstock.Dead}
	if f.Before == 0 || f.Before > now {
		f.Before = now + 1
	}
	return f
}

// takes says whether a dead letter that matches is to be changed.
func (b *bulk) takes(j *penstock.JobInfo) bool {
	return b.verb != "replay" || j.Reason != store.InDoubt || b.pick.reason == string(store.InDoubt)
}

func (b *bulk) limit() int64 {
	if b.most > 0 {
		return b.most
	}
	return 1 << 62
}

// confirm counts what matches and asks.
func (b *bulk) confirm(ctx context.Context, in io.Reader, f penstock.Filter, now int64) (bool, error) {
	n := int64(0)
	err := eachJob(ctx, b.client, b.dead(f, now), func(jobs []penstock.JobInfo) (bool, error) {
		for i := range jobs {
			if b.takes(&jobs[i]) {
				n++
			}
		}
		return n < b.limit(), nil
	})
	if err != nil {
		return false, storeFailure(b.path, err)
	}
	if n = min(n, b.limit()); n == 0 {
		return true, nil // the report says so
	}
	fmt.Fprintf(b.err, "penstock: %s %s? [y/N] ", b.verb, count(n, "dead letter"))
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, &exitError{Code: exitFailed, Err: fmt.Errorf("nothing was %s", b.done)}
}

// named changes the jobs of the ids, a chunk at a time.
func (b *bulk) named(ctx context.Context, ids []int64, states []penstock.State) error {
	for len(ids) > 0 && !b.signal.stopped() {
		chunk := ids[:min(len(ids), bulkChunk)]
		ids = ids[len(chunk):]
		found, err := b.client.Jobs(ctx, penstock.Filter{IDs: chunk, N: len(chunk)})
		if err != nil {
			return err
		}
		there := map[int64]penstock.JobInfo{}
		for _, j := range found {
			there[j.ID] = j
		}
		var jobs []penstock.JobInfo
		for _, id := range chunk {
			j, ok := there[id]
			switch {
			case !ok:
				err = b.refuse(id, "there is no such job")
			case !hasState(j.State, states):
				err = b.refuse(id, fmt.Sprintf("it is %v, not dead", j.State))
			default:
				jobs = append(jobs, j)
			}
			if err != nil {
				return err
			}
		}
		if err := b.change(ctx, jobs, false); err != nil {
			return err
		}
	}
	return nil
}

func hasState(s penstock.State, states []penstock.State) bool {
	for _, ok := range states {
		if s == ok {
			return true
		}
	}
	return false
}

// matching changes the dead letters that match, a chunk at a time.
func (b *bulk) matching(ctx context.Context, f penstock.Filter, now int64) error {
	left := b.limit()
	return eachJob(ctx, b.client, b.dead(f, now), func(found []penstock.JobInfo) (bool, error) {
		var jobs []penstock.JobInfo
		for _, j := range found {
			switch {
			case int64(len(jobs)) == left:
			case b.takes(&j):
				jobs = append(jobs, j)
			default:
				b.report.doubt++
			}
		}
		left -= int64(len(jobs))
		if err := b.change(ctx, jobs, true); err != nil {
			return false, err
		}
		return left > 0 && !b.signal.stopped(), nil
	})
}

// change applies the change to one chunk. many says that the jobs were not
// named, so that one which somebody else has changed meanwhile is no failure.
func (b *bulk) change(ctx context.Context, jobs []penstock.JobInfo, many bool) error {
	if len(jobs) == 0 {
		return nil
	}
	var errs []error
	err := saysIfLocked(b.screen.tell, func() (err error) {
		errs, err = b.apply(ctx, jobs)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { b.screen.note(count(b.report.done, "dead letter") + " " + b.done) }()
	for i, e := range errs {
		switch {
		case e == nil:
			b.report.done++
		case many && errors.Is(e, store.ErrNotFound):
			b.report.gone++
		default:
			if err := b.refuse(jobs[i].ID, e.Error()); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuse tells of a job that was not changed.
func (b *bulk) refuse(id int64, why string) error {
	const most = 20
	b.report.refused++
	why = strings.TrimPrefix(why, fmt.Sprintf("job %d: ", id))
	if b.json {
		return show.NewLines(b.out).Print(struct {
			ID    int64  `json:"id"`
			Error string `json:"error"`
		}{id, why})
	}
	switch n := b.report.refused; {
	case n <= most:
		b.screen.say("job %d is not %s: %s", id, b.done, why)
	case n == most+1:
		b.screen.say("further ones are counted only; --json has them all")
	}
	return nil
}

// end prints the counts and gives the exit code.
func (b *bulk) end(err error) error {
	r := b.report
	b.screen.clear()
	if b.json {
		counts := map[string]int64{b.done: r.done, "refused": r.refused, "gone": r.gone}
		if b.verb == "replay" {
			counts["in_doubt_left"] = r.doubt
		}
		err = errors.Join(err, show.NewLines(b.out).Print(counts))
	} else {
		text := fmt.Sprintf("%s %s", count(r.done, "dead letter"), b.done)
		for _, more := range []struct {
			n    int64
			what string
		}{{r.refused, "refused"}, {r.gone, "taken by somebody else meanwhile"}, {r.doubt, "in doubt left as they are (--reason in_doubt replays them)"}} {
			if more.n > 0 {
				text += fmt.Sprintf(", %s %s", show.Number(more.n), more.what)
			}
		}
		if b.signal.stopped() {
			text += "; interrupted, the same command goes on"
		}
		_, e := fmt.Fprintln(b.out, text)
		err = errors.Join(err, e)
	}
	switch {
	case err != nil:
		return storeFailure(b.path, err)
	case b.signal.stopped():
		return &exitError{Code: b.signal.code()}
	case r.refused > 0:
		return &exitError{Code: exitFailed}
	}
	return nil
}
