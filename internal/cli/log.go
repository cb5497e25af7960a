package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// sameEvery is how often one message is printed, at most.
const sameEvery = time.Minute

// lineLog writes log records as plain lines for a person who is watching. Lines
// about single starts are left out: commands tell of those in their own way. A
// message that comes again and again is printed now and then.
type lineLog struct {
	w     io.Writer
	least slog.Level
	attrs string
	said  *said // nil: every message is printed
}

// said remembers when each message was printed. Messages are few: what differs
// from one to the next is in the attributes.
type said struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newLineLog(w io.Writer, least slog.Level) *lineLog {
	return &lineLog{w: w, least: least, said: &said{at: map[string]time.Time{}}}
}

// again says whether a message was printed a short while before now.
func (s *said) again(message string, now time.Time) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.at[message]; ok && now.Sub(last) < sameEvery {
		return true
	}
	s.at[message] = now
	return false
}

// Enabled implements slog.Handler.
func (l *lineLog) Enabled(_ context.Context, level slog.Level) bool { return level >= l.least }

// Handle implements slog.Handler.
func (l *lineLog) Handle(_ context.Context, r slog.Record) error {
	once := strings.HasPrefix(r.Message, "the store ") // it fails, or works again: said once by the client
	if r.Message == "start ended" || !once && l.said.again(r.Message, r.Time) {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "penstock: %s: %s%s", strings.ToLower(r.Level.String()), r.Message, l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(attrText(a))
		return true
	})
	_, err := io.WriteString(l.w, show.Text(b.String())+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (l *lineLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	for _, a := range attrs {
		c.attrs += attrText(a)
	}
	return &c
}

// WithGroup implements slog.Handler. Groups are of no use to a reader of lines.
func (l *lineLog) WithGroup(string) slog.Handler { return l }

func attrText(a slog.Attr) string {
	return fmt.Sprintf(" %s=%s", a.Key, strings.ReplaceAll(a.Value.Resolve().String(), "\n", "; "))
}
