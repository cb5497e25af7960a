package sqlite

import (
	"reflect"
	"testing"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store/engine"
	"pgregory.net/rapid"
)

// What is written is read back, whatever the names: quotes, brackets, Unicode.
func TestEncoding(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[a-z/*:-]{1,12}`), rapid.String(), rapid.StringMatching(`[\[\]",\\ü]{1,6}`))
	number := rapid.Int64()
	rapid.Check(t, func(t *rapid.T) {
		draws := rapid.SliceOf(rapid.Custom(func(t *rapid.T) dispatch.Draw {
			return dispatch.Draw{Limit: name.Draw(t, "limit"), Cost: number.Draw(t, "cost")}
		})).Draw(t, "draws")
		gotDraws, err := decodeDraws(encodeDraws(draws))
		if err != nil || len(draws) != len(gotDraws) || len(draws) > 0 && !reflect.DeepEqual(draws, gotDraws) {
			t.Errorf("wrote %+v, read %+v, %v", draws, gotDraws, err)
		}

		charges := rapid.SliceOf(rapid.Custom(func(t *rapid.T) dispatch.Charge {
			return dispatch.Charge{Limit: name.Draw(t, "limit"), Cost: number.Draw(t, "cost"), Slot: number.Draw(t, "slot")}
		})).Draw(t, "charges")
		text, _ := encodeCharges(charges).(string)
		gotCharges, err := decodeCharges(text)
		if err != nil || len(charges) != len(gotCharges) || len(charges) > 0 && !reflect.DeepEqual(charges, gotCharges) {
			t.Errorf("wrote %+v, read %+v, %v", charges, gotCharges, err)
		}

		j := engine.Job{
			Attempts: rapid.Int().Draw(t, "attempts"), Throttles: rapid.IntRange(0, 3).Draw(t, "throttles"),
			Losses: rapid.IntRange(0, 3).Draw(t, "losses"), RefusedRun: rapid.IntRange(0, 3).Draw(t, "refused run"),
			RefusedAt: number.Draw(t, "refused at"), ThrottledAt: number.Draw(t, "throttled at"),
			ThrottleSum: number.Draw(t, "sum"), Events: rapid.IntRange(0, 3).Draw(t, "events"),
			Next: rapid.SampledFrom([]int64{0, 1, 1 << 60}).Draw(t, "next"),
		}
		bytes := engine.EncodePast(&j)
		var got engine.Job
		if err := engine.DecodePast(&got, bytes); err != nil || !reflect.DeepEqual(j, got) {
			t.Errorf("wrote %+v, read %+v, %v", j, got, err)
		}
	})
}

// A damaged column is an error, not a guess.
func TestEncodingDamaged(t *testing.T) {
	for _, text := range []string{"[", "[]", `["a",1]`, `[["a"]]`, `[["a",1]`, `[["a",x]]`, `[["a",1,2]]`, `[["a",1]],`, `[["\u00`, `[["\\",1,2]]`, "null!"} {
		if draws, err := decodeDraws(text); err == nil {
			t.Errorf("%q: %+v", text, draws)
		}
	}
	if err := engine.DecodePast(&engine.Job{}, []byte{0x80}); err == nil {
		t.Error("half a varint was read")
	}
}
