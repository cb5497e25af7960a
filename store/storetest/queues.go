package storetest

import (
	"time"

	"github.com/penstockhq/penstock/store"
)

var queueTests = []test{
	{"Queue/Counts", testQueueCounts},
	{"Queue/PausedIsListed", testQueuePausedListed},
	{"Queue/K1_PausedRunsNothing", testK1},
	{"Queue/InsertWhilePaused", testQueueInsertWhilePaused},
}

func (e *env) queue(name string) store.QueueInfo {
	e.Helper()
	qs, err := e.Queues(e.ctx)
	e.must(err)
	for _, q := range qs {
		if q.Name == name {
			return q
		}
	}
	return store.QueueInfo{}
}

func testQueueCounts(e *env) {
	w := e.worker("w")
	e.killed(w, queue("a"))
	e.done(e.started(w, queue("a")))
	e.cancel(e.one(queue("a")), store.Cancelled)
	e.started(w, queue("a"))
	e.clock.Advance(time.Second)
	e.insert(times(3, queue("a"), at(e.clock.Now()+9_000_000))...)
	e.clock.Advance(time.Second)
	e.insert(times(2, queue("a"))...)
	e.one(queue("b"), at(e.clock.Now()+1))
	if got, want := e.queue("a"), (store.QueueInfo{Name: "a", Due: 2, Scheduled: 3, Running: 1, Dead: 1, Done: 1, Cancelled: 1, OldestDue: e.clock.Now()}); got != want {
		e.Errorf("queue a: %+v, expected %+v", got, want)
	}
	if got, want := e.queue("b"), (store.QueueInfo{Name: "b", Scheduled: 1}); got != want {
		e.Errorf("queue b: %+v, expected %+v", got, want)
	}
	e.clock.Advance(time.Minute)
	if got := e.queue("a"); got.Due != 5 || got.Scheduled != 0 {
		e.Errorf("a minute later: %+v", got)
	}
}

func testQueuePausedListed(e *env) {
	e.must(e.PauseQueue(e.ctx, "empty", "because"))
	if q := e.queue("empty"); !q.Paused || q.PausedReason != "because" {
		e.Errorf("a paused empty queue: %+v", q)
	}
	e.must(e.PauseQueue(e.ctx, "empty", "another reason"))
	if q := e.queue("empty"); q.PausedReason != "another reason" {
		e.Errorf("paused again: %+v", q)
	}
	e.must(e.ResumeQueue(e.ctx, "empty"))
	e.must(e.ResumeQueue(e.ctx, "empty"))
	e.must(e.ResumeQueue(e.ctx, "never paused"))
	if q := e.queue("empty"); q.Paused {
		e.Errorf("resumed: %+v", q)
	}
	if err := e.PauseQueue(e.ctx, "", ""); err == nil {
		e.Error("a queue without a name was paused")
	}
}

// K1 (sidekiq/sidekiq#4975, OptimalBits/bull#247, OptimalBits/bull#1087): a
// paused queue still ran a few jobs each time a worker started, work was
// recovered or delayed jobs came due.
func testK1(e *env) {
	lost := e.worker("lost")
	e.insert(times(5, queue("a"), prio(9))...)
	e.take(lost)
	failed := e.worker("failed")
	e.insert(times(5, queue("a"), prio(9))...)
	for _, j := range e.take(failed) {
		f := ending(j, store.OutcomeRetry)
		f.At = e.clock.Now() + 3_000_000
		e.finish(f)
	}
	e.insert(times(100, queue("a"))...)
	e.insert(times(20, queue("a"), at(Epoch+5_000_000))...)
	e.must(e.PauseQueue(e.ctx, "a", "repairs"))
	total := int64(130)
	for range 20 {
		e.worker("w") // restarts
		e.wantIDs("while the queue is paused", e.take("w"))
		e.wantIDs("while the queue is paused", e.take("w", queues("a")))
		e.clock.Advance(6 * time.Second)
		_, err := e.Rescue(e.ctx, 3)
		e.must(err)
		if q := e.queue("a"); q.Due+q.Scheduled+q.Running != total {
			e.Fatalf("the counts moved: %+v", q)
		}
		_, _ = e.Heartbeat(e.ctx, "w")
	}
	if q := e.queue("a"); q.Running != 0 {
		e.Errorf("the orphans were not taken back: %+v", q)
	}
	if q := e.queue("a"); !q.Paused {
		e.Error("the queue is not paused any more")
	}
	e.must(e.ResumeQueue(e.ctx, "a"))
	e.worker("w")
	got := 0
	for range 20 {
		jobs := e.take("w")
		got += len(jobs)
		e.done(jobs...)
	}
	if got != int(total) {
		e.Errorf("%d jobs came after the pause, expected %d", got, total)
	}
}

func testQueueInsertWhilePaused(e *env) {
	w := e.worker("w")
	e.must(e.PauseQueue(e.ctx, "a", ""))
	id := e.one(queue("a"))
	later := e.one(queue("a"), at(Epoch+1_000_000))
	e.clock.Advance(2 * time.Second)
	e.take(w)
	e.must(e.ResumeQueue(e.ctx, "a"))
	e.wantOrder(e.inTurn(w, 2), id, later)
}
