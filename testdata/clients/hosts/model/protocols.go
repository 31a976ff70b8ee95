package model

import (
	"encoding/json"
	"io"
)

// named is the name that every protocol gives a model that is none.
const named = "scripted-1"

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) read(body []byte) (c conversation, err error) {
	var v struct {
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return c, err
	}
	c.stream = v.Stream
	for _, t := range v.Tools {
		c.tools = append(c.tools, tool{name: t.Name})
	}
	names := map[string]string{}
	for _, msg := range v.Messages {
		var parts []struct {
			Type, ID, Name string
			ToolUseID      string `json:"tool_use_id"`
			Content        json.RawMessage
		}
		if json.Unmarshal(msg.Content, &parts) != nil {
			continue // a text
		}
		for _, p := range parts {
			switch p.Type {
			case "tool_use":
				names[p.ID] = p.Name
			case "tool_result":
				c.results = append(c.results, result{tool: names[p.ToolUseID], text: text(p.Content)})
			}
		}
	}
	return c, nil
}

func (anthropic) write(w io.Writer, stream bool, r reply) {
	usage := object{"input_tokens": 10, "output_tokens": 10}
	block, reason := object{"type": "text", "text": r.text}, "end_turn"
	empty, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": r.text}
	if r.call != nil {
		reason = "tool_use"
		block = object{"type": "tool_use", "id": "toolu_" + r.call.id, "name": r.call.tool.name, "input": r.call.args}
		empty = object{"type": "tool_use", "id": "toolu_" + r.call.id, "name": r.call.tool.name, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": r.call.arguments()}
	}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": named, "content": []any{block}, "stop_reason": reason, "stop_sequence": nil, "usage": usage}
	if !stream {
		encode(w, message)
		return
	}
	message["content"], message["stop_reason"] = []any{}, nil
	event(w, "message_start", object{"type": "message_start", "message": message})
	event(w, "content_block_start", object{"type": "content_block_start", "index": 0, "content_block": empty})
	event(w, "content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	event(w, "content_block_stop", object{"type": "content_block_stop", "index": 0})
	event(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": usage})
	event(w, "message_stop", object{"type": "message_stop"})
}

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) read(body []byte) (c conversation, err error) {
	type offered struct {
		Type, Name string
		Tools      []struct{ Name string }
	}
	var v struct {
		Stream bool
		Tools  []offered
		Input  json.RawMessage
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return c, err
	}
	c.stream = v.Stream
	offer := func(all []offered) {
		for _, t := range all {
			if t.Type == "tool_search" && t.Name == "" {
				t.Name = t.Type
			}
			if t.Type != "namespace" {
				c.tools = append(c.tools, tool{name: t.Name})
			}
			for _, inner := range t.Tools {
				c.tools = append(c.tools, tool{space: t.Name, name: inner.Name})
			}
		}
	}
	offer(v.Tools)
	var items []struct {
		Type, Name, Namespace string
		CallID                string `json:"call_id"`
		Output                json.RawMessage
		Tools                 []offered
	}
	if json.Unmarshal(v.Input, &items) != nil {
		return c, nil // a text
	}
	names := map[string]string{}
	for _, item := range items {
		switch item.Type {
		case "function_call":
			names[item.CallID] = tool{space: item.Namespace, name: item.Name}.String()
		case "function_call_output":
			c.results = append(c.results, result{tool: names[item.CallID], text: text(item.Output)})
		case "tool_search_output":
			offer(item.Tools)
			c.results = append(c.results, result{tool: "tool_search"})
		}
	}
	return c, nil
}

func (responses) write(w io.Writer, stream bool, r reply) {
	item := object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": r.text, "annotations": []any{}}}}
	if r.call != nil {
		item = object{"id": "fc_1", "type": "function_call", "status": "completed", "call_id": r.call.id, "name": r.call.tool.name, "arguments": r.call.arguments()}
		if r.call.tool.space != "" {
			item["namespace"] = r.call.tool.space
		}
		if r.call.tool.name == "tool_search" && r.call.tool.space == "" {
			item = object{"id": "ts_1", "type": "tool_search_call", "status": "completed", "call_id": r.call.id, "execution": "client", "arguments": r.call.args}
		}
	}
	done := object{"id": "resp_1", "object": "response", "status": "completed", "model": named, "output": []any{item}, "usage": object{
		"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 10,
		"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 20,
	}}
	if !stream {
		encode(w, done)
		return
	}
	event(w, "response.created", object{"type": "response.created", "response": object{"id": "resp_1", "object": "response", "status": "in_progress", "output": []any{}}})
	event(w, "response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": item})
	event(w, "response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	event(w, "response.completed", object{"type": "response.completed", "response": done})
}

// completions is OpenAI's Chat Completions API, which many have taken over.
type completions struct{}

func (completions) read(body []byte) (c conversation, err error) {
	var v struct {
		Stream bool
		Tools  []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return c, err
	}
	c.stream = v.Stream
	for _, t := range v.Tools {
		c.tools = append(c.tools, tool{name: t.Function.Name})
	}
	names := map[string]string{}
	for _, msg := range v.Messages {
		for _, made := range msg.ToolCalls {
			names[made.ID] = made.Function.Name
			if made.Function.Name == caller {
				names[made.ID] = Member(made.Function.Arguments, "name")
			}
		}
		if msg.Role == "tool" {
			c.results = append(c.results, result{tool: names[msg.ToolCallID], text: text(msg.Content)})
		}
	}
	return c, nil
}

func (completions) write(w io.Writer, stream bool, r reply) {
	message, reason := object{"role": "assistant", "content": r.text}, "stop"
	if r.call != nil {
		reason = "tool_calls"
		message = object{"role": "assistant", "content": nil, "tool_calls": []any{object{
			"index": 0, "id": r.call.id, "type": "function", "function": object{"name": r.call.tool.name, "arguments": r.call.arguments()},
		}}}
	}
	usage := object{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
	if !stream {
		encode(w, object{"id": "chat_1", "object": "chat.completion", "created": 1, "model": named, "usage": usage,
			"choices": []any{object{"index": 0, "message": message, "finish_reason": reason}}})
		return
	}
	chunk := func(delta object, reason any) {
		event(w, "", object{"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": named,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}}})
	}
	chunk(message, nil)
	chunk(object{}, reason)
	event(w, "", object{"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": named, "choices": []any{}, "usage": usage})
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // a host that has gone asks again
}

// gemini is Google's generateContent.
type gemini struct{}

func (gemini) read(body []byte) (c conversation, err error) {
	var v struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct {
					Name     string
					Response json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return c, err
	}
	for _, group := range v.Tools {
		for _, t := range group.FunctionDeclarations {
			c.tools = append(c.tools, tool{name: t.Name})
		}
	}
	for _, content := range v.Contents {
		for _, p := range content.Parts {
			if p.FunctionResponse != nil {
				c.results = append(c.results, result{tool: p.FunctionResponse.Name, text: text(p.FunctionResponse.Response)})
			}
		}
	}
	return c, nil
}

func (gemini) write(w io.Writer, stream bool, r reply) {
	part := object{"text": r.text}
	if r.call != nil {
		part = object{"functionCall": object{"id": r.call.id, "name": r.call.tool.name, "args": r.call.args}}
	}
	v := object{
		"candidates":    []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}, "modelVersion": named,
	}
	if stream {
		event(w, "", v)
		return
	}
	encode(w, v)
}

// encode writes an answer that is no stream.
func encode(w io.Writer, v any) {
	_ = json.NewEncoder(w).Encode(v) // a host that has gone asks again
}
