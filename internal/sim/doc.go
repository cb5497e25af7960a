// Package sim is a deterministic simulation: the real client and its workers,
// over the memory store, in virtual time (testing/synctest), under every
// misfortune the promises of Penstock speak of. A seed decides everything.
//
// In one world a shop enqueues jobs of all sorts, an operator interferes, and
// several processes work. They die without a word, stand still for longer than
// their lease and come back, and have clocks that are wrong and jump; the
// store's clock jumps, too. Calls to the store fail before and after they took
// effect, take time, or hang. The pretend APIs refuse, lag and break. After a
// minute or so all troubles end, and what is left must be done in time.
//
// What is checked, see [Kind]: at each commit, by a witness between the engine
// and the rows; at each call, by the APIs; at the end, by a judge.
//
// # What cannot be promised, and is left out
//
//   - A process that stood still between the slot of a start and its call makes
//     the call late; no client can prevent that. Such calls are not counted by
//     the check of windows.
//   - After several claims in a row that came too late for their slots, a worker
//     makes starts late rather than stand still. Late starts of a process whose
//     calls to the store failed in the last seconds are not counted.
//   - After a clock has jumped, a process translates slots with the mapping from
//     before until it has a better look at the store's clock. Its starts are not
//     counted for clockRepair; a window that spans a jump of the store's clock, or
//     a change of the limit's spec, is not judged.
//   - A start that stood still after Once had let it in may be a stale one when it
//     goes on. With AtMostOnce the effect is still had at most once, since the
//     next start finds it in doubt; without, it may be had again, as documented.
//   - A process's translation of the store's clock is off by up to half the time
//     that its best look took. Windows are judged less twice slack.
//
// # How deterministic it is
//
// The Go scheduler, select, the order of maps, and that of timers that are due in
// one instant are random and cannot be seeded. So as little as possible is left to
// them. One thread runs (see OneThread), and the garbage collector only between
// worlds. Each call to the store takes a time of its own that the seed decides by
// name and millisecond, so that one call more or less changes nothing later on.
// What begins in one instant all the same, as starts with one slot do, or the small
// reads of a worker's loops, takes some nanoseconds of its own before it has an
// effect (world.apart), so that the order of its timer does not matter.
//
// What is left are orders within the client in one instant, as when it goes
// through a map of starts to stop them all. Two runs of a seed, compared line by
// line, differ for about one seed in five hundred; a test compares
// [Report.Digest]. A violation that depends on such an order may need a replay or
// two to show again.
//
// # How long it takes
//
// Some 10 ms of processor for a seed, which is about half a minute of virtual
// time; ten thousand seeds, four days, take a minute of two free cores. Most of it
// is the product at work (claims that find nothing, above all), then the runtime's
// timers and switches. -cpuprofile on TestWeek shows where it goes.
package sim
