package sqlite

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstockhq/penstock/dispatch"
)

// encodeIDs writes a JSON list, which json_each makes rows of.
func encodeIDs(ids []int64) string {
	b := make([]byte, 0, 2+8*len(ids))
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

// encodeStrings writes a JSON list; nil gives NULL, which stands for all.
func encodeStrings(s []string) any {
	if s == nil {
		return nil
	}
	return string(appendStrings(nil, s))
}

func appendStrings(b []byte, s []string) []byte {
	b = append(b, '[')
	for i, x := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, x)
	}
	return append(b, ']')
}

// appendString writes a JSON string. Names are plain ASCII nearly always.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			j, _ := json.Marshal(s) // a string cannot fail
			return append(b, j...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// encodeDraws writes draws as [["limit",cost],...], "" for none. Equal draws
// give equal text: it is part of a lane's key.
func encodeDraws(draws []dispatch.Draw) string {
	if len(draws) == 0 {
		return ""
	}
	b := make([]byte, 0, 32*len(draws))
	b = append(b, '[')
	for i, d := range draws {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = appendString(b, d.Limit)
		b = append(b, ',')
		b = strconv.AppendInt(b, d.Cost, 10)
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

func decodeDraws(text string) ([]dispatch.Draw, error) {
	if text == "" {
		return nil, nil
	}
	var draws []dispatch.Draw
	err := decodeTuples(text, func(name string, n []int64) { draws = append(draws, dispatch.Draw{Limit: name, Cost: n[0]}) }, 1)
	return draws, err
}

// encodeCharges writes charges as [["limit",cost,slot],...], NULL for none.
func encodeCharges(charges []dispatch.Charge) any {
	if len(charges) == 0 {
		return nil
	}
	b := make([]byte, 0, 48*len(charges))
	b = append(b, '[')
	for i, c := range charges {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = appendString(b, c.Limit)
		b = append(b, ',')
		b = strconv.AppendInt(b, c.Cost, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, c.Slot, 10)
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

func decodeCharges(text string) ([]dispatch.Charge, error) {
	if text == "" {
		return nil, nil
	}
	var charges []dispatch.Charge
	err := decodeTuples(text, func(name string, n []int64) {
		charges = append(charges, dispatch.Charge{Limit: name, Cost: n[0], Slot: n[1]})
	}, 2)
	return charges, err
}

// decodeTuples reads [["name",n,...],...] with the given count of numbers. A claim
// reads many, nearly all of plain names; other names go through encoding/json.
func decodeTuples(text string, each func(string, []int64), numbers int) error {
	n := make([]int64, numbers)
	rest, ok := strings.CutPrefix(text, "[")
	if ok && !strings.Contains(text, `\`) {
		for more := true; ok && more; {
			var name string
			if name, rest, ok = cutTuple(rest, n); ok {
				each(name, n)
				rest, more = strings.CutPrefix(rest, ",")
			}
		}
		if ok && rest == "]" {
			return nil
		}
		return fmt.Errorf("stored draws or charges %q: expected names, each with %d numbers", text, numbers)
	}
	return decodeEscaped(text, each, n)
}

// cutTuple reads one ["name",n,...] off the text.
func cutTuple(text string, n []int64) (name, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, `["`); !ok {
		return "", "", false
	}
	if name, rest, ok = strings.Cut(rest, `"`); !ok {
		return "", "", false
	}
	for i := range n {
		if rest, ok = strings.CutPrefix(rest, ","); !ok {
			return "", "", false
		}
		end := strings.IndexAny(rest, ",]")
		if end < 0 {
			return "", "", false
		}
		v, err := strconv.ParseInt(rest[:end], 10, 64)
		if err != nil {
			return "", "", false
		}
		n[i], rest = v, rest[end:]
	}
	rest, ok = strings.CutPrefix(rest, "]")
	return name, rest, ok
}

func decodeEscaped(text string, each func(string, []int64), n []int64) error {
	var tuples [][]json.RawMessage
	if err := json.Unmarshal([]byte(text), &tuples); err != nil {
		return fmt.Errorf("stored draws or charges %q: %w", text, err)
	}
	for _, t := range tuples {
		var name string
		if len(t) != 1+len(n) {
			return fmt.Errorf("stored draws or charges %q: expected names, each with %d numbers", text, len(n))
		}
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
