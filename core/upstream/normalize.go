package upstream

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// NormalizeResult turns the result of tools/call into the value that a script
// gets: structuredContent if there is one, else a single text parsed as JSON
// if it parses (numbers keep their digits), else that text as a string, else
// the list of contents. A result with isError is a core.CodeToolFailed with
// its text. A result that is not MCP is a core.CodeToolFailed too, and one that
// is nested more deeply than core.MaxDepth.
func NormalizeResult(raw json.RawMessage) (json.RawMessage, error) {
	if bytes.Equal(bytes.TrimSpace(raw), core.Null) {
		return nil, core.Errorf(core.CodeToolFailed, "the server's answer is not an MCP result: it is null")
	}
	r, err := readResult(raw)
	if err != nil {
		return nil, core.Errorf(core.CodeToolFailed, "the server's answer is not an MCP result: %w", err)
	}
	if r.Structured = bytes.TrimSpace(r.Structured); !isStructured(r.Structured) {
		r.Structured = nil
	}
	if r.IsError {
		return nil, &core.Error{Code: core.CodeToolFailed, Message: failureText(r.Content, r.Structured)}
	}
	value, err := valueOf(r.Content, r.Structured)
	if err == nil && core.TooDeep(value) {
		return nil, core.Errorf(core.CodeToolFailed, "the result is nested more than %d levels deep", core.MaxDepth)
	}
	return value, err
}

// result is a result of tools/call as far as it is looked at.
type result struct {
	IsError    bool
	Structured json.RawMessage
	Content    []json.RawMessage
}

// readResult reads a result by the exact names of its members, as whoever gets
// it as it was sent reads it.
func readResult(raw json.RawMessage) (r result, err error) {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return r, json.Unmarshal(raw, &struct{}{})
	}
	jsonrpc.EachMember(raw, func(name, value []byte) {
		var problem error
		switch string(name) {
		case "isError":
			r.IsError = false
			problem = json.Unmarshal(value, &r.IsError)
		case "structuredContent":
			r.Structured = bytes.Clone(value)
		case "content":
			r.Content = nil
			problem = json.Unmarshal(value, &r.Content)
		}
		if err == nil {
			err = problem
		}
	})
	return r, err
}

func valueOf(contents []json.RawMessage, structured json.RawMessage) (json.RawMessage, error) {
	if structured != nil {
		return structured, nil
	}
	if len(contents) == 1 {
		if text, ok := textOf(contents[0]); ok {
			return textValue(text)
		}
	}
	if contents == nil {
		return core.Null, nil
	}
	return json.Marshal(contents)
}

// textOf returns the text of a content whose type is text.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return "", false
	}
	var kind string
	var text *string
	fits := true
	jsonrpc.EachMember(raw, func(name, value []byte) {
		switch string(name) {
		case "type":
			fits = json.Unmarshal(value, &kind) == nil && fits
		case "text":
			text = nil
			fits = json.Unmarshal(value, &text) == nil && fits
		}
	})
	if !fits || kind != "text" || text == nil {
		return "", false
	}
	return *text, true
}

// textValue is a text as JSON: what it says if it is JSON, else a string.
func textValue(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed != "" && utf8.ValidString(trimmed) && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode a text: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// failureText is what a failed tool said.
func failureText(contents []json.RawMessage, structured json.RawMessage) string {
	var texts []string
	for _, raw := range contents {
		if text, ok := textOf(raw); ok && strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	switch {
	case len(texts) > 0:
		return cut(strings.Join(texts, "\n"))
	case structured != nil:
		return cut(string(structured))
	}
	return "the tool failed and did not say why"
}
