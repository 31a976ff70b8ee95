package upstream

import (
	"bytes"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// wire is one JSON-RPC message as it was sent: the texts of its members, which
// share the memory of the whole. What is not there is nil.
type wire struct {
	text                                []byte
	id, method, params, result, failure []byte
	versioned                           bool // "jsonrpc" is "2.0"
}

// isMessage reports whether it is a request, a notification or a response.
// Other JSON that happens to look like one in part is not: with the id of a
// call in it, it would be taken for the answer.
func (w *wire) isMessage() bool { return w.versioned && (w.method != nil || w.id != nil) }

// unasked reports whether it is a request or a notification of the server.
func (w *wire) unasked() bool { return w.method != nil }

// isRequest reports whether something unasked wants an answer.
func (w *wire) isRequest() bool { return w.id != nil && !bytes.Equal(w.id, core.Null) }

// name is the text of the method.
func (w *wire) name() string {
	var s string
	if json.Unmarshal(w.method, &s) != nil {
		return ""
	}
	return s
}

// rpc is the error of a response, nil for none; its data keeps its text.
func (w *wire) rpc() *mcp.JSONRPCErrorDetails {
	if w.failure == nil || bytes.Equal(w.failure, core.Null) {
		return nil
	}
	details := &mcp.JSONRPCErrorDetails{}
	if err := json.Unmarshal(w.failure, details); err != nil {
		return &mcp.JSONRPCErrorDetails{Code: mcp.INTERNAL_ERROR, Message: string(w.failure)}
	}
	if data := errorData(w.failure); data != nil {
		details.Data = data
	}
	return details
}

// errorData is the data of a JSON-RPC error as it was sent, nil for none.
func errorData(failure []byte) json.RawMessage {
	var e struct {
		Data json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(failure, &e) // a text instead of an object has none
	return e.Data
}

// parseWire finds the members of one JSON object. ok is false for anything else.
func parseWire(text []byte) (w wire, ok bool) {
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return w, false
	}
	w.text = text
	eachMember(text, w.member)
	return w, true
}

func (w *wire) member(name, value []byte) {
	switch string(name) {
	case "id":
		w.id = value
	case "method":
		w.method = value
	case "params":
		w.params = value
	case "result":
		w.result = value
	case "error":
		w.failure = value
	case "jsonrpc":
		w.versioned = string(value) == `"2.0"`
	}
}

// eachMember calls f with the name and the text of each member of an object,
// which is valid JSON and begins with its brace; doubled ones come twice, names
// as they read without escapes. Who reads names by it reads them exactly:
// encoding/json takes "ID" for "id".
func eachMember(text []byte, f func(name, value []byte)) {
	for i := 1; ; {
		i = skipSpace(text, i)
		if text[i] == '}' {
			return
		}
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
		end := skipValue(text, i)
		name := text[i:end]
		i = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		end = skipValue(text, i)
		f(unquoted(name), text[i:end:end])
		i = end
	}
}

// unquoted is what a JSON string says.
func unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends. The text is valid.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
	default:
		for i < len(text) && bytes.IndexByte([]byte(",}] \t\r\n"), text[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// skipString looks at each byte at most twice, whatever is escaped.
func skipString(text []byte, i int) int {
	i++
	quote := i + bytes.IndexByte(text[i:], '"')
	for {
		back := bytes.IndexByte(text[i:quote], '\\')
		if back < 0 {
			return quote + 1
		}
		if i += back + 2; i > quote {
			quote = i + bytes.IndexByte(text[i:], '"')
		}
	}
}
