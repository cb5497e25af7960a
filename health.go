package penstock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// illAfter is how long something may fail before Health says so: shorter
// troubles pass by themselves.
const illAfter = 5 * time.Second

// Health returns nil if the store can be read and written, and every Work of
// this client is alive: its heartbeats arrive, its claims go through, and
// outcomes are stored. Otherwise its error says what is wrong, for a health
// check to print; of what Work does, once it has failed for some seconds. When the
// store works again, Work goes on by itself, and Health is nil within 30 s. Give
// ctx a deadline: a store that hangs hangs Health.
func (c *Client) Health(ctx context.Context) error {
	var all []error
	if err := c.st.Ping(ctx); err != nil {
		all = append(all, fmt.Errorf("the store does not answer: %w", err))
	}
	all = append(all, c.trouble.report(illAfter))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for w := range c.workers {
		w.mu.Lock()
		silent := time.Since(w.beat)
		w.mu.Unlock()
		if silent > c.cfg.Lease {
			all = append(all, fmt.Errorf("no heartbeat has arrived for %v", silent.Round(time.Second)))
		}
	}
	return errors.Join(all...)
}
