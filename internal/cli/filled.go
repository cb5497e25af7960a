package cli

import (
	"errors"
	"strings"
)

// filled is the value of an option with a text. An empty one is refused: it is likely
// a variable of a script that is not set, and what was meant to be one queue, or to be
// unique, would be all of them, or not.
type filled string

var errEmpty = errors.New("expected a text, got none: leave the option out if that is meant")

// String implements pflag.Value.
func (v *filled) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *filled) Type() string { return "string" }

// Set implements pflag.Value.
func (v *filled) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	*v = filled(text)
	return nil
}

// filledList is the same for texts with commas between them. Given again, the option
// adds to them.
type filledList []string

// String implements pflag.Value.
func (v *filledList) String() string { return strings.Join(*v, ",") }

// Type implements pflag.Value.
func (v *filledList) Type() string { return "strings" }

// Set implements pflag.Value.
func (v *filledList) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	*v = append(*v, strings.Split(text, ",")...)
	return nil
}
