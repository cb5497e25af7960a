// Package batch reads files of calls: one JSON object a line, each one HTTP
// call. It checks everything that can be known of a line by itself, so that a
// bad file is refused before anything is sent. It reads as a stream: a file may
// be longer than memory.
package batch
