package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// message is a message of JSON-RPC, as far as a transport looks at it.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  params          `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`

	raw json.RawMessage
}

// params are the parameters that are looked at before mcp-go does, of whatever
// request has them.
type params struct {
	Meta         meta            `json:"_meta"`
	Name         name            `json:"name"`         // of tools/call and prompts/get
	Arguments    json.RawMessage `json:"arguments"`    // of tools/call
	URI          string          `json:"uri"`          // of resources/*
	RequestID    json.RawMessage `json:"requestId"`    // of notifications/cancelled
	Capabilities json.RawMessage `json:"capabilities"` // of initialize
	Responses    json.RawMessage `json:"inputResponses"`
	State        json.RawMessage `json:"requestState"`
	Cursor       json.RawMessage `json:"cursor"` // of lists
	Level        json.RawMessage `json:"level"`  // of logging/setLevel
}

// name is a text that counts as empty where it is something else: what is wrong
// with it is said by who reads it for good.
type name string

// UnmarshalJSON implements json.Unmarshaler.
func (n *name) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*n = name(text)
	}
	return nil
}

// meta is the _meta of a request.
type meta struct {
	Version      string
	Token        json.RawMessage // for progress
	Capabilities json.RawMessage
	Level        string // of the log, in revisions without sessions

	raw json.RawMessage
}

// own begins the names in _meta that are between a client and pml: they do not
// pass to a server behind it.
const own = "io.modelcontextprotocol/"

// UnmarshalJSON implements json.Unmarshaler.
func (m *meta) UnmarshalJSON(raw []byte) error {
	var known struct {
		Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
		Token        json.RawMessage `json:"progressToken"`
		Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		Level        name            `json:"io.modelcontextprotocol/logLevel"`
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return err
	}
	*m = meta{Version: known.Version, Token: known.Token, Capabilities: known.Capabilities, Level: string(known.Level), raw: bytes.Clone(raw)}
	return nil
}

// passed is what of it is meant for a server behind pml.
func (m meta) passed() json.RawMessage {
	if len(m.raw) == 0 {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(m.raw, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool {
		return key == "progressToken" || strings.HasPrefix(key, own)
	})
	if len(all) == 0 {
		return nil
	}
	raw, _ := json.Marshal(all) // parts of valid JSON
	return raw
}

// modern reports whether the message is of a revision without sessions.
func (m *message) modern() bool { return mcp.IsModernProtocol(m.Params.Meta.Version) }

// given is the message's params as the client has sent them.
func (m *message) given() json.RawMessage {
	var whole struct {
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(m.raw, &whole) // it was read before
	return whole.Params
}

// answer is a result that goes to the client as it is.
type rawAnswer struct{ id, result json.RawMessage }

// wire is the answer as a message on one line.
func (r *rawAnswer) wire() []byte {
	result := r.result
	if bytes.ContainsAny(result, "\n\r") {
		var flat bytes.Buffer
		if json.Compact(&flat, result) == nil {
			result = flat.Bytes()
		}
	}
	b := make([]byte, 0, len(r.id)+len(result)+40)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, r.id...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}')
}

// onWire is a message as bytes on one line.
func onWire(message any) ([]byte, error) {
	switch m := message.(type) {
	case *rawAnswer:
		return m.wire(), nil
	case encodedMessage:
		return m, nil
	}
	raw, err := json.Marshal(message)
	if err != nil {
		return nil, unencoded(err)
	}
	return raw, nil
}
