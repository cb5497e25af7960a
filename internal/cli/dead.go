package cli

import (
	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
)

const deadLong = `List the dead letters: jobs that failed for good. None is dropped, however many
there are; "replay" puts them back in line, "discard" removes them.

Reasons: exhausted (failed on its last attempt), rejected (known to fail on every
attempt), throttled (refused by its API for too long), expired (not started in
time), lost (its process died under it again and again), in_doubt (an effect that
may happen at most once may have happened).`

const deadExample = `  # all that died in the last day because the API said no
  penstock dead --reason rejected --newer-than 1d

  # one, with the answers it got
  penstock dead show 17

  # the API is well again
  penstock dead replay --limit api.example.com --reason exhausted

  # old ones are of no use any more
  penstock dead discard --older-than 30d`

func newDead() *cobra.Command {
	f := &jobsFlags{jobFilter: jobFilter{states: []string{"dead"}}}
	cmd := &cobra.Command{
		Use:     "dead",
		Short:   "List dead letters, show one, replay or discard them",
		Long:    deadLong,
		Example: deadExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listJobs(cmd, f)
		},
	}
	o := cmd.Flags()
	o.SortFlags = false
	f.add(o)
	o.Var((*filled)(&f.reason), "reason", reasonUsage)
	f.addPage(o)
	cmd.PersistentFlags().SortFlags = false
	addDB(cmd.PersistentFlags(), &f.db)
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON lines")
	completeFilter(cmd)
	cmd.AddCommand(
		newShow(f, "Show a dead letter with its whole history", "  penstock dead show 17", penstock.Dead),
		newDeadReplay(f), newDeadDiscard(f),
	)
	return cmd
}

const reasonUsage = "only those that are dead for this `reason`"

// addBulk gives a command that changes dead letters the options that select them.
func (b *bulk) addBulk(cmd *cobra.Command) {
	o := cmd.Flags()
	o.SortFlags = false
	b.pick.add(o)
	o.Var((*filled)(&b.pick.reason), "reason", reasonUsage)
	o.BoolVar(&b.all, "all", false, "all dead letters")
	o.Int64VarP(&b.most, "n", "n", 0, "at most so many, the oldest ids first (default all that match)")
	o.BoolVarP(&b.yes, "yes", "y", false, "do not ask, also on a terminal")
	completeFilter(cmd)
	cmd.ValidArgsFunction = completeJobs(penstock.Dead)
}

const replayLong = `Put dead letters back in line: those named, or all that match the options. They
keep their id, payload, limits, priority, queue and history, and get all their
attempts again. A job is named by its id or as RUN/CALL-ID. Cancelled jobs can be
replayed by name, too.

Live work first. Jobs that are named are due at once. Those selected by options come
due one after the other, in the order of their ids, at half the pace of the limit
that each of them draws on (50 a second where no limit says anything), so that new
work finds room beside them. --rate sets another pace, for all of them together.
They are under their limits in any case.

Large numbers are put back in chunks of a few hundred, each in one commit. The
command may be ended at any time and given again: it goes on with what is left.
What an earlier command put back keeps its due times, and what this one puts back
under the same limits comes due behind it, so that the pace stays what it is;
--beside begins now instead.
Calls in doubt are left alone unless they are named, or selected by
--reason in_doubt: they may have happened.

A job whose unique key is in use by another one is reported and stays dead.

Exit code: 0 all are back in line, 1 some are not, 130 or 143 ended by a signal.`

const replayExample = `  penstock dead replay 17 18
  penstock dead replay --reason exhausted --newer-than 2h
  penstock dead replay --all --rate 20/s --yes

  # the API answers a used idempotency key with the failure it kept
  penstock dead replay --kind http --text "402 Payment" --new-key`

func newDeadReplay(f *jobsFlags) *cobra.Command {
	b := &bulk{jobsFlags: f, verb: "replay", done: "replayed"}
	cmd := &cobra.Command{
		Use: "replay [JOB...]", Short: "Put dead letters back in line", Long: replayLong, Example: replayExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.replay(cmd, args)
		},
	}
	b.addBulk(cmd)
	cmd.Flags().Var((*filled)(&b.rate), "rate", "the `pace` at which they come due, such as 20/s or 100/m (default see above)")
	cmd.Flags().BoolVar(&b.beside, "beside", false, "begin now, beside what earlier commands put back, not behind it")
	cmd.Flags().BoolVar(&b.newKeys, "new-key", false, "make new idempotency keys: the API takes each call for a new one")
	return cmd
}

const discardLong = `Remove dead letters for good, with their payloads, results and history: those
named, or all that match the options. Large numbers go in chunks; the command may
be ended at any time and given again. Their call ids are free again: the same command
of penstock run makes such a call anew.

Exit code: 0 all are gone, 1 some are not, 130 or 143 ended by a signal.`

const discardExample = `  penstock dead discard 17 18
  penstock dead discard --older-than 30d
  penstock dead discard --all --yes`

func newDeadDiscard(f *jobsFlags) *cobra.Command {
	b := &bulk{jobsFlags: f, verb: "discard", done: "discarded"}
	cmd := &cobra.Command{
		Use: "discard [JOB...]", Short: "Remove dead letters for good", Long: discardLong, Example: discardExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.discard(cmd, args)
		},
	}
	b.addBulk(cmd)
	return cmd
}
