package hook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/diff"
	"github.com/casys-ai/pml/core/flow"
)

// result is an MCP CallToolResult, as far as its parts depend on each other.
type result struct {
	members    map[string]json.RawMessage
	content    []json.RawMessage
	structured json.RawMessage
	isError    *bool
}

// readResult reads a result; the error says what of it no client could read.
func readResult(raw json.RawMessage) (r result, err error) {
	fault := func(format string, args ...any) (result, error) {
		return result{}, core.Errorf(core.CodeHookFailed, format, args...)
	}
	if core.CheckKeys("response", raw) != nil || json.Unmarshal(raw, &r.members) != nil || r.members == nil {
		return fault("response must be the result of a tool: {content, structuredContent, isError}")
	}
	if content, ok := r.members["content"]; ok {
		if json.Unmarshal(content, &r.content) != nil || r.content == nil {
			return fault("response.content must be a list")
		}
		for _, block := range r.content {
			var b struct {
				Type string  `json:"type"`
				Text *string `json:"text"`
			}
			if json.Unmarshal(block, &b) != nil || b.Type == "" || b.Type == "text" && b.Text == nil {
				return fault("each block of response.content must be an object with a type, and one of the type text needs a text")
			}
		}
	}
	if raw, ok := r.members["structuredContent"]; ok {
		if !isObject(raw) {
			return fault("response.structuredContent must be an object")
		}
		r.structured = raw
	}
	if raw, ok := r.members["isError"]; ok {
		if json.Unmarshal(raw, &r.isError) != nil || r.isError == nil {
			return fault("response.isError must be true or false")
		}
	}
	return r, nil
}

func isObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
}

// readResponse reads the response of a hook and makes its parts agree: text that
// mirrors the structured content follows it, and it follows the text. Where a hook has
// changed one of them and left the other behind, so that what it took out would still be
// there, the response is refused.
func readResponse(in flow.Input, raw json.RawMessage) (json.RawMessage, error) {
	if in.Flow.Type == flow.ListTools {
		return raw, nil
	}
	now, err := readResult(raw)
	if err != nil {
		return nil, err
	}
	var was result
	if in.Answer != nil && in.Answer.Err == nil && len(in.Answer.Result) > 0 {
		if was, err = readResult(in.Answer.Result); err != nil {
			was = result{} // the upstream's own result; nothing to agree with
		}
	}
	if now.isError == nil && was.isError != nil {
		now.members["isError"] = was.members["isError"]
	}
	if err := agree(&was, &now); err != nil {
		return nil, err
	}
	return json.Marshal(now.members)
}

// agree brings content and structuredContent of a changed result into line. Most servers
// send the same value twice, as structuredContent and as the JSON text of a block, and a
// hook that removes a secret from one of the two must not leave it in the other:
//
//	structuredContent   content     what happens
//	absent              changed     nothing: there is one of them only
//	given               absent      the content becomes the text of it
//	added               same        nothing: it was not there before
//	changed             changed     nothing: the hook has given both
//	changed             same        the block that mirrored it follows; without one: refused
//	same                changed     it follows a content of one block of JSON; else: refused
//	same                same        nothing
//
// Blocks that were added beside all the old ones are no change of the content.
func agree(was, now *result) error {
	if now.members["content"] == nil {
		if now.structured == nil {
			return core.Errorf(core.CodeHookFailed, "response needs content, or structuredContent")
		}
		return now.mirror()
	}
	if now.structured == nil {
		return nil
	}
	structured := was.structured == nil || !same(was.structured, now.structured)
	content := was.members["content"] == nil || !keeps(was.content, now.content)
	mirror := slices.IndexFunc(now.content, func(b json.RawMessage) bool { return was.structured != nil && same(textOf(b), was.structured) })
	switch {
	case structured && !content && mirror >= 0:
		return now.setText(mirror, now.structured)
	case structured && !content && was.structured != nil:
		return core.Errorf(core.CodeHookFailed, "response.structuredContent was changed and response.content was not, so they would say different things; give both, or leave content away")
	case content && !structured:
		if len(now.content) == 1 && isObject(textOf(now.content[0])) {
			now.members["structuredContent"] = textOf(now.content[0])
			return nil
		}
		return core.Errorf(core.CodeHookFailed, "response.content was changed and response.structuredContent was not, so they would say different things; change or remove it, too")
	}
	return nil
}

