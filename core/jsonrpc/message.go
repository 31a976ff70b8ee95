// Package jsonrpc is JSON-RPC 2.0 as MCP speaks it: messages whose members keep
// the text in which they were sent, the framing by lines and by server-sent
// events, and the tables of the requests that wait for an answer. Both sides use
// it: core/mcp as a server, core/upstream as a client.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// Version is what each message says in "jsonrpc".
const Version = "2.0"

// Codes of errors that JSON-RPC itself has.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Message is one message as it was sent: the texts of its members, which share
// the memory of the whole. What is not there is nil.
type Message struct {
	Text            []byte
	ID, Method      json.RawMessage
	Params          json.RawMessage
	Result, Failure json.RawMessage
	Versioned       bool // "jsonrpc" is "2.0"
}

// IsMessage reports whether it is a request, a notification or a response.
// Other JSON that happens to look like one in part is not: with the id of a
// call in it, it would be taken for the answer.
func (m *Message) IsMessage() bool { return m.Versioned && (m.Method != nil || m.ID != nil) }

// Unasked reports whether it is a request or a notification, no response.
func (m *Message) Unasked() bool { return m.Method != nil }

// IsRequest reports whether something unasked wants an answer.
func (m *Message) IsRequest() bool { return m.ID != nil && !bytes.Equal(m.ID, core.Null) }

// Name is the text of the method.
func (m *Message) Name() string {
	var s string
	if json.Unmarshal(m.Method, &s) != nil {
		return ""
	}
	return s
}

// Failed reports whether a response is an error.
func (m *Message) Failed() bool { return m.Failure != nil && !bytes.Equal(m.Failure, core.Null) }

// Err is the error of a response, nil for none; its data keeps its text.
func (m *Message) Err() *Error {
	if !m.Failed() {
		return nil
	}
	e := &Error{}
	if err := json.Unmarshal(m.Failure, e); err != nil {
		return &Error{Code: CodeInternal, Message: string(m.Failure)}
	}
	return e
}

// Error is the error of a response. Its message is foreign text.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("error %d: %s", e.Code, core.Visible(e.Message, 2000, true))
}

// With gives an error its data, which must be something that JSON can say.
func (e *Error) With(data any) *Error {
	if data != nil {
		e.Data, _ = json.Marshal(data)
	}
	return e
}

// Request is a request to be sent or, without an ID, a notification.
type Request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  any             `json:"params,omitempty"`
}

// Response is the answer to a request: a result, or an error.
type Response struct {
	ID     json.RawMessage // nil: that of a request which could not be read
	Result any             // a json.RawMessage is sent as it is
	Error  *Error          // nil for a result
}

// Refuse is the answer to a request that fails.
func Refuse(id json.RawMessage, code int, text string) *Response {
	return &Response{ID: id, Error: &Error{Code: code, Message: text}}
}

// With gives a refusal the data of its error.
func (r *Response) With(data any) *Response {
	r.Error = r.Error.With(data)
	return r
}

// Code is that of the error, 0 for a result and where there is no answer.
func (r *Response) Code() int {
	if r == nil || r.Error == nil {
		return 0
	}
	return r.Error.Code
}

// Encode is the response on one line. One that cannot be written as JSON
// becomes an error, since who waits for it must be answered.
func (r *Response) Encode() []byte {
	name, value := `,"result":`, r.Result
	if r.Error != nil {
		name, value = `,"error":`, r.Error
	}
	body, raw := value.(json.RawMessage)
	if !raw {
		var err error
		if body, err = json.Marshal(value); err != nil {
			return Refuse(r.ID, CodeInternal, "the answer cannot be encoded").Encode()
		}
	} else if bytes.ContainsAny(body, "\n\r") {
		var flat bytes.Buffer
		if json.Compact(&flat, body) == nil {
			body = flat.Bytes()
		}
	}
	id := r.ID
	if len(id) == 0 {
		id = core.Null
	}
	text := make([]byte, 0, len(id)+len(body)+40)
	text = append(append(text, `{"jsonrpc":"2.0","id":`...), id...)
	text = append(append(text, name...), body...)
	return append(text, '}')
}

// Parse finds the members of one JSON object. ok is false for anything else. Of
// members that are doubled the last counts, and names are read exactly.
func Parse(text []byte) (m Message, ok bool) {
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return m, false
	}
	m.Text = text
	EachMember(text, m.member)
	return m, true
}

func (m *Message) member(name, value []byte) {
	switch string(name) {
	case "id":
		m.ID = value
	case "method":
		m.Method = value
	case "params":
		m.Params = value
	case "result":
		m.Result = value
	case "error":
		m.Failure = value
	case "jsonrpc":
		m.Versioned = string(value) == `"2.0"`
	}
}
