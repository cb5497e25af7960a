package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// lineLog writes log records as plain lines for a person who is watching. Lines
// about single starts are left out: commands tell of those in their own way.
type lineLog struct {
	w     io.Writer
	least slog.Level
	attrs string
}

// Enabled implements slog.Handler.
func (l *lineLog) Enabled(_ context.Context, level slog.Level) bool { return level >= l.least }

// Handle implements slog.Handler.
func (l *lineLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "start ended" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "penstock: %s: %s%s", strings.ToLower(r.Level.String()), r.Message, l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(attrText(a))
		return true
	})
	_, err := io.WriteString(l.w, b.String()+"\n")
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
