package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/sqlite"
)

const pruneLong = `Remove jobs that ended longer ago than an age, with their payloads, results and
history: done and cancelled ones, and with --dead dead letters, too. Then remove
what no job needs any more: lines, gates and bands that were left empty, and the
state of keyed limits that are as good as new.

It works in small steps beside everything else, and can be interrupted and
repeated. The file, or the server's tables, keep their size: the room is used again.

The ids of a run's calls stay, a short row for each: the same command of penstock
run does not make calls again that were pruned, whatever came of them. With
--forget-calls the ids of the calls removed are forgotten, too, and a run makes them
anew: forget only what is older than any file that may be run again.`

const pruneExample = `  penstock prune --older-than 24h
  penstock prune --older-than 90d --dead --json

  # a nightly file whose calls have new ids every night
  penstock prune --older-than 90d --forget-calls`

// pruneChunk is how many jobs go in one commit.
const pruneChunk = 1000

func newPrune() *cobra.Command {
	var f opsFlags
	p := pruning{}
	cmd := &cobra.Command{
		Use: "prune --older-than AGE", Short: "Remove jobs that ended long ago",
		Long: pruneLong, Example: pruneExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.age == 0 {
				return usagef("--older-than: expected an age such as 24h or 30d")
			}
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				return p.run(cmd, c.Store(), now, f.json)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().Var(&p.age, "older-than", "how long ago a job must have ended, such as 24h or 30d")
	cmd.Flags().BoolVar(&p.dead, "dead", false, "remove dead letters, too")
	cmd.Flags().BoolVar(&p.forget, "forget-calls", false, "forget the ids of calls that are removed, so that a run would make them again")
	cmd.Flags().BoolVarP(&p.quiet, "quiet", "q", false, "no progress")
	return cmd
}

// pruning is one run of penstock prune.
type pruning struct {
	age   age
	dead  bool
	quiet bool

	forget bool // call ids

	screen *screen
	report pruneReport
}

// pruneReport is what was removed, as JSON.
type pruneReport struct {
	Jobs        int64        `json:"jobs"`
	Lanes       int          `json:"lines"`
	Gates       int          `json:"gates"`
	Bands       int          `json:"bands"`
	LimitStates int          `json:"limit_states"`
	Unused      *int64       `json:"unused_bytes"` // in the file, after it; null on a server
	Elapsed     show.Seconds `json:"elapsed_seconds"`
	Interrupted bool         `json:"interrupted"`
}

func (p *pruning) run(cmd *cobra.Command, st store.Store, now int64, json bool) error {
	signals := watchSignals(cmd.Context())
	defer signals.close()
	p.screen = newScreen(cmd.ErrOrStderr(), p.quiet)
	defer p.screen.close()
	begun := time.Now()
	err := p.remove(signals.stop, st, now)
	p.screen.clear()
	if p.report.Interrupted = signals.stopped(); err != nil && !p.report.Interrupted {
		return err
	}
	p.report.Elapsed = show.Seconds(time.Since(begun))
	if s, ok := st.(*sqlite.Store); ok {
		if info, err := s.FileInfo(cmd.Context()); err == nil {
			p.report.Unused = &info.Unused
		}
	}
	if err := p.print(cmd, json); err != nil {
		return err
	}
	if p.report.Interrupted {
		return &exitError{Code: signals.code(), Err: errors.New("interrupted: what was removed is removed; run the same command again for the rest")}
	}
	return nil
}

func (p *pruning) remove(ctx context.Context, st store.Store, now int64) error {
	states := []store.State{store.Done, store.Cancelled}
	if p.dead {
		states = append(states, store.Dead)
	}
	before := now - time.Duration(p.age).Microseconds()
	prune := st.Prune
	if p.forget {
		prune = st.PruneCalls
	}
	for {
		n := 0
		err := saysIfLocked(p.screen.tell, func() (err error) {
			n, err = prune(ctx, states, before, pruneChunk)
			return err
		})
		if err != nil {
			return err
		}
		p.report.Jobs += int64(n)
		p.screen.note("removed " + show.Count(p.report.Jobs, "job"))
		if n < pruneChunk {
			break
		}
	}
	p.screen.note("tidying")
	t, err := st.Tidy(ctx)
	p.report.Lanes, p.report.Gates, p.report.Bands, p.report.LimitStates = t.Lanes, t.Gates, t.Bands, t.LimitStates
	return err
}

func (p *pruning) print(cmd *cobra.Command, json bool) error {
	if json {
		return show.NewLines(cmd.OutOrStdout()).Print(p.report)
	}
	r := &p.report
	room := "\n"
	if r.Unused != nil {
		room = "; " + show.Bytes(*r.Unused) + " of the file are free for use\n"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "removed %s; %s, %s, %s and %s%s",
		show.Count(r.Jobs, "job"), show.Count(int64(r.Lanes), "line"), show.Count(int64(r.Gates), "gate"), show.Count(int64(r.Bands), "band"),
		show.Count(int64(r.LimitStates), "limit state"), room)
	return err
}
