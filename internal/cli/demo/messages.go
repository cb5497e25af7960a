package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// How many messages there are, and of which sort.
const (
	messageCount = 50
	badCount     = 4
	twiceCount   = 5
)

// notNumbers are what people type into a field for a telephone number.
var notNumbers = []string{"07700 900", "n/a", "+44 (0)7700", "ask reception"}

// messages returns the messages of a demo; the seed says which are bad and
// which are enqueued twice. No message is both.
func messages(seed uint64) []Message {
	all := make([]Message, messageCount)
	for i := range all {
		all[i] = Message{ID: fmt.Sprintf("m-%02d", i+1), Customer: fmt.Sprintf("c-%02d", i+1)}
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	for i, at := range dice.Perm(messageCount)[:badCount+twiceCount] {
		if i < badCount {
			all[at].Bad = true
		} else {
			all[at].Twice = true
		}
	}
	return all
}

// key returns the Idempotency-Key of the n-th enqueue. It depends on the seed,
// so that a demo can be repeated; a program would leave the key to Penstock.
func key(seed uint64, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "penstock demo %d %d", seed, n))
	return hex.EncodeToString(sum[:16])
}

// contacts are the customers' telephone numbers. They are looked up when a
// message is sent, not when it is enqueued, so that a wrong one can be corrected.
type contacts map[string]string

func newContacts(messages []Message) contacts {
	book, bad := contacts{}, 0
	for i, m := range messages {
		book[m.Customer] = goodNumber(i)
		if m.Bad {
			book[m.Customer] = notNumbers[bad%len(notNumbers)]
			bad++
		}
	}
	return book
}

// goodNumber is from the range that Ofcom keeps free for drama.
func goodNumber(i int) string { return fmt.Sprintf("+44770090%04d", i+1) }

// save replaces the file in one step: workers read it at any time.
func (c contacts) save(path string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

func loadContacts(path string) (contacts, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	var c contacts
	err = json.Unmarshal(text, &c)
	return c, err
}
