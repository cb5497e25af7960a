package penstock

import "context"

// Observe tells, from within a handler, what a response said about a limit. It
// takes hold when the start ends, in the same commit. Outside of a handler use
// [Permit.Observe]. Zero instants of o are filled in.
func Observe(ctx context.Context, limitName string, o Observation) error {
	return nil
}
