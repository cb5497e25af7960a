package store

import (
	"slices"
	"strings"
	"testing"
)

// A name without the key that its pattern needs, a key behind a misspelt name, and
// plain slips.
func TestUnknownLimitSaysWhatIsMeant(t *testing.T) {
	declared := []string{"kk", "shopify/*", "stripe", "x/*"}
	for name, want := range map[string]string{
		"x":               `limit "x" is not declared; "x/*" needs a key, like "x/shop-17"`,
		"shopify":         `limit "shopify" is not declared; "shopify/*" needs a key, like "shopify/shop-17"`,
		"shopfy":          `limit "shopfy" is not declared; did you mean a key of "shopify/*", like "shopify/shop-17"?`,
		"shopfy/ten-37":   `limit "shopfy/ten-37" is not declared; did you mean "shopify/ten-37"?`,
		"shopfy/*":        `limit "shopfy/*" is not declared; did you mean a key of "shopify/*", like "shopify/shop-17"?`,
		"stripe/acct-1":   `limit "stripe/acct-1" is not declared; did you mean "stripe"?`,
		"strpe":           `limit "strpe" is not declared; did you mean "stripe"?`,
		"Stripe":          `limit "Stripe" is not declared; did you mean "stripe"?`,
		"something else":  `limit "something else" is not declared; declare it before enqueueing jobs that draw on it`,
		"something/shop1": `limit "something/shop1" is not declared; declare it before enqueueing jobs that draw on it`,
	} {
		if got := UnknownLimit(name, declared).Error(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	if e := UnknownLimit("k", []string{"k/*", "kk"}); e.Pattern != "k/*" || strings.Contains(e.Error(), "kk") || !slices.Equal(e.Nearest, []string{"kk"}) {
		t.Errorf("%+v: %v", e, e)
	}
}
