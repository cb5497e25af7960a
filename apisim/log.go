package apisim

import "time"

// Call is one call as the API saw it. All is decided at its arrival; the answer
// may go out later, or never reach its client.
type Call struct {
	// Seq numbers the calls from 1, in the order of arrival.
	Seq int `json:"seq"`
	// At is when it was counted, since the API's start, by the monotonic clock.
	At time.Duration `json:"at_ns"`
	// Arrival is the same instant by the machine's clock.
	Arrival time.Time `json:"arrival"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	// Key is the call's Idempotency-Key.
	Key string `json:"key,omitempty"`
	// MessageID names the message of a POST /messages: its message_id, else its
	// key, else its BodyHash.
	MessageID string `json:"message_id,omitempty"`
	// BodyHash tells bodies apart: 64 bits of SHA-256 in hexadecimal.
	BodyHash string `json:"body_hash,omitempty"`
	// Occurrence says that this is the n-th accepted call of its key (else of
	// its message, else of its path and body); 0 if it was refused.
	Occurrence int `json:"occurrence,omitempty"`
	// Status is the answer; 0 is a connection closed without one.
	Status int `json:"status"`
	// Refused: it was over the limit.
	Refused bool `json:"refused,omitempty"`
	// Delivered: it had its effect, whatever the answer then said.
	Delivered bool `json:"delivered,omitempty"`
	// Replayed: it was answered, or would have been, from the key's first answer.
	Replayed bool `json:"replayed,omitempty"`
	// Held: the answer was held back until the client should have given up.
	Held bool `json:"held,omitempty"`
	// InFlight is how many accepted calls were being answered, with this one if
	// it was accepted.
	InFlight int `json:"in_flight"`
}
