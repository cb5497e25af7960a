// Package system tests Penstock as it is run: several worker processes on one
// store, told to stop, stopped, killed or cut off at any moment, and an API with
// a limit that judges them by its log. The tests retell faults that people met
// with other job systems; each names the reports.
//
// A worker process is the test binary started again. Nothing waits for time to
// pass: what a test awaits are the arrivals at the API, the ends of processes,
// and what they say. Most trials run on SQLite and on PostgreSQL; those that break
// a network or a server run on PostgreSQL alone.
package system
