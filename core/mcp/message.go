package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// message is a message of a client, as far as a transport looks at it.
type message struct {
	jsonrpc.Message
	Method string
	Params params
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
	Client       core.Client // in revisions without sessions
	Level        string      // of the log, in revisions without sessions

	raw json.RawMessage
}

// own begins the names in _meta that are between a client and pml: they do not
// pass to a server behind it, but for the level of the log that is wanted.
const own = "io.modelcontextprotocol/"

// UnmarshalJSON implements json.Unmarshaler.
func (m *meta) UnmarshalJSON(raw []byte) error {
	var known struct {
		Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
		Token        json.RawMessage `json:"progressToken"`
		Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		Level        name            `json:"io.modelcontextprotocol/logLevel"`
		Client       json.RawMessage `json:"io.modelcontextprotocol/clientInfo"`
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return err
	}
	*m = meta{Version: known.Version, Token: known.Token, Capabilities: known.Capabilities, Client: clientIn(known.Client), Level: string(known.Level), raw: bytes.Clone(raw)}
	return nil
}

// clientIn is what a client says of itself, fit to be kept and shown.
func clientIn(info json.RawMessage) core.Client {
	var said struct {
		Name    name `json:"name"`
		Version name `json:"version"`
		Title   name `json:"title"`
	}
	_ = json.Unmarshal(info, &said) // what is no object has no name
	return core.NewClient(string(said.Name), string(said.Version), string(said.Title))
}

// clientOf is the same of a client that has introduced itself once.
func clientOf(info mcp.Implementation) core.Client {
	return core.NewClient(info.Name, info.Version, info.Title)
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
	if mcp.IsModernProtocol(m.Version) && levels[m.Level] > 0 { // those with sessions set it by a request
		all[mcp.MetaKeyLogLevel], _ = json.Marshal(m.Level) // a string
	}
	if len(all) == 0 {
		return nil
	}
	raw, _ := json.Marshal(all) // parts of valid JSON
	return raw
}

// modern reports whether the message is of a revision without sessions.
func (m *message) modern() bool { return mcp.IsModernProtocol(m.Params.Meta.Version) }

// request is the message as mcp-go reads it, with other params: it takes "ID" for
// "id", so that it gets no more than what was read here.
func (m *message) request(params json.RawMessage) json.RawMessage {
	text := make([]byte, 0, len(m.ID)+len(m.Message.Method)+len(params)+60)
	text = append(append(text, `{"jsonrpc":"2.0","id":`...), m.ID...)
	text = append(append(text, `,"method":`...), m.Message.Method...)
	if params != nil {
		text = append(append(text, `,"params":`...), params...)
	}
	return append(text, '}')
}

// isRequest reports whether the message wants an answer.
func (m *message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

// isNotification reports whether the message wants none.
func (m *message) isNotification() bool { return m.Method != "" && len(m.ID) == 0 }

// parse reads a message. What is not one comes back as the answer to it.
func parse(raw []byte) (*message, *jsonrpc.Response) {
	m := &message{}
	if core.Depth(raw) > maxDepth {
		return m, jsonrpc.Refuse(jsonrpc.IDOf(raw), mcp.INVALID_PARAMS, "the message is nested more than "+strconv.Itoa(maxDepth)+" levels deep; make it flatter")
	}
	raw = bytes.TrimSpace(raw)
	var ok bool
	if m.Message, ok = jsonrpc.Parse(raw); !ok {
		switch {
		case !json.Valid(raw):
			return m, jsonrpc.Refuse(nil, mcp.PARSE_ERROR, "the message is not valid JSON")
		case raw[0] == '[':
			return m, jsonrpc.Refuse(nil, mcp.INVALID_REQUEST, "batches are not supported; send one message at a time")
		}
		return m, jsonrpc.Refuse(nil, mcp.INVALID_REQUEST, "the message is not JSON-RPC: it must be an object")
	}
	id := jsonrpc.PlainID(m.ID)
	var shape *json.UnmarshalTypeError
	switch err := m.read(); {
	case errors.As(err, &shape):
		return m, jsonrpc.Refuse(id, mcp.INVALID_REQUEST, "the message is not JSON-RPC: "+shape.Field+" must not be a "+shape.Value)
	case err != nil:
		return m, jsonrpc.Refuse(nil, mcp.PARSE_ERROR, "the message is not valid JSON")
	case !m.Versioned:
		return m, jsonrpc.Refuse(id, mcp.INVALID_REQUEST, `"jsonrpc" must be "2.0"`)
	case len(m.ID) > 0 && id == nil && m.Method != "":
		return m, jsonrpc.Refuse(nil, mcp.INVALID_REQUEST, "the id must be a string or a number")
	case m.Method == "" && m.Result == nil && m.Failure == nil:
		return m, jsonrpc.Refuse(id, mcp.INVALID_REQUEST, "the message has no method")
	}
	return m, nil
}

// read reads the members that a transport looks at.
func (m *message) read() error {
	if err := readMember("method", m.Message.Method, &m.Method); err != nil {
		return err
	}
	return readMember("params", m.Message.Params, &m.Params)
}

func readMember(name string, text json.RawMessage, into any) error {
	if text == nil {
		return nil
	}
	err := json.Unmarshal(text, into)
	if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		shape.Field = strings.TrimSuffix(name+"."+shape.Field, ".")
	}
	return err
}

// maxDepth is how deeply a message may be nested: the values in it have their
// own limit, and it puts a few levels around them.
const maxDepth = core.MaxDepth + 20

// notification is a message to a client that wants no answer.
func notification(method string, params any) jsonrpc.Request {
	return jsonrpc.Request{Version: jsonrpc.Version, Method: method, Params: params}
}

// ofLibrary is an answer of mcp-go with the id as the client has written it:
// mcp-go reads a number as a float, which has room for 53 bits of it. It repeats
// names, methods and URIs as they came; what they hide is made visible.
func ofLibrary(answer mcp.JSONRPCMessage, m *message) *jsonrpc.Response {
	switch a := answer.(type) {
	case mcp.JSONRPCResponse:
		if listened, ok := a.Result.(mcp.SubscriptionsListenResult); ok {
			listened.EnsureResultMeta().SetSubscriptionID(m.ID)
			a.Result = listened
		}
		return &jsonrpc.Response{ID: m.ID, Result: a.Result}
	case mcp.JSONRPCError:
		if m.Method == string(mcp.MethodResourcesRead) && a.Error.Data == nil {
			a.Error.Data = map[string]any{"uri": core.Visible(m.Params.URI, 2000, false)}
		}
		return jsonrpc.Refuse(m.ID, a.Error.Code, core.Visible(a.Error.Message, maxSaid, false)).With(a.Error.Data)
	}
	return nil
}
