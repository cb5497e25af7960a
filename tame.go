package penstock

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/penstockhq/penstock/retry"
)

// tame returns err if it can be read, or a *PanicError in its place: an error's
// own methods are code of the handler's, too, and a nil pointer in an error is
// the usual one that panics. It runs before anything else looks at the error.
func tame(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = &PanicError{Value: fmt.Sprintf("reading the handler's error, a %T: %v", err, v), Stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = saysWhat(err)
	_ = retry.Classify(err)
	_ = errors.Is(err, ErrCancelled)
	return err
}
