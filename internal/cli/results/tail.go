package results

import (
	"bytes"
	"context"
	"fmt"

	"github.com/penstockhq/penstock"
)

// lineStart is how each line of the file begins.
const lineStart = `{"id":"`

// checkTail refuses to cut off a last line without an end that is somebody
// else's. Behind lines of this run it must look like the beginning of one; where
// it is all there is, it must be the beginning of one, byte by byte. A machine
// that lost its power may have left zeros behind it.
func (f *File) checkTail(ctx context.Context, text []byte, n int64) error {
	if len(text) == 0 {
		return nil
	}
	torn := bytes.TrimRight(text, "\x00")
	if f.ours {
		if k := min(len(torn), len(lineStart)); string(torn[:k]) == lineStart[:k] {
			return nil
		}
	} else if ok, err := f.beginsOne(ctx, torn); ok || err != nil {
		return err
	}
	return &ForeignError{Path: f.path, Line: n, Text: fmt.Sprintf("has no end, and is not the beginning of a result of run %q, which would be cut off", f.run)}
}

// beginsOne says whether the text is the beginning of a line of the run. It may
// be the whole line, without its end.
func (f *File) beginsOne(ctx context.Context, text []byte) (bool, error) {
	if len(text) == 0 {
		return false, nil
	}
	for after := int64(0); ; {
		jobs, err := f.src.Jobs(ctx, penstock.Filter{Run: f.run, States: ended, AfterID: after, N: page})
		if err != nil {
			return false, err
		}
		for i := range jobs {
			after = jobs[i].ID
			// Results may be large: they are read only of ids that fit.
			head, err := line{ID: jobs[i].Ref}.encode([]byte("null"))
			if err != nil {
				return false, err
			}
			head, _, _ = bytes.Cut(head, []byte(`,"state":`))
			if k := min(len(head), len(text)); !bytes.Equal(head[:k], text[:k]) {
				continue
			}
			if len(text) <= len(head) {
				return true, nil
			}
			if ok, err := f.beginsLineOf(ctx, jobs[i].ID, text); ok || err != nil {
				return ok, err
			}
		}
		if len(jobs) < page {
			return false, nil
		}
	}
}

func (f *File) beginsLineOf(ctx context.Context, id int64, text []byte) (bool, error) {
	jobs, err := f.src.Jobs(ctx, penstock.Filter{IDs: []int64{id}, Bodies: true, N: 1})
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	l, err := Line(&jobs[0])
	return err == nil && bytes.HasPrefix(l, text), err
}
