package examples

import (
	"slices"
	"testing"
)

// examples is what each program prints. In its lines # stands for a number.
var examples = map[string]example{
	"readme": {
		lines: filled("order-# receipt for order-#", "order-# receipt for order-#"),
		check: func(t *testing.T, n []float64) { // in any order, since they run side by side
			if n[0] != n[1] || n[2] != n[3] || n[0]+n[2] != 3 {
				t.Errorf("orders and their receipts: %v", n)
			}
		},
	},

	"01-backoff": {
		lines: slices.Concat(
			filled("attempt 1 failed, the next one after # # # ms (step 100 ms, 25 % more or less)",
				"attempt 2 failed, the next one after # # # ms (step 200 ms, 25 % more or less)",
				"attempt 3 failed, the next one after # # # ms (step 400 ms, 25 % more or less)"),
			deadAfterFour("1"), deadAfterFour("2"), deadAfterFour("3")),
		check: func(t *testing.T, n []float64) {
			for i, wait := range n[:9] {
				step := []float64{100, 200, 400}[i/3]
				atMost(t, "announced wait (ms)", wait, 1.25*step+5)
			}
			for i, gap := range n[9:] {
				step := []float64{100, 200, 400}[i%3]
				atLeast(t, "time between two starts (ms)", gap, 0.75*step-1)
			}
			for first := range 3 { // jitter: the three jobs differ in at least one step
				if one := n[3*first : 3*first+3]; one[0] != one[1] || one[1] != one[2] {
					return
				}
			}
			t.Error("all three jobs wait equally long, at each step")
		},
	},

	"02-double-charge": {lines: filled(
		"start 1: took 30 for order-1, balance 70",
		"start 2: took 30 for order-1, balance 40",
		"start 3: took 30 for order-1, balance 10",
		"one order of 30, and the balance went from 100 to 10")},

	"03-charge-once": {lines: filled(
		"job 1, start 1: receipt: 30 taken for order-1, balance 70",
		"job 1, start 2: receipt: 30 taken for order-1, balance 70",
		"job 1, start 3: receipt: 30 taken for order-1, balance 70",
		"job 2, start 1: receipt: 30 taken for order-1, balance 70",
		"one order of 30, and the balance went from 100 to 70")},

	"04-transient-permanent": {lines: filled(
		`"hangs": dead (exhausted) after 3 starts, timed out after 50ms: the start ran out of time`,
		`"hangs once": done after 2 starts`,
		`"invalid": dead (rejected) after 1 starts, 422: the amount must be above 0`,
		`"invalid, classified": dead (rejected) after 1 starts, charge: 422: the amount must be above 0`)},

	"05-two-queues": {lines: filled(
		"high before low: 1 payment 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
		"  the payment was number 2 of 21",
		"low before high: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 payment",
		"  the payment was number 21 of 21")},

	"06-rate-per-kind": {
		lines: filledf(6, "job %d starts at # s, # s after the one before"),
		check: func(t *testing.T, n []float64) {
			for i := 3; i < len(n); i += 2 {
				atLeast(t, "time between two starts (s)", n[i], 0.5-0.02) // slots are half a second apart, starts up to 10 ms after them
			}
		},
	},

	"07-global-cap": {
		lines: filled("18 calls by 3 processes: #, #, #", "fullest second by the API's log: # calls", "fullest second by the slots given out: # calls"),
		check: func(t *testing.T, n []float64) {
			if sum(n[:3]) != 18 {
				t.Errorf("the processes made %v calls in all, expected 18", sum(n[:3]))
			}
			atMost(t, "fullest second by the slots", n[4], 5)
			atMost(t, "fullest second by the log", n[3], 5+1) // one may have been held up on its way
		},
	},

	"08-retry-after": {
		lines: filled(
			"shop 17: 4 calls, 1 refused",
			"shop 17: called again # ms after the moment it had named",
			"shop 18: 3 calls, 3 of them while shop 17 was paused",
			"job 1 of shop/17: done, 2 starts, 1 refused, 0 attempts spent",
			"job 2 of shop/18: done, 1 starts, 0 refused, 0 attempts spent",
			"job 3 of shop/17: done, 1 starts, 0 refused, 0 attempts spent",
			"job 4 of shop/18: done, 1 starts, 0 refused, 0 attempts spent",
			"job 5 of shop/17: done, 1 starts, 0 refused, 0 attempts spent",
			"job 6 of shop/18: done, 1 starts, 0 refused, 0 attempts spent"),
		check: func(t *testing.T, n []float64) { atLeast(t, "time after the moment (ms)", n[0], 0) },
	},

	"09-swallowed-error": {lines: filled(
		"== capture-careless",
		`level=WARN msg="start ended" kind=capture-careless job=1 start=1 outcome=done swallowed="POST 127.0.0.1:#/messages: status 500 Internal Server Error"`,
		"job 1 is done after 1 starts; captured 0 times",
		`  history: done {"swallowed":"POST 127.0.0.1:#/messages: status 500 Internal Server Error"}`,
		"== capture",
		`level=WARN msg="start ended" kind=capture job=2 start=1 outcome=retry error="capture order-of-capture: status 503"`,
		`level=INFO msg="start ended" kind=capture job=2 start=2 outcome=done`,
		"job 2 is done after 2 starts; captured 1 times",
		"  history: retry capture order-of-capture: status 503",
		"starts that swallowed an error: 1")},

	"10-sms": {
		args: []string{"-window", "300ms"},
		lines: filled(
			"# calls in # s: 48 good, # failed and retried, 2 rejected, # over the limit",
			"cap: at most # calls in any 300ms; # a window on average",
			"messages: 48 delivered once, 0 more often",
			"dead letter: m-21, rejected, called 1 time: status 400",
			"dead letter: m-41, rejected, called 1 time: status 400",
			"books: 48 done, 2 dead",
			"m-01 enqueued again: delivered 1 time in all",
			"dead letter: m-51, exhausted after 3 attempts: status #",
			"replayed: m-51 delivered 1 time"),
		check: func(t *testing.T, n []float64) {
			calls, failed, over, fullest, average := n[0], n[2], n[3], n[4], n[5]
			atLeast(t, "calls that failed", failed, 1)
			atMost(t, "calls over the limit", over, calls/10) // in 300 ms a way that takes 15 ms longer matters
			atMost(t, "calls in the fullest window", fullest, 5+2)
			atMost(t, "calls a window", average, 5)
		},
	},

	"11-payment": {lines: filled(
		"order-2: the cart was empty after all",
		"start 1: retry the gateway failed, and nobody knows whether it charged",
		"start 2: retry failed after the books were written",
		"start 3: done ",
		"gateway: 2 calls, 1 key, 1 charge of order-1",
		"shop: 1 order, 4200 paid, 1 entry in the ledger",
		"penstock: pay is done after 3 starts")},
}

// deadAfterFour is what 01-backoff prints of one job.
func deadAfterFour(job string) []string {
	return filled(
		"job "+job+" is dead (exhausted) after 4 attempts: the API is down",
		"  1. retry",
		"  2. retry, begun # ms after the one before",
		"  3. retry, begun # ms after the one before",
		"  4. dead, begun # ms after the one before")
}
