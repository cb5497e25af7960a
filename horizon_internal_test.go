package penstock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

func TestHorizonFollowsClaims(t *testing.T) {
	const soon, beyond = horizonLeast, horizonLeast + 1
	var h horizon
	few := func() { h.claimed(2, 20, false, soon) }
	if h.now() != horizonLeast {
		t.Fatalf("%v at first, expected %v", h.now(), horizonLeast)
	}
	for range 10 {
		few()
	}
	if h.now() != horizonMost {
		t.Errorf("%v after claims that brought two slots each, expected %v", h.now(), horizonMost)
	}
	h.refused()
	if h.now() != horizonLeast {
		t.Errorf("%v after a refusal, expected %v", h.now(), horizonLeast)
	}
	for name, claimed := range map[string]func(){
		"places are short":    func() { h.claimed(2, 3, false, soon) },
		"one is in flight":    func() { h.claimed(1, 20, true, soon) },
		"claims bring plenty": func() { h.claimed(horizonMany+1, 1000, false, soon) },
	} {
		h.d = horizonMost
		for range 10 {
			claimed()
		}
		if h.now() != horizonLeast {
			t.Errorf("%s: %v, expected %v", name, h.now(), horizonLeast)
		}
	}
	h.refused()
	for range 10 {
		h.claimed(0, 20, false, beyond) // nobody knows yet whether the API lets calls through
	}
	if h.now() != horizonLeast {
		t.Errorf("%v after claims that brought nothing after a refusal, expected %v", h.now(), horizonLeast)
	}
	h.claimed(1, 20, false, soon)
	h.d = 0
	if h.claimed(0, 20, false, beyond); h.now() <= horizonLeast {
		t.Errorf("%v after a claim that found all taken beyond its horizon, expected more", h.now())
	}
	for name, claimed := range map[string]func(){
		"nothing more waits": func() { h.claimed(1, 20, false, forever) },
		"no slots":           func() { h.claimed(0, 20, false, soon) },
		"no slots for long":  func() { h.claimed(0, 20, false, horizonMost+1) },
		"enough slots":       func() { h.claimed(horizonFew, 20, false, soon) },
		"after a refusal":    func() { h.refused(); h.claimed(0, 20, false, beyond) },
	} {
		h = horizon{}
		claimed()
		if h.now() != horizonLeast {
			t.Errorf("%s: %v, expected %v as before", name, h.now(), time.Duration(horizonLeast))
		}
	}
}

// TestNewWorkersGetTheirShare: the horizon of a worker that is alone with a limit grows.
// Those who come later find it there before them, and must get permits all the same.
func TestNewWorkersGetTheirShare(t *testing.T) {
	for _, rate := range []string{"2/s burst 1", "10/s burst 1", "50/s burst 1"} {
		t.Run(rate, func(t *testing.T) {
			now := int64(1e15)
			chance := rand.New(rand.NewPCG(1, 2))
			st := memory.New(memory.Options{Now: func() int64 { return now }})
			spec, err := limit.Parse(rate)
			must(t, err)
			must(t, st.DeclareLimit(t.Context(), "api", spec))
			job := store.NewJob{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5, Draws: []dispatch.Draw{{Limit: "api", Cost: 1}}}}
			_, err = st.Insert(t.Context(), slices.Repeat([]store.NewJob{job}, 10_000))
			must(t, err)
			type worker struct {
				id  string
				h   horizon
				at  int64 // when it claims next
				got int
			}
			join := now + 10*time.Second.Microseconds()
			settled, end := join+30*time.Second.Microseconds(), join+150*time.Second.Microseconds()
			ws := []*worker{{id: "alone", at: now}, {id: "b", at: join}, {id: "c", at: join}}
			for _, w := range ws {
				must(t, st.Register(t.Context(), store.Worker{ID: w.id, Kinds: []string{"k"}, Lease: time.Hour}))
			}
			all := 0
			for token := int64(1); now < end; token++ {
				w := slices.MinFunc(ws, func(a, b *worker) int { return int(a.at - b.at) })
				now = max(now, w.at)
				r := store.ClaimRequest{Worker: w.id, Token: token, Kinds: []string{"k"}, Places: 100, Horizon: w.h.now()}
				r.Stagger = stagger(r, chance.Float64())
				res, err := st.Claim(t.Context(), r)
				must(t, err)
				w.h.claimed(len(res.Jobs), 100, false, time.Duration(res.NextAt-now)*time.Microsecond)
				if w.at = max(res.NextAt, now+1000); now > settled {
					w.got += len(res.Jobs)
					all += len(res.Jobs)
				}
			}
			text := ""
			for _, w := range ws {
				text += fmt.Sprintf("%s: %d, horizon %v; ", w.id, w.got, w.h.now())
			}
			t.Log(text)
			for _, w := range ws {
				if w.got < all/6 {
					t.Errorf("%s got %d of %d permits, expected about a third: %s", w.id, w.got, all, text)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
