package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// anthropicVersion is the revision of the protocol.
const anthropicVersion = "2023-06-01"

// anthropicRequest writes a request of the Messages protocol.
func anthropicRequest(m Model, r Request) []byte {
	b := newBody(m)
	b.member("max_tokens", r.MaxTokens)
	if r.System != "" {
		b.member("system", []any{map[string]any{"type": "text", "text": r.System, "cache_control": ephemeral}})
	}
	if len(r.Tools) > 0 {
		tools := make([]any, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.Schema}
		}
		b.member("tools", tools)
	}
	b.open("messages")
	for i, message := range r.Messages {
		if message.Answer != nil {
			b.element(slices.Concat([]byte(`{"role":"assistant","content":`), message.Answer, []byte("}")))
			continue
		}
		b.element(encoded(map[string]any{"role": "user", "content": anthropicBlocks(message, i == len(r.Messages)-1)}))
	}
	return b.close()
}

// ephemeral marks where the provider's cache may end.
var ephemeral = map[string]string{"type": "ephemeral"}

// anthropicBlocks are the content of a message to the model: results come first.
func anthropicBlocks(m Message, last bool) []map[string]any {
	var out []map[string]any
	for _, r := range m.Results {
		block := map[string]any{"type": "tool_result", "tool_use_id": r.ID, "content": r.Text}
		if r.Failed {
			block["is_error"] = true
		}
		out = append(out, block)
	}
	if m.Text != "" {
		out = append(out, map[string]any{"type": "text", "text": m.Text})
	}
	if last && len(out) > 0 {
		out[len(out)-1]["cache_control"] = ephemeral
	}
	return out
}

// anthropicStream assembles content blocks from their deltas.
type anthropicStream struct {
	onText func(string)
	size   kept

	blocks  []*anthropicBlock
	open    *anthropicBlock
	model   string
	usage   *Usage
	stop    string
	stopped bool // by message_stop
}

// anthropicBlock is a content block: as it began, with what came since.
type anthropicBlock struct {
	value
	index   int
	input   value // the JSON of a tool's input, as the string that it came in
	invalid bool  // that is no object
}

// anthropicEvent is what pml reads of an event. Events of other types are passed over.
type anthropicEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Block   json.RawMessage `json:"content_block"`
	Error   json.RawMessage `json:"error"`
	Message struct {
		Model string          `json:"model"`
		Usage *anthropicUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		Type       string          `json:"type"`
		Text       json.RawMessage `json:"text"`
		Thinking   json.RawMessage `json:"thinking"`
		Signature  json.RawMessage `json:"signature"`
		Partial    json.RawMessage `json:"partial_json"`
		Citation   json.RawMessage `json:"citation"`
		StopReason string          `json:"stop_reason"`
	} `json:"delta"`
	Usage *anthropicUsage `json:"usage"`
}

type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

func (s *anthropicStream) event(data []byte) (done bool, err error) {
	var e anthropicEvent
	if err := decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "message_start":
		s.model = e.Message.Model
		s.used(e.Message.Usage)
	case "content_block_start":
		return false, s.start(e)
	case "content_block_delta":
		return false, s.delta(e)
	case "content_block_stop":
		return false, s.end(e)
	case "message_delta":
		if e.Delta.StopReason != "" {
			s.stop = e.Delta.StopReason
		}
		s.used(e.Usage)
	case "message_stop":
		s.stopped = true
		return true, nil
	case "error":
		return false, streamError(e.Error)
	}
	return false, nil
}

// used takes what the provider says of usage: later numbers replace earlier ones.
func (s *anthropicStream) used(u *anthropicUsage) {
	if u == nil {
		return
	}
	if s.usage == nil {
		s.usage = &Usage{}
	}
	for _, n := range []struct {
		to   *int64
		from *int64
	}{{&s.usage.Input, u.Input}, {&s.usage.Output, u.Output}, {&s.usage.CacheRead, u.CacheRead}, {&s.usage.CacheWrite, u.CacheWrite}} {
		if n.from != nil {
			*n.to = max(*n.from, 0)
		}
	}
}

