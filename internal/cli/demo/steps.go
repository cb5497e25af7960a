package demo

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/penstockhq/penstock"
)

// enqueue puts all messages in line, some of them twice.
func (d *demo) enqueue(ctx context.Context) error {
	list := messages(d.Seed)
	d.book = newContacts(list)
	if err := d.book.save(d.contacts()); err != nil {
		return fmt.Errorf("the customers' numbers: %w", err)
	}
	if err := d.client.DeclareLimit(ctx, limitName, d.spec()); err != nil {
		return err
	}
	if err := d.client.DeclareKind(kind, smsKind); err != nil {
		return err
	}
	again := 0
	for round := range 2 {
		for i, m := range list {
			if round == 1 && !m.Twice {
				continue
			}
			job := payload{MessageID: m.ID, Customer: m.Customer, Text: "Your parcel arrives today."}
			done, err := d.client.Enqueue(ctx, kind, job, penstock.Unique("sms/"+m.ID), penstock.IdempotencyKey(key(d.Seed, round*messageCount+i)))
			if err != nil {
				return err
			}
			if !done.New {
				again++
			}
			d.jobs[m.ID] = done.ID
		}
	}
	d.result.Evidence = Evidence{Algorithm: d.Algorithm, Cap: d.Cap, Workers: workerCount, Messages: list}
	d.tell("enqueued %d messages, %d of them twice (%d of those were known), %d to bad numbers", len(list), twiceCount, again, badCount)
	return nil
}

// hire starts the worker processes.
func (d *demo) hire() (err error) {
	d.crew, err = hire(workerCount, func(number int) *exec.Cmd {
		return d.Worker(Worker{Number: number, Database: d.db, Contacts: d.contacts(), API: d.tap.url})
	})
	if err != nil {
		return err
	}
	w := d.crew.workers
	d.tell("started %d worker processes, %d, %d and %d, under the limit %s", workerCount, w[0].pid(), w[1].pid(), w[2].pid(), d.spec())
	return nil
}

// maybeKill kills one worker in the middle: in the middle of the run, and of a
// call that the API has taken and not yet answered.
func (d *demo) maybeKill() (err error) {
	e := &d.result.Evidence
	if e.Kill != nil || len(d.tap.api.LogFrom(killAfter-1)) == 0 {
		return nil
	}
	found := d.tap.duringCall(func(c Call) {
		if c.Worker < 1 || c.Worker > len(d.crew.workers) {
			return
		}
		p := d.crew.workers[c.Worker-1]
		e.Kill = &Kill{PID: p.pid(), Worker: p.number, Message: c.MessageID, At: time.Now()}
		err = p.kill()
	})
	if found && err == nil && e.Kill != nil {
		d.tell("killed worker %d (SIGKILL %d) during its call for %s", e.Kill.Worker, e.Kill.PID, e.Kill.Message)
	}
	return err
}

// ended returns the jobs that have ended.
func (d *demo) ended(ctx context.Context) ([]penstock.JobInfo, error) {
	return d.client.Jobs(ctx, penstock.Filter{
		Kind: kind, States: []penstock.State{penstock.Done, penstock.Dead, penstock.Cancelled}, N: 2 * messageCount,
	})
}

func (d *demo) stateOf(jobs []penstock.JobInfo, message string) penstock.State {
	for _, j := range jobs {
		if j.ID == d.jobs[message] {
			return j.State
		}
	}
	return penstock.Waiting
}

// replay corrects a bad number and puts its dead letter back in line. It
// returns false if there is none.
func (d *demo) replay(ctx context.Context, ended []penstock.JobInfo) (bool, error) {
	dead := 0
	for _, j := range ended {
		if j.State == penstock.Dead {
			dead++
		}
	}
	d.tell("all %d jobs have ended: %d done, %s", len(ended), len(ended)-dead, count(dead, "dead letter"))
	for i, m := range d.result.Evidence.Messages {
		if !m.Bad || d.stateOf(ended, m.ID) != penstock.Dead {
			continue
		}
		wrong := d.book[m.Customer]
		d.book[m.Customer] = goodNumber(i)
		if err := d.book.save(d.contacts()); err != nil {
			return false, fmt.Errorf("the customers' numbers: %w", err)
		}
		d.result.Evidence.Replay = &Replay{Message: m.ID, At: time.Now()}
		d.tell("corrected the number of %s from %q to %s, and replayed its dead letter", m.ID, wrong, goodNumber(i))
		return true, d.client.Replay(ctx, []int64{d.jobs[m.ID]}, penstock.ReplayOptions{})
	}
	return false, nil
}

// collect gathers the evidence when all is quiet.
func (d *demo) collect(ctx context.Context) error {
	e := &d.result.Evidence
	e.Calls = d.tap.log()
	e.findOrphans()
	e.States = map[string]penstock.State{}
	all, err := d.client.Jobs(ctx, penstock.Filter{Kind: kind, N: 2 * messageCount})
	if err != nil {
		return err
	}
	for _, j := range all {
		for message, id := range d.jobs {
			if id == j.ID {
				e.States[message] = j.State
			}
		}
	}
	return nil
}
