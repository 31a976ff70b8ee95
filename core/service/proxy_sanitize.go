package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// What hosts show of what servers say.
const (
	methodElicit  = "elicitation/create"
	methodMessage = "notifications/message"

	wantsURL = -32042 // an error whose data are questions
)

// asksAs makes a server's question to a person one that says whose it is, and
// that shows what is in it. One that cannot be shown so is refused.
func asksAs(server string, question json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(visible(question), &members) != nil || members == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a question must be an object"}
	}
	message := ""
	for name, value := range members {
		switch {
		case name == "message":
			if json.Unmarshal(value, &message) != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the message of a question must be a string"}
			}
		case strings.EqualFold(name, "message"): // which some hosts would read
			delete(members, name)
		}
	}
	label := "[server " + core.Visible(server, 120, false) + "] "
	if field := keyField(members["requestedSchema"]); field != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a server must not ask a person for keys or passwords (" + core.Visible(field, 100, false) + "): declare a variable in the server's entry"}
	}
	members["message"] = quoted(label + citing(message))
	return encoded(members), nil
}

// citing marks each further line of what a server says as its own, so that no
// line of it can be taken for one of pml.
func citing(message string) string {
	return strings.ReplaceAll(message, "\n", "\n> ")
}

// keyField is a field of a form that asks for a key, by its name or title; empty
// when there is none.
func keyField(schema json.RawMessage) string {
	var form struct {
		Properties map[string]struct {
			Title  string `json:"title"`
			Type   string `json:"type"`
			Format string `json:"format"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &form) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		field := form.Properties[name]
		if field.Type == "boolean" {
			continue
		}
		if field.Format == "password" || asksForKey(name) || asksForKey(field.Title) {
			return name
		}
	}
	return ""
}

// keyWords are words of which one in the name of a field makes it one for a key;
// keyParts count within words, too.
var (
	keyWords = []string{"pin", "otp", "pwd", "pat", "mnemonic", "passcode", "cvv", "cvc", "jwt", "token", "bearer"}
	keyParts = []string{"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential", "accesstoken", "authtoken"}
)

func asksForKey(name string) bool {
	var words []string
	word := ""
	for _, r := range name + " " {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) && word != "" && !unicode.IsUpper(rune(word[len(word)-1])) {
			if word != "" {
				words = append(words, strings.ToLower(word))
			}
			word = ""
		}
		if unicode.IsLetter(r) {
			word += string(r)
		}
	}
	joined := strings.Join(words, "")
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(keyWords, w) }) ||
		slices.ContainsFunc(keyParts, func(part string) bool { return strings.Contains(joined, part) })
}

// saidError is an error of a server as a host shows it.
func saidError(server string, err error) error {
	var said *api.PeerError
	if !errors.As(err, &said) {
		return err
	}
	out := &api.PeerError{Code: said.Code, Message: core.Visible(said.Message, 0, true), Data: visible(said.Data)}
	if said.Code != wantsURL {
		return out
	}
	var data map[string]json.RawMessage
	var questions []json.RawMessage
	if json.Unmarshal(out.Data, &data) != nil || data == nil || json.Unmarshal(data["elicitations"], &questions) != nil {
		out.Data = nil
		return out
	}
	maps.DeleteFunc(data, func(name string, _ json.RawMessage) bool { return strings.EqualFold(name, "elicitations") })
	asked := make([]json.RawMessage, 0, len(questions))
	for _, q := range questions {
		if q, err := asksAs(server, q); err == nil {
			asked = append(asked, q)
		}
	}
	data["elicitations"] = encoded(asked)
	out.Data = encoded(data)
	return out
}

// visible is JSON in which each text is core.Visible. JSON in which all are
// already is returned as it came.
func visible(raw json.RawMessage) json.RawMessage {
	var out []byte // nil as long as nothing is other than it was
	done := 0
	for at := 0; at < len(raw); {
		if raw[at] != '"' {
			at++
			continue
		}
		end := endOfText(raw, at)
		var text string
		if json.Unmarshal(raw[at:end], &text) == nil {
			if shown := core.Visible(text, 0, true); shown != text {
				out = append(append(out, raw[done:at]...), quoted(shown)...)
				done = end
			}
		}
		at = end
	}
	if out == nil {
		return raw
	}
	return append(out, raw[done:]...)
}

// endOfText is behind the text in JSON that begins at a quote.
func endOfText(raw []byte, at int) int {
	for i := at + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

func quoted(text string) json.RawMessage { return encoded(text) }

// encoded is a value of which there is nothing that cannot be encoded.
func encoded(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return core.Null
	}
	return bytes.TrimSpace(b.Bytes())
}
