package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// hashLane is a hash of a lane's key but for its load, which a release takes away:
// 64 bits of FNV-1a over the parts, each with its length before it. It finds the
// lanes that may be meant.
func hashLane(k store.LaneKey) int64 {
	b := make([]byte, 0, 128)
	part := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, s := range []string{k.Queue, k.Kind, k.Run, k.Group} {
		part(s)
	}
	b = binary.AppendVarint(b, int64(k.Priority))
	b = strconv.AppendBool(b, k.Suspect)
	for _, d := range k.Draws {
		part(d.Limit)
		b = binary.AppendVarint(b, d.Cost)
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // a hash does not fail
	return int64(h.Sum64())
}

// encodeDraws writes draws as [["limit",cost],...], "" for none.
func encodeDraws(draws []dispatch.Draw) string {
	if len(draws) == 0 {
		return ""
	}
	list := make([][2]any, len(draws))
	for i, d := range draws {
		list[i] = [2]any{d.Limit, d.Cost}
	}
	text, _ := json.Marshal(list) // strings and integers cannot fail
	return string(text)
}

func decodeDraws(text string) ([]dispatch.Draw, error) {
	var draws []dispatch.Draw
	err := decodeTuples(text, 1, func(name string, n []int64) { draws = append(draws, dispatch.Draw{Limit: name, Cost: n[0]}) })
	return draws, err
}

// encodeCharges writes charges as [["limit",cost,slot],...], "" for none.
func encodeCharges(charges []dispatch.Charge) string {
	if len(charges) == 0 {
		return ""
	}
	list := make([][3]any, len(charges))
	for i, c := range charges {
		list[i] = [3]any{c.Limit, c.Cost, c.Slot}
	}
	text, _ := json.Marshal(list)
	return string(text)
}

func decodeCharges(text string) ([]dispatch.Charge, error) {
	var charges []dispatch.Charge
	err := decodeTuples(text, 2, func(name string, n []int64) {
		charges = append(charges, dispatch.Charge{Limit: name, Cost: n[0], Slot: n[1]})
	})
	return charges, err
}

// decodeTuples reads [["name",n,...],...] with the given count of numbers.
func decodeTuples(text string, numbers int, each func(string, []int64)) error {
	if text == "" {
		return nil
	}
	var tuples [][]json.RawMessage
	if err := json.Unmarshal([]byte(text), &tuples); err != nil {
		return fmt.Errorf("stored draws or charges %q: %w", text, err)
	}
	for _, t := range tuples {
		if len(t) != 1+numbers {
			return fmt.Errorf("stored draws or charges %q: expected names, each with %d numbers", text, numbers)
		}
		var name string
		n := make([]int64, numbers)
		if err := json.Unmarshal(t[0], &name); err != nil {
			return fmt.Errorf("stored draws or charges %q: %w", text, err)
		}
		for i := range n {
			if err := json.Unmarshal(t[1+i], &n[i]); err != nil {
				return fmt.Errorf("stored draws or charges %q: %w", text, err)
			}
		}
		each(name, n)
	}
	return nil
}