// mirror makes the content the text of the structured content.
func (r *result) mirror() error {
	r.content = []json.RawMessage{nil}
	return r.setText(0, r.structured)
}

// setText gives a block a text and keeps its other members, such as annotations.
func (r *result) setText(i int, text json.RawMessage) (err error) {
	var block map[string]json.RawMessage
	if json.Unmarshal(r.content[i], &block) != nil || block == nil {
		block = map[string]json.RawMessage{"type": json.RawMessage(`"text"`)}
	}
	if block["text"], err = json.Marshal(string(text)); err != nil {
		return err
	}
	if r.content[i], err = json.Marshal(block); err != nil {
		return err
	}
	r.members["content"], err = json.Marshal(r.content)
	return err
}

// keeps reports whether all blocks of a content are still there, in their order.
func keeps(was, now []json.RawMessage) bool {
	for _, block := range was {
		i := slices.IndexFunc(now, func(b json.RawMessage) bool { return same(b, block) })
		if i < 0 {
			return false
		}
		now = now[i+1:]
	}
	return true
}

// textOf is the text of a block; nil: it has none.
func textOf(block json.RawMessage) json.RawMessage {
	var b struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(block, &b) != nil || b.Type != "text" {
		return nil
	}
	return json.RawMessage(b.Text)
}

// same reports whether two texts are the same JSON value: by their digests, for which
// neither white space nor the order of members matters.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := core.Digest(a)
	y, err2 := core.Digest(b)
	return err == nil && err2 == nil && x == y
}

// The bounds of the difference that is kept of a change.
const (
	maxDiffed = 64 << 10 // bytes of either side
	maxDiff   = 4 << 10
)

// note adds to an output what it changes, without the values of keys.
func (e *execution) note(in flow.Input, out *flow.Output) error {
	before, after := in.Request.Args, out.Args
	if len(out.Response) > 0 {
		before, after = core.Null, out.Response
		if in.Answer != nil && in.Answer.Err == nil && len(in.Answer.Result) > 0 {
			before = in.Answer.Result
		}
	}
	if len(after) == 0 || bytes.Equal(before, after) {
		return nil
	}
	var change core.FlowChange
	var err error
	if len(before) == 0 {
		before = json.RawMessage("{}")
	}
	if change.Before, err = core.Digest(before); err != nil {
		return core.Errorf(core.CodeHookFailed, "what it has changed is no JSON: %w", err)
	}
	if change.After, err = core.Digest(after); err != nil {
		return core.Errorf(core.CodeHookFailed, "what it has made of it is no JSON: %w", err)
	}
	if change.Before == change.After {
		return nil
	}
	change.Diff = e.difference(before, after)
	out.Change = &change
	return nil
}

// difference is what has changed line by line, for people, without the values of keys.
// Of large values there is none: the digests in the record still say that they differ.
func (e *execution) difference(before, after json.RawMessage) string {
	if len(before) > maxDiffed || len(after) > maxDiffed {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(diff.Lines(pretty(e.secrets, before), pretty(e.secrets, after))) {
		if line[0] != '-' && line[0] != '+' {
			continue
		}
		if b.Len() > maxDiff {
			b.WriteString("…\n")
			break
		}
		b.WriteString(line[:1] + core.Visible(strings.TrimSuffix(line[1:], "\n"), maxLineBytes, false) + "\n")
	}
	return b.String()
}

func pretty(secrets func(string) string, raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return secrets(b.String())
}
