package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// FuzzReadStream: whatever a provider sends is an answer whose parts are JSON that can go
// back, or an error with one of the codes of Call.
func FuzzReadStream(f *testing.F) {
	f.Add(true, []byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ud83d\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add(true, []byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"citations_delta\",\"citation\":{}}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"x\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add(false, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":7,\"function\":{\"arguments\":\"{\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":7,\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":-1}}\n\ndata: [DONE]\n\n"))
	f.Add(false, []byte("data: {\"error\":{\"code\":529,\"message\":\"x\"}}\n\n"))
	f.Fuzz(func(t *testing.T, anthropic bool, stream []byte) {
		p := OpenAI
		if anthropic {
			p = Anthropic
		}
		var heard strings.Builder
		got, err := readStream(bytes.NewReader(stream), newAssembler(p, func(text string) { heard.WriteString(text) }))
		if err != nil {
			if _, ok := errors.AsType[*fault](err); !ok || core.CodeOf(Model{Name: "m"}.errorOf(err, "")) == core.CodeInternal {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if got.Blocks != nil && !json.Valid(got.Blocks) {
			t.Fatalf("blocks are no JSON: %q", got.Blocks)
		}
		for _, c := range got.Calls {
			if c.Input != nil && !isObject(c.Input) {
				t.Fatalf("the input is no object: %q", c.Input)
			}
		}
		m := Model{ID: "x", Protocol: p}
		if got.Blocks == nil {
			return
		}
		r := Request{Messages: []Message{{Text: "x"}, {Answer: got.Blocks}}}
		body := anthropicRequest(m, r)
		if !anthropic {
			body = openAIRequest(m, r)
		}
		if !json.Valid(body) {
			t.Fatalf("the next request is no JSON: %q", body)
		}
	})
}
