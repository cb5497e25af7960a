package penstock

import "context"

// Acquire waits until the draws are granted and returns the permit to start one
// call, for code that has no job. All draws are granted, or none is charged. It
// returns early with ctx's cause; an unknown limit or an impossible cost is an
// error at once. Release the permit when the call is over.
func (c *Client) Acquire(ctx context.Context, draws ...Draw) (*Permit, error) {
	return nil, nil
}

// A Permit is the right to have one call under way.
type Permit struct{}

// Release ends the call. Further calls of Release do nothing.
func (p *Permit) Release(ctx context.Context) error { return nil }

// Observe tells what the call's response said about one of its limits.
func (p *Permit) Observe(limit string, o Observation) {}

type permitDesk struct{}

func (d *permitDesk) close() {}
