package apisim

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
)

// messagesPath is the pretend SMS service: POST {"to", "text", "message_id"}.
const messagesPath = "/messages"

// e164 is a telephone number as ITU-T E.164 writes it; the shortest ones, of
// small countries' services, are not for messages.
var e164 = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

type message struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// stored is the first answer to an Idempotency-Key.
type stored struct {
	bodyHash string
	answer   answer
}

// parseMessage reads a message, or answers what is wrong with it.
func parseMessage(body []byte) (message, *answer) {
	bad := func(param, text string) (message, *answer) {
		ans := fault(http.StatusBadRequest, param, text)
		return message{}, &ans
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return bad("body", `expected JSON like {"to": "+15550001234", "text": "hello"}: `+err.Error())
	}
	if !e164.MatchString(m.To) {
		return bad("to", "expected a number in E.164 form, such as +15550001234, got "+strconv.Quote(m.To))
	}
	if m.Text == "" {
		return bad("text", "expected the text of the message, got none")
	}
	return m, nil
}

// messageID names the message of a call; message_id may be a string or a number.
func messageID(call *Call, body []byte) string {
	var named struct {
		ID json.RawMessage `json:"message_id"`
	}
	if err := json.Unmarshal(body, &named); err == nil && len(named.ID) > 0 && string(named.ID) != "null" {
		var text string
		if json.Unmarshal(named.ID, &text) == nil {
			return text
		}
		return string(named.ID)
	}
	if call.Key != "" {
		return call.Key
	}
	return call.BodyHash
}

// deliver sends the message, unless its key says that it was sent before.
func (a *API) deliver(call *Call, m message) answer {
	if first, ok := a.firstAnswer(call.Key); ok {
		call.Replayed = true
		again := first.answer
		again.header = http.Header{"Idempotent-Replayed": {"true"}}
		return again
	}
	call.Delivered = true
	ans := answer{status: http.StatusCreated, body: map[string]any{
		"id": "msg_" + strconv.Itoa(call.Seq), "message_id": call.MessageID, "to": m.To, "status": "sent",
	}}
	if call.Key != "" {
		a.answers[call.Key] = stored{bodyHash: call.BodyHash, answer: ans}
	}
	return ans
}

// firstAnswer finds what a repeat of the key is answered with.
func (a *API) firstAnswer(key string) (stored, bool) {
	if !a.config.Dedupe || key == "" {
		return stored{}, false
	}
	first, ok := a.answers[key]
	return first, ok
}
