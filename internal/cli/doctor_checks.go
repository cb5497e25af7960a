package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/sqlite"
)

// What the checks hold to be too much or too little.
const (
	logNoted      = 256 << 20 // bytes of the write-ahead log
	diskNoted     = 1 << 30   // bytes free
	diskProblem   = 256 << 20
	aheadProblem  = time.Minute // of the clock
	pausedProblem = 24 * time.Hour
	limitsLooked  = 10_000
	named         = 5 // things of one kind that are named
)

// file checks the file of the store, if it is one.
func (d *doctor) file() error {
	s, ok := d.st.(*sqlite.Store)
	if !ok {
		return nil
	}
	i, err := s.FileInfo(d.ctx)
	if err != nil {
		return err
	}
	d.find("schema", fine, "", "version %d, the newest this program knows", i.Schema)
	d.details(schemaDetails{Version: i.Schema, Newest: i.Known, Bytes: i.Size})
	if !d.fast {
		begun := time.Now()
		found, err := s.QuickCheck(d.ctx, named)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			d.find("integrity", problem, "stop all processes and go back to a copy of the file; see https://sqlite.org/recovery.html", "SQLite finds the file damaged: %s", strings.Join(found, "; "))
		} else {
			d.find("integrity", fine, "", "SQLite finds the file whole (%s, read in %s)", show.Bytes(i.Size), show.Duration(time.Since(begun)))
		}
	}
	if i.Log > logNoted {
		d.find("log", noted, "a process that reads for very long keeps it from being emptied", "the write-ahead log has %s", show.Bytes(i.Log))
	} else {
		d.find("log", fine, "", "the write-ahead log has %s", show.Bytes(i.Log))
	}
	d.details(bytesDetails{i.Log})
	defer func() { d.details(diskOf(i)) }()
	text := fmt.Sprintf("%s free; the file has %s, of which %s are free for use", show.Bytes(i.DiskFree), show.Bytes(i.Size), show.Bytes(i.Unused))
	const room = "make room, or prune what ended long ago: penstock prune --older-than 30d"
	switch {
	case i.DiskFree < 0:
		d.find("disk", noted, "", "nobody can tell how much room is left")
	case i.DiskFree < diskProblem:
		d.find("disk", problem, room, "%s", text)
	case i.DiskFree < diskNoted:
		d.find("disk", noted, room, "%s", text)
	default:
		d.find("disk", fine, "", "%s", text)
	}
	return nil
}

func diskOf(i sqlite.FileInfo) diskDetails {
	out := diskDetails{File: i.Size, Unused: i.Unused}
	if i.DiskFree >= 0 {
		out.Free = &i.DiskFree
	}
	return out
}

// clock looks for instants that have not come yet.
func (d *doctor) clock() error {
	c, err := d.st.Checkup(d.ctx)
	if err != nil {
		return err
	}
	newest, what := c.Newest, "a job"
	for _, w := range d.workers {
		if w.SeenAt > newest {
			newest, what = w.SeenAt, "a heartbeat"
		}
	}
	defer func() { d.details(clockDetails{show.Time(c.Now), show.Time(newest), ahead(c.Now, newest)}) }()
	if ahead := show.Between(c.Now, newest); ahead > aheadProblem {
		d.find("clock", problem, "set the clock right; due times and pauses that were written meanwhile are off by as much",
			"the clock was put back, or is wrong: %s is said to be of %s", what, show.When(c.Now, newest))
		return nil
	}
	d.find("clock", fine, "", "nothing is from the future")
	return nil
}

// processes looks for workers that are gone and were not cleaned up.
func (d *doctor) processes() error {
	live, dead, held := 0, []string{}, int64(0)
	for _, w := range d.workers {
		if !w.Dead {
			live++
			continue
		}
		dead = append(dead, fmt.Sprintf("%d on %s (last seen %s ago)", w.PID, w.Host, show.Age(d.now, w.SeenAt)))
		held += w.Holds
	}
	defer func() { d.details(processDetails{live, len(dead), held}) }()
	switch {
	case held > 0:
		d.find("processes", problem, "a worker that starts takes them back", "%s gone or standing still, and %s taken back: %s",
			amount(len(dead), "process is", "processes are"), amount(int(held), "job was not", "jobs were not"), list(dead))
	case len(dead) > 0:
		d.find("processes", noted, "", "%s gone or standing still, and had no job: %s", amount(len(dead), "process is", "processes are"), list(dead))
	default:
		d.find("processes", fine, "", "%s this database", amount(live, "process works", "processes work"))
	}
	return nil
}

// leases looks for running jobs that no known process has: nobody would ever
// take them back.
func (d *doctor) leases() (err error) {
	running, held := int64(0), int64(0)
	for _, q := range d.queues {
		running += q.Running
	}
	var lost []string
	defer func() {
		if err == nil {
			d.details(leaseDetails{running, len(lost)})
		}
	}()
	known := map[string]bool{}
	for _, w := range d.workers {
		known[w.ID] = true
		held += w.Holds
	}
	if running == held {
		d.find("leases", fine, "", "%s", runningText(running))
		return nil
	}
	// The two were not counted at the same instant: look at each.
	for after, more := int64(0), true; more; {
		jobs, err := d.st.Jobs(d.ctx, store.Filter{States: []store.State{store.Running}, AfterID: after, N: pageJobs})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			after = j.ID
			if !known[j.Worker] && j.LeasedAt < d.now { // a later one may have a worker that came later
				lost = append(lost, fmt.Sprintf("job %d, since %s", j.ID, show.Clock(d.now, j.LeasedAt)))
			}
		}
		more = len(jobs) == pageJobs
	}
	if len(lost) > 0 {
		d.find("leases", problem, "this is a fault of Penstock: please report it", "%s with a process that nobody knows: %s", amount(len(lost), "job runs", "jobs run"), list(lost))
		return nil
	}
	d.find("leases", fine, "", "%s", runningText(running))
	return nil
}

