package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// Faults that the simulation found, each tried on its own.

// TestReplaceAcrossKinds: a job with the unique key of a waiting one of another
// kind put its payload and options into that one, which so was handed what it
// cannot read, and was no longer run at most once.
func TestReplaceAcrossKinds(t *testing.T) {
	c, err := penstock.New(memory.New(memory.Options{}), penstock.Config{Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Enqueue(t.Context(), "a", 1, penstock.Unique("u"), penstock.AtMostOnce(), penstock.Delay(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), "b", 2, penstock.Unique("u"), penstock.Replace()); !errors.Is(err, store.ErrUniqueTaken) {
		t.Errorf("replacing a job of another kind: %v, expected %v", err, store.ErrUniqueTaken)
	}
	if _, err := c.Enqueue(t.Context(), "a", 3, penstock.Unique("u"), penstock.Replace(), penstock.AtMostOnce()); err != nil {
		t.Errorf("replacing a job of the same kind: %v", err)
	}
	j, err := c.Job(t.Context(), first.ID)
	if err != nil || j.Kind != "a" || string(j.Payload) != "3" || !j.Options.AtMostOnce {
		t.Errorf("job is %+v (%v), expected the payload of the same kind", j, err)
	}
}
