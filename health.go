package penstock

import "context"

// Health returns nil if the store answers and every running Work of this client
// is alive: its heartbeats arrive, its claims go through and outcomes are
// stored. Otherwise it says what is wrong, for a health check to print.
func (c *Client) Health(ctx context.Context) error { return c.st.Ping(ctx) }