func runningText(n int64) string {
	if n == 0 {
		return "no job runs"
	}
	return amount(int(n), "job runs", "jobs run") + ", each with a process that is known"
}

// sweeps tells what the safety net caught.
func (d *doctor) sweeps() error {
	c, err := d.st.Checkup(d.ctx)
	if err != nil {
		return err
	}
	defer func() { d.details(sweepDetails{c.SweepFinds, show.Time(c.LastFind)}) }()
	if c.SweepFinds > 0 {
		d.find("sweeps", problem, "this is a fault of Penstock: please report it",
			"sweeps found work asleep that should have been awake %s, last at %s", show.Count(c.SweepFinds, "time"), show.When(c.Now, c.LastFind))
		return nil
	}
	d.find("sweeps", fine, "", "none has found anything")
	return nil
}

// limits tells which ones stand still by the will of people.
func (d *doctor) limits() error {
	var paused []string
	worst, n := fine, 0
	for after := ""; n < limitsLooked; {
		page, err := d.st.ListLimits(d.ctx, after, pageJobs)
		if err != nil {
			return err
		}
		for i := range page {
			l := &page[i]
			n++
			after = l.Name
			for _, p := range pausesOf(l, d.now) {
				if p.By == "api" {
					continue
				}
				since := ""
				if p.Since != 0 {
					since = "; since " + show.Clock(d.now, int64(p.Since))
				}
				paused = append(paused, fmt.Sprintf("%s (%s%s)", l.Name, p.text(d.now), since))
				if worst = worse(worst, noted); p.Since != 0 && show.Between(int64(p.Since), d.now) > pausedProblem {
					worst = problem
				}
				break
			}
		}
		if len(page) < pageJobs {
			break
		}
	}
	defer func() { d.details(pausedDetails{len(paused)}) }()
	if len(paused) > 0 {
		d.find("limits", worst, "if it was forgotten: penstock limits resume NAME", "%s stopped by a person: %s", amount(len(paused), "limit is", "limits are"), list(paused))
		return nil
	}
	d.find("limits", fine, "", "none is stopped by a person")
	return nil
}

// pausedQueues tells which queues people paused.
func (d *doctor) pausedQueues() error {
	var paused []string
	worst := fine
	for _, q := range d.queues {
		if !q.Paused {
			continue
		}
		l := newQueueLine(q, store.Flow{}, d.now)
		paused = append(paused, fmt.Sprintf("%s (%s; %s)", q.Name, l.state(d.now), show.Count(q.Due, "due job")))
		if worst = worse(worst, noted); show.Between(q.PausedAt, d.now) > pausedProblem {
			worst = problem
		}
	}
	defer func() { d.details(pausedDetails{len(paused)}) }()
	if len(paused) > 0 {
		d.find("queues", worst, "if it was forgotten: penstock queues resume NAME", "%s paused: %s", amount(len(paused), "queue is", "queues are"), list(paused))
		return nil
	}
	d.find("queues", fine, "", "none is paused")
	return nil
}

// unserved tells of due jobs that no live process can run. A wish for a permit whose
// process is gone is one that nobody needs to care for.
func (d *doctor) unserved() error {
	all, err := d.st.Unserved(d.ctx)
	if err != nil {
		return err
	}
	var texts []string
	total, wishes := int64(0), int64(0)
	for _, u := range all {
		if strings.HasPrefix(u.Kind, store.PrivateKind) {
			wishes += u.Due
			continue
		}
		text := fmt.Sprintf("%s of kind %s in queue %s", show.Number(u.Due), u.Kind, u.Queue)
		if u.Run != "" {
			text += ", run " + u.Run
		}
		texts = append(texts, text)
		total += u.Due
	}
	if total > 0 {
		d.find("workers", problem, "start a process that runs them, such as penstock work for kind http", "no live process runs %s: %s", show.Count(total, "due job"), list(texts))
	} else {
		d.find("workers", fine, "", "each due job has a process that can run it")
	}
	d.details(countDetails{total})
	if wishes > 0 {
		d.find("permits", noted, "the next process that works for a while removes them; none is granted", "%s for a permit, of processes that are gone", show.Count(wishes, "wish"))
		d.details(countDetails{wishes})
	}
	return nil
}

// deadLetters counts them.
func (d *doctor) deadLetters() error {
	n := int64(0)
	for _, q := range d.queues {
		n += q.Dead
	}
	defer func() { d.details(countDetails{n}) }()
	if n > 0 {
		d.find("dead", noted, "see penstock dead", "%s", show.Count(n, "dead letter"))
		return nil
	}
	d.find("dead", fine, "", "no dead letters")
	return nil
}

// list names the first few of many.
func list(all []string) string {
	slices.Sort(all)
	if len(all) > named {
		return strings.Join(all[:named], "; ") + fmt.Sprintf("; and %d more", len(all)-named)
	}
	return strings.Join(all, "; ")
}

// amount is a number with the words that go with it.
func amount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return show.Number(int64(n)) + " " + many
}
