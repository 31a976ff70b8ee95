package model

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
)

// openAIRequest writes a request of the Chat Completions protocol.
func openAIRequest(m Model, r Request) []byte {
	b := newBody(m)
	limit := "max_tokens"
	if m.own() {
		limit = "max_completion_tokens" // the older name is refused by newer models there, and the only one elsewhere
	}
	b.member(limit, r.MaxTokens)
	b.member("stream_options", map[string]bool{"include_usage": true})
	if len(r.Tools) > 0 {
		tools := make([]any, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema}}
		}
		b.member("tools", tools)
	}
	b.open("messages")
	if r.System != "" {
		b.element(encoded(map[string]string{"role": "system", "content": r.System}))
	}
	for _, message := range r.Messages {
		if message.Answer != nil {
			b.element(message.Answer)
			continue
		}
		for _, result := range message.Results {
			text := result.Text
			if result.Failed { // the protocol has no other sign
				text = "Error: " + text
			}
			b.element(encoded(map[string]string{"role": "tool", "tool_call_id": result.ID, "content": text}))
		}
		if message.Text != "" {
			b.element(encoded(map[string]string{"role": "user", "content": message.Text}))
		}
	}
	return b.close()
}

// openAIStream assembles one message from the deltas of its chunks.
type openAIStream struct {
	onText func(string)
	size   kept

	message value
	model   string
	usage   *Usage
	finish  string
}

// openAIChunk is what pml reads of an event.
type openAIChunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index  int             `json:"index"`
		Delta  json.RawMessage `json:"delta"`
		Finish string          `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached  int64 `json:"cached_tokens"`
			Written int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

func (s *openAIStream) event(data []byte) (done bool, err error) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		return true, nil
	}
	var c openAIChunk
	if err := decode(data, &c); err != nil {
		return false, err
	}
	if len(c.Error) > 0 && !bytes.Equal(c.Error, core.Null) {
		return false, streamError(c.Error)
	}
	if c.Model != "" {
		s.model = c.Model
	}
	if u := c.Usage; u != nil {
		read, written := max(u.Details.Cached, 0), max(u.Details.Written, 0)
		s.usage = &Usage{Input: max(u.Prompt-read-written, 0), Output: max(u.Completion, 0), CacheRead: read, CacheWrite: written}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // one was asked for
			continue
		}
		if choice.Finish != "" {
			s.finish = choice.Finish
		}
		if err := s.delta(choice.Delta); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (s *openAIStream) delta(delta json.RawMessage) error {
	if len(delta) == 0 || bytes.Equal(delta, core.Null) {
		return nil
	}
	if !isObject(delta) {
		return broken("sent a piece of its answer that is no object")
	}
	if err := s.size.add(len(delta)); err != nil {
		return err
	}
	if err := s.message.merge(delta, 0); err != nil {
		return err
	}
	var piece struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(delta, &piece) == nil && piece.Content != "" {
		s.onText(piece.Content)
	}
	return nil
}

func (s *openAIStream) answer() (Answer, error) {
	if s.finish == "" {
		return Answer{}, cutOff(nil)
	}
	m := &s.message
	out := Answer{Model: s.model, StopText: s.finish, Stop: stopOf(s.finish), Usage: s.usage.reported(), Text: m.get("content").string()}
	for _, c := range m.get("tool_calls").elements {
		c.drop("index") // says where a piece belongs
		arguments := []byte(strings.TrimSpace(c.get("function", "arguments").string()))
		out.Calls = append(out.Calls, Call{ID: c.get("id").string(), Name: c.get("function", "name").string(), Input: objectOf(arguments)})
	}
	if refusal := m.get("refusal").string(); refusal != "" {
		out.Stop = StopRefusal
		if out.Text == "" {
			out.Text = refusal
		}
	}
	if out.Stop == StopEnd && len(out.Calls) > 0 { // several servers say so
		out.Stop = StopTools
	}
	if out.Text != "" || len(out.Calls) > 0 {
		if m.get("role").string() == "" {
			*m.member("role") = value{kind: '"', text: []byte("assistant")}
		}
		out.Blocks = m.append(nil)
	}
	return out, nil
}