func (s *anthropicStream) start(e anthropicEvent) error {
	if s.open != nil || !isObject(e.Block) {
		return broken("began a part of its answer in the middle of another one, or one that is no object")
	}
	if err := s.size.add(len(e.Block)); err != nil {
		return err
	}
	s.open = &anthropicBlock{index: e.Index, value: value{kind: '{'}}
	s.blocks = append(s.blocks, s.open)
	jsonrpc.EachMember(bytes.TrimSpace(e.Block), func(name, part []byte) { *s.open.member(string(name)) = leaf(part) })
	if text := s.open.get("text").string(); text != "" && s.open.get("type").string() == "text" {
		s.onText(text)
	}
	return nil
}

func (s *anthropicStream) delta(e anthropicEvent) error {
	if s.open == nil || s.open.index != e.Index {
		return broken("went on with a part of its answer that has not begun")
	}
	d := e.Delta
	var to *value
	var piece json.RawMessage
	switch d.Type {
	case "text_delta":
		to, piece = s.open.member("text"), d.Text
	case "thinking_delta":
		to, piece = s.open.member("thinking"), d.Thinking
	case "signature_delta":
		to, piece = s.open.member("signature"), d.Signature
	case "input_json_delta":
		to, piece = &s.open.input, d.Partial
	case "citations_delta":
		to, piece = s.open.member("citations"), d.Citation
	default:
		// Without it the block would not be whole, and could not go back.
		return broken("sent a piece of an unknown type, %q", core.Visible(d.Type, 40, false))
	}
	if err := s.size.add(len(piece)); err != nil {
		return err
	}
	if d.Type == "citations_delta" && isObject(piece) {
		return to.push(piece)
	}
	if len(piece) == 0 || piece[0] != '"' {
		return broken("sent a piece without content")
	}
	if d.Type == "text_delta" {
		var text string
		_ = json.Unmarshal(piece, &text) // it was valid
		s.onText(text)
	}
	return to.merge(piece, 0)
}

// end completes a block: the input of a tool is the text that its pieces make.
func (s *anthropicStream) end(e anthropicEvent) error {
	if s.open == nil || s.open.index != e.Index {
		return broken("ended a part of its answer that has not begun")
	}
	b := s.open
	s.open = nil
	text := strings.TrimSpace(b.input.string())
	if text == "" {
		return nil
	}
	input := []byte(text)
	if !isObject(input) {
		// The protocol takes back objects only, so what the model wrote becomes a text in one.
		input = encoded(map[string]string{"invalid_json": text})
		b.invalid = true
	}
	*b.member("input") = value{kind: 'r', text: input}
	return nil
}

func (s *anthropicStream) answer() (Answer, error) {
	if !s.stopped || s.open != nil || s.stop == "" {
		return Answer{}, cutOff(nil)
	}
	out := Answer{Model: s.model, StopText: s.stop, Stop: stopOf(s.stop), Usage: s.usage.reported()}
	var text strings.Builder
	blocks := []byte("[")
	for i, b := range s.blocks {
		if i > 0 {
			blocks = append(blocks, ',')
		}
		blocks = b.append(blocks)
		switch b.get("type").string() {
		case "text":
			text.WriteString(b.get("text").string())
		case "tool_use":
			call := Call{ID: b.get("id").string(), Name: b.get("name").string()}
			if !b.invalid {
				call.Input = objectOf(b.get("input").append(nil))
			}
			out.Calls = append(out.Calls, call)
		}
	}
	if out.Text = text.String(); len(s.blocks) > 0 {
		out.Blocks = append(blocks, ']')
	}
	return out, nil
}

// objectOf is a text that is a JSON object, {} for none at all, nil for anything else.
func objectOf(raw []byte) json.RawMessage {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case !isObject(raw):
		return nil
	}
	return raw
}

// stopOf maps the words of both protocols.
func stopOf(word string) Stop {
	switch word {
	case "end_turn", "stop":
		return StopEnd
	case "tool_use", "tool_calls", "function_call":
		return StopTools
	case "max_tokens", "length":
		return StopTokens
	case "model_context_window_exceeded":
		return StopContext
	case "refusal", "content_filter":
		return StopRefusal
	case "pause_turn":
		return StopPause
	case "stop_sequence":
		return StopSequence
	}
	return StopOther
}
