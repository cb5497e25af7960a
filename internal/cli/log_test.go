package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// One message is printed now and then, however often it comes.
func TestALogSaysTheSameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newLineLog(&out, slog.LevelWarn)).With("a", 1)
		for range 100 {
			log.Warn("late", "by", time.Second)
			log.Error("lost", "error", "one\ntwo")
			log.Info("not of interest")
			log.Warn("start ended")
		}
		want := "penstock: warn: late a=1 by=1s\npenstock: error: lost a=1 error=one; two\n"
		if out.String() != want {
			t.Errorf("got\n%sexpected\n%s", &out, want)
		}
		<-time.After(time.Minute)
		log.Warn("late", "by", time.Second)
		if n := strings.Count(out.String(), "late"); n != 2 {
			t.Errorf("after a minute it was said %d times, expected 2", n)
		}
	})
}
