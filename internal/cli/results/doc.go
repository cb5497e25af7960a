// Package results keeps the file of results of a run: one JSON line for each
// call that has ended. The store knows every result, so the file can be put
// right at any time: what is missing is written from the store, what was cut off
// in the middle is cut away, and what is no longer true is replaced.
package results
