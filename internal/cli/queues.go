package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
)

const queuesLong = `List the queues of a database: how many jobs are due, scheduled for later, running,
dead, done and cancelled, and the age of the oldest due one.

RATE is how many jobs of the queue came to an end a second, done or dead, in the last
five minutes, judged by the newest 10,000 jobs that ended. DRAINED IN is how long
the due jobs take at that rate. It is left out where too few ended to tell, and
knows nothing of jobs still to come, of scheduled ones, or of retries.`

const queuesExample = `  penstock queues
  penstock queues pause mail --reason "the provider is down"
  penstock queues resume mail`

const (
	flowWindow = 5 * time.Minute
	flowLeast  = 5 // ends from which a rate can be told
)

func newQueues() *cobra.Command {
	var f opsFlags
	cmd := &cobra.Command{
		Use: "queues", Short: "List queues, pause and resume them",
		Long: queuesLong, Example: queuesExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
				queues, err := queueLines(ctx, c.Store(), now)
				if err != nil {
					return err
				}
				return printQueues(cmd, f.json, queues, now)
			})
		},
	}
	f.add(cmd)
	cmd.AddCommand(newQueuesPause(&f), newQueuesResume(&f))
	return cmd
}

// queueLine is a queue in a list, as JSON.
type queueLine struct {
	Name      string        `json:"name"`
	Due       int64         `json:"due"`
	Scheduled int64         `json:"scheduled"`
	Running   int64         `json:"running"`
	Dead      int64         `json:"dead"`
	Done      int64         `json:"done"`
	Cancelled int64         `json:"cancelled"`
	OldestDue show.Time     `json:"oldest_due_at"`
	OldestAge *show.Seconds `json:"oldest_due_age_seconds"`
	Rate      *float64      `json:"ended_per_second"`   // null: too few ended lately
	Drained   *show.Seconds `json:"drained_in_seconds"` // at that rate; null: not known
	Paused    *queuePause   `json:"paused"`
}

type queuePause struct {
	Since  show.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

func queueLines(ctx context.Context, st store.Store, now int64) ([]queueLine, error) {
	infos, err := st.Queues(ctx)
	if err != nil {
		return nil, err
	}
	flows, err := st.Flow(ctx, now-flowWindow.Microseconds())
	if err != nil {
		return nil, err
	}
	out := make([]queueLine, len(infos))
	for i, q := range infos {
		out[i] = newQueueLine(q, flows[q.Name], now)
	}
	return out, nil
}

func newQueueLine(q store.QueueInfo, flow store.Flow, now int64) queueLine {
	l := queueLine{Name: q.Name, Due: q.Due, Scheduled: q.Scheduled, Running: q.Running, Dead: q.Dead, Done: q.Done, Cancelled: q.Cancelled,
		OldestDue: show.Time(q.OldestDue)}
	if q.OldestDue != 0 {
		age := show.Seconds(max(0, show.Between(q.OldestDue, now)))
		l.OldestAge = &age
	}
	if q.Paused {
		l.Paused = &queuePause{Since: show.Time(q.PausedAt), Reason: q.PausedReason}
	}
	// The first end only says where the time begins that the others are counted in.
	if span := show.Between(flow.First, now).Seconds(); flow.Ended >= flowLeast && span > 0 {
		rate := float64(flow.Ended-1) / span
		l.Rate = &rate
		if l.Due > 0 && !q.Paused {
			drained := show.Seconds(float64(l.Due) / rate * float64(time.Second))
			l.Drained = &drained
		}
	}
	return l
}

func printQueues(cmd *cobra.Command, json bool, queues []queueLine, now int64) error {
	if json {
		lines := show.NewLines(cmd.OutOrStdout())
		for i := range queues {
			if err := lines.Print(&queues[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(queues) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no queues")
		return err
	}
	t := &show.Table{Columns: []show.Column{{Name: "queue", Flex: true}, {Name: "due", Right: true}, {Name: "scheduled", Right: true},
		{Name: "running", Right: true}, {Name: "dead", Right: true}, {Name: "done", Right: true}, {Name: "cancelled", Right: true}, {Name: "oldest", Right: true},
		{Name: "rate", Right: true}, {Name: "drained in", Right: true}, {Name: "state", Flex: true}}}
	for i := range queues {
		q := &queues[i]
		t.Add(q.Name, show.Number(q.Due), show.Some(q.Scheduled), show.Some(q.Running), show.Some(q.Dead), show.Some(q.Done), show.Some(q.Cancelled),
			show.Age(now, int64(q.OldestDue)), q.rate(), q.drained(), q.state(now))
	}
	return t.Print(show.On(cmd.OutOrStdout()))
}

func (q *queueLine) rate() string {
	switch {
	case q.Rate == nil:
		return ""
	case *q.Rate >= 10:
		return show.Number(int64(*q.Rate+0.5)) + "/s"
	case *q.Rate >= 1:
		return strconv.FormatFloat(*q.Rate, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(*q.Rate*60, 'f', 1, 64) + "/m"
}

func (q *queueLine) drained() string {
	if q.Drained == nil {
		return ""
	}
	return show.Duration(durationOf(*q.Drained))
}

func (q *queueLine) state(now int64) string {
	if q.Paused == nil {
		return ""
	}
	text := "paused"
	if age := show.Between(int64(q.Paused.Since), now); age >= time.Second {
		text += " for " + show.Duration(age)
	}
	if q.Paused.Reason != "" {
		text += ": " + q.Paused.Reason
	}
	return text
}

func newQueuesPause(f *opsFlags) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Let nothing of a queue start",
		Long: `Let nothing of a queue start until it is resumed, whatever is restarted, rescued or
comes due meanwhile. Jobs still come in, and those that run are not touched. A
queue can be paused before there is a job in it.`,
		Example: `  penstock queues pause mail --reason "the provider is down"`,
		Args:    oneName("queue"), ValidArgsFunction: firstOnly(completeQueues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.changeQueue(cmd, args[0], func(ctx context.Context, st store.Store) error { return st.PauseQueue(ctx, args[0], reason) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for those who wonder")
	return cmd
}

func newQueuesResume(f *opsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "Let a paused queue go on",
		Long:    "Let a paused queue go on, under its limits as ever. Resuming one that is not\npaused changes nothing.",
		Example: "  penstock queues resume mail",
		Args:    oneName("queue"), ValidArgsFunction: firstOnly(completeQueues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.changeQueue(cmd, args[0], func(ctx context.Context, st store.Store) error { return st.ResumeQueue(ctx, args[0]) })
		},
	}
}

// changeQueue changes a queue and shows how it is then.
func (f *opsFlags) changeQueue(cmd *cobra.Command, name string, fn func(context.Context, store.Store) error) error {
	return f.with(cmd, func(ctx context.Context, c *penstock.Client, now int64) error {
		if err := saysIfLocked(lockedOn(cmd), func() error { return fn(ctx, c.Store()) }); err != nil {
			return err
		}
		queues, err := queueLines(ctx, c.Store(), now)
		if err != nil {
			return err
		}
		line := []queueLine{{Name: name}}
		for _, q := range queues {
			if q.Name == name {
				line[0] = q
			}
		}
		if line[0].Due+line[0].Scheduled+line[0].Running+line[0].Dead+line[0].Done+line[0].Cancelled == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "penstock: there is no job in queue %q at the moment\n", name)
		}
		return printQueues(cmd, f.json, line, now)
	})
}
