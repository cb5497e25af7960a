// Package penstock runs background jobs that call rate-limited APIs.
//
// A job and the permits it needs are claimed together, in one transaction,
// before a worker has the job at all. So a limit holds over all processes that
// share a store, a job that may not run yet costs nothing, and an API that is
// at its limit holds up its own jobs only.
//
// The main path, in the order a job walks it:
//
//	client, err := penstock.Open(ctx, "jobs.db", penstock.Config{
//		Limits: map[string]string{"sms": "5/s"},
//	})
//	penstock.Handle(client, "send-sms", send, penstock.Kind{Limits: penstock.Draws("sms")})
//	client.Enqueue(ctx, "send-sms", Message{To: "+441632960001"})
//	client.Work(ctx, penstock.WorkOptions{})
//
// What a handler returns decides what becomes of the job: nil is done, an
// ordinary error is retried with backoff, and [Permanent], [RetryIn],
// [RateLimited] and [Snooze] say what the handler knows better. A panic and a
// passed timeout are failures like any other.
//
// Delivery is at least once: a process can die between the effect and its
// record. [Once], [AtMostOnce] and [NotSent] make effects happen once.
package penstock
