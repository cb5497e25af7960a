package storetest

import (
	"errors"
	"time"

	"github.com/penstockhq/penstock/store"
)

var effectTests = []test{
	{"Effect/Once", testEffectOnce},
	{"Effect/NeedsTheLease", testEffectLease},
	{"Effect/Running", testEffectRunning},
	{"Effect/InDoubt", testEffectInDoubt},
	{"Effect/TakenOver", testEffectTakenOver},
	{"Effect/Cleared", testEffectCleared},
	{"Effect/BytesAndKeys", testEffectBytes},
}

func (e *env) begin(key string, j store.Claimed, takeOver bool, want store.EffectState) store.Effect {
	e.Helper()
	got, err := e.BeginEffect(e.ctx, key, j.ID, j.Token, takeOver)
	e.must(err)
	if got.State != want {
		e.Fatalf("effect %q: state %d, expected %d", key, got.State, want)
	}
	return got
}

func testEffectOnce(e *env) {
	w := e.worker("w")
	a, b := e.started(w), e.started(w)
	e.begin("mail", a, true, store.EffectNew)
	e.must(e.FinishEffect(e.ctx, "mail", a.ID, a.Token, []byte("sent\x00")))
	for _, j := range []store.Claimed{a, b} {
		if got := e.begin("mail", j, true, store.EffectDone); string(got.Result) != "sent\x00" {
			e.Errorf("the kept result is %q", got.Result)
		}
	}
	e.done(a)
	e.begin("mail", b, false, store.EffectDone)
}

func testEffectLease(e *env) {
	w := e.worker("w")
	j := e.started(w)
	stranger := j
	stranger.Token++
	for what, s := range map[string]store.Claimed{"another token": stranger, "no job": {Job: store.Job{ID: 999, Token: 1}}} {
		if _, err := e.BeginEffect(e.ctx, "k", s.ID, s.Token, true); !errors.Is(err, store.ErrLeaseLost) {
			e.Errorf("begin, %s: %v", what, err)
		}
	}
	e.begin("k", j, true, store.EffectNew)
	if err := e.FinishEffect(e.ctx, "k", stranger.ID, stranger.Token, nil); !errors.Is(err, store.ErrLeaseLost) {
		e.Errorf("finish by another token: %v", err)
	}
	if err := e.ClearEffect(e.ctx, "k", stranger.ID, stranger.Token); !errors.Is(err, store.ErrLeaseLost) {
		e.Errorf("clear by another token: %v", err)
	}
	if err := e.FinishEffect(e.ctx, "never begun", j.ID, j.Token, nil); err == nil {
		e.Error("an effect that was never begun was finished")
	}
	e.must(e.FinishEffect(e.ctx, "k", j.ID, j.Token, []byte("r")))
	e.must(e.FinishEffect(e.ctx, "k", j.ID, j.Token, []byte("r"))) // said again, since the answer was lost
	e.done(j)
	if _, err := e.BeginEffect(e.ctx, "k2", j.ID, j.Token, true); !errors.Is(err, store.ErrLeaseLost) {
		e.Errorf("begin after the end: %v", err)
	}
}

func testEffectRunning(e *env) {
	w := e.worker("w")
	a, b := e.started(w), e.started(w)
	e.begin("k", a, true, store.EffectNew)
	e.begin("k", b, true, store.EffectRunning)
	e.begin("k", b, false, store.EffectRunning)
	e.must(e.FinishEffect(e.ctx, "k", a.ID, a.Token, []byte("r")))
	e.begin("k", b, true, store.EffectDone)
}

func testEffectInDoubt(e *env) {
	w := e.worker("w")
	a := e.started(w)
	e.begin("k", a, true, store.EffectNew)
	e.lose()
	e.worker(w)
	again := e.take(w)[0]
	e.begin("k", again, false, store.EffectInDoubt)
	e.begin("k", again, false, store.EffectInDoubt) // it was left as it is
	e.begin("k", again, true, store.EffectInDoubt)
	e.must(e.FinishEffect(e.ctx, "k", again.ID, again.Token, []byte("r")))
	e.begin("k", again, false, store.EffectDone)
}

// The start that was thought dead cannot speak for an effect that another took over.
func testEffectTakenOver(e *env) {
	w := e.worker("w")
	a := e.started(w)
	e.begin("k", a, true, store.EffectNew)
	e.lose()
	e.worker(w)
	again := e.take(w)[0]
	e.begin("k", again, true, store.EffectInDoubt)
	if err := e.FinishEffect(e.ctx, "k", a.ID, a.Token, []byte("old")); !errors.Is(err, store.ErrLeaseLost) {
		e.Errorf("finish by the old start: %v", err)
	}
	if err := e.ClearEffect(e.ctx, "k", a.ID, a.Token); !errors.Is(err, store.ErrLeaseLost) {
		e.Errorf("clear by the old start: %v", err)
	}
	e.must(e.FinishEffect(e.ctx, "k", again.ID, again.Token, []byte("new")))
	if got := e.begin("k", again, true, store.EffectDone); string(got.Result) != "new" {
		e.Errorf("the kept result is %q", got.Result)
	}
}

func testEffectCleared(e *env) {
	w := e.worker("w")
	a := e.started(w)
	e.begin("k", a, true, store.EffectNew)
	e.must(e.ClearEffect(e.ctx, "k", a.ID, a.Token))
	e.begin("k", a, false, store.EffectNew)
	e.must(e.FinishEffect(e.ctx, "k", a.ID, a.Token, nil))
	if err := e.ClearEffect(e.ctx, "k", a.ID, a.Token); err == nil {
		e.Error("an effect that is done was cleared")
	}
	e.begin("k", a, false, store.EffectDone)
}

func testEffectBytes(e *env) {
	w := e.worker("w")
	j := e.started(w)
	for i, key := range []string{"k", "K", "k ", "k/1", "k/1/2", "ключ", "a:b"} {
		e.begin(key, j, false, store.EffectNew)
		want := string([]byte{byte(i), 0, 0xff})
		e.must(e.FinishEffect(e.ctx, key, j.ID, j.Token, []byte(want)))
		e.clock.Advance(time.Second)
		if got := e.begin(key, j, false, store.EffectDone); string(got.Result) != want {
			e.Errorf("effect %q keeps %q, expected %q", key, got.Result, want)
		}
	}
}
