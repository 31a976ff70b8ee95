package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

var update = flag.Bool("update", false, "write the golden requests")

const key = "sk-test-0123456789abcdef"

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

func client() *model.Client { return model.NewClient(nil, fixedClock{}) }

// served is a model at a server that gives every request to h.
func served(t *testing.T, p model.Protocol, h http.HandlerFunc) model.Model {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return model.Model{Name: "m", Protocol: p, ID: "test-1", BaseURL: s.URL, Key: key, MaxTokens: 100}
}

// streaming answers with events, each of which is the data of one.
func streaming(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Request-Id", "req_1")
		for _, e := range events {
			fmt.Fprintf(w, "event: x\ndata: %s\n\n", e)
		}
	}
}

func ask(text string) model.Request {
	return model.Request{System: "Be brief.", Messages: []model.Message{{Text: text}}}
}

func call(t *testing.T, m model.Model, r model.Request) (model.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // more than a busy machine takes
	defer cancel()
	return client().Call(ctx, m, r)
}

// anthropicEvents are a stream with a thinking block, a text and two tool calls. Pieces
// end in the middle of escapes.
var anthropicEvents = []string{
	`{"type":"message_start","message":{"id":"msg_1","model":"test-1-20261001","usage":{"input_tokens":12,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so\ud83d"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\ude00 \u003cb\u003e <i>"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB\/+=="}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking", "data": "AAEC" }}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":null}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Let me "}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"look."}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"page", "n": 1.50}}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"page","n":2}}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"pml_execute","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"code\": \"a"}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\\n1e2\", \"n\":1e2}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"list","input":{}}}`,
	`{"type":"content_block_stop","index":4}`,
	`{"type":"new_event_of_next_year","x":1}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":40}}`,
	`{"type":"message_stop"}`,
}

const anthropicBlocks = `[{"type":"thinking","thinking":"so\ud83d\ude00 \u003cb\u003e <i>","signature":"EqQB\/+=="},` +
	`{"type":"redacted_thinking","data":"AAEC"},` +
	`{"type":"text","text":"Let me look.","citations":[{"type":"page", "n": 1.50},{"type":"page","n":2}]},` +
	`{"type":"tool_use","id":"toolu_1","name":"pml_execute","input":{"code": "a\n1e2", "n":1e2}},` +
	`{"type":"tool_use","id":"toolu_2","name":"list","input":{}}]`

var openAIEvents = []string{
	`{"id":"c1","model":"test-1-0101","choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"reasoning_content":"hm <x>"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"Let me\ud83d"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"\ude00 look."}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"pml_execute","arguments":""}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"code\": "}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":""},"extra_content":{"google":{"thought_signature":"A+\/"}}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":5}}}`,
	`[DONE]`,
}

const openAIBlocks = `{"role":"assistant","content":"Let me\ud83d\ude00 look.","refusal":null,"reasoning_content":"hm <x>",` +
	`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"pml_execute","arguments":"{\"code\": \"a\"}"}},` +
	`{"id":"call_2","type":"function","function":{"name":"list","arguments":""},"extra_content":{"google":{"thought_signature":"A+\/"}}}]}`

func TestCall_Answers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		protocol model.Protocol
		events   []string
		want     model.Answer
	}{
		"Anthropic": {model.Anthropic, anthropicEvents, model.Answer{
			Blocks: json.RawMessage(anthropicBlocks), Text: "Let me look.",
			Calls: []model.Call{
				{ID: "toolu_1", Name: "pml_execute", Input: json.RawMessage(`{"code": "a\n1e2", "n":1e2}`)},
				{ID: "toolu_2", Name: "list", Input: json.RawMessage(`{}`)},
			},
			Stop: model.StopTools, StopText: "tool_use", Model: "test-1-20261001", RequestID: "req_1",
			Usage: &model.Usage{Input: 12, Output: 40, CacheRead: 5, CacheWrite: 3},
		}},
		"OpenAI": {model.OpenAI, openAIEvents, model.Answer{
			Blocks: json.RawMessage(openAIBlocks), Text: "Let me😀 look.",
			Calls: []model.Call{
				{ID: "call_1", Name: "pml_execute", Input: json.RawMessage(`{"code": "a"}`)},
				{ID: "call_2", Name: "list", Input: json.RawMessage(`{}`)},
			},
			Stop: model.StopTools, StopText: "tool_calls", Model: "test-1-0101", RequestID: "req_1",
			Usage: &model.Usage{Input: 15, Output: 40, CacheRead: 5},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var heard strings.Builder
			r := ask("go")
			r.OnText = func(text string) { heard.WriteString(text) }
			got, err := call(t, served(t, tt.protocol, streaming(tt.events...)), r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !json.Valid(got.Blocks) {
				t.Errorf("the blocks are no JSON: %s", got.Blocks)
			}
			// A character in two pieces is heard as two marks; the whole text has it.
			if tt.protocol == model.Anthropic && heard.String() != tt.want.Text {
				t.Errorf("heard %q", heard.String())
			}
		})
	}
}

// TestCall_Requests compares the requests of a conversation with files, byte by byte:
// what a model said goes back as it came.
func TestCall_Requests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		protocol     model.Protocol
		answer, path string
		base         string
		ids          [2]string
		auth         [2]string
	}{
		{model.Anthropic, anthropicBlocks, "/v1/messages", "", [2]string{"toolu_1", "toolu_2"}, [2]string{"X-Api-Key", key}},
		{model.Anthropic, anthropicBlocks, "/proxy/v1/messages", "/proxy/v1/", [2]string{"toolu_1", "toolu_2"}, [2]string{"X-Api-Key", key}},
		{model.OpenAI, openAIBlocks, "/v1/chat/completions", "/v1", [2]string{"call_1", "call_2"}, [2]string{"Authorization", "Bearer " + key}},
	} {
		t.Run(string(tt.protocol)+tt.base, func(t *testing.T) {
			t.Parallel()
			var body []byte
			var head http.Header
			path := ""
			m := served(t, tt.protocol, func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				path, head = r.URL.Path, r.Header
				w.WriteHeader(http.StatusTeapot)
			})
			m.BaseURL += tt.base
			_, err := call(t, m, model.Request{
				System: "Be <brief>.", MaxTokens: 7,
				Tools: []model.Tool{{Name: "pml_execute", Description: "runs it", Schema: json.RawMessage(`{"type":"object"}`)}},
				Messages: []model.Message{
					{Text: "What is in a & b?"},
					{Answer: json.RawMessage(tt.answer)},
					{Results: []model.Result{{ID: tt.ids[0], Text: "1\n2"}, {ID: tt.ids[1], Text: "no such file", Failed: true}}, Text: "One call is left."},
				},
			})
			if core.CodeOf(err) != core.CodeModelInvalid {
				t.Error(err)
			}
			if path != tt.path || head.Get(tt.auth[0]) != tt.auth[1] || !json.Valid(body) {
				t.Errorf("path %s, header %v, body %s", path, head, body)
			}
			if !strings.Contains(string(body), tt.answer) {
				t.Errorf("the answer did not go back byte for byte: %s", body)
			}
			golden(t, string(tt.protocol)+".json", body)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
		t.Errorf("%s (-file +sent):\n%s", file, diff)
	}
}

func TestCall_Stops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		protocol model.Protocol
		word     string
		want     model.Stop
	}{
		{model.Anthropic, "end_turn", model.StopEnd},
		{model.Anthropic, "tool_use", model.StopTools},
		{model.Anthropic, "max_tokens", model.StopTokens},
		{model.Anthropic, "model_context_window_exceeded", model.StopContext},
		{model.Anthropic, "refusal", model.StopRefusal},
		{model.Anthropic, "pause_turn", model.StopPause},
		{model.Anthropic, "stop_sequence", model.StopSequence},
		{model.Anthropic, "of_next_year", model.StopOther},
		{model.OpenAI, "stop", model.StopEnd},
		{model.OpenAI, "tool_calls", model.StopTools},
		{model.OpenAI, "function_call", model.StopTools},
		{model.OpenAI, "length", model.StopTokens},
		{model.OpenAI, "content_filter", model.StopRefusal},
		{model.OpenAI, "of_next_year", model.StopOther},
	} {
		events := []string{`{"type":"message_start","message":{}}`, `{"type":"message_delta","delta":{"stop_reason":"` + tt.word + `"}}`, `{"type":"message_stop"}`}
		if tt.protocol == model.OpenAI {
			events = []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"` + tt.word + `"}]}`, `[DONE]`}
		}
		got, err := call(t, served(t, tt.protocol, streaming(events...)), ask("x"))
		if err != nil || got.Stop != tt.want || got.StopText != tt.word || got.Blocks != nil || got.Usage != nil {
			t.Errorf("%s %s: %+v, %v", tt.protocol, tt.word, got, err)
		}
	}
}

// TestCall_OtherServers: what servers that speak OpenAI's protocol do differently.
func TestCall_OtherServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		h     http.HandlerFunc
		stop  model.Stop
		text  string
		calls int
	}{
		"StopWithCalls":  {streaming(`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}`, `[DONE]`), model.StopTools, "", 2},
		"NamesAgain":     {streaming(`{"choices":[{"delta":{"role":"assistant","content":"a"}}]}`, `{"choices":[{"delta":{"role":"assistant","content":"b"},"finish_reason":"stop"}]}`), model.StopEnd, "ab", 0},
		"UsageOfNothing": {streaming(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`), model.StopEnd, "x", 0},
		"Refusal":        {streaming(`{"choices":[{"delta":{"refusal":"I can"}}]}`, `{"choices":[{"delta":{"refusal":"not."},"finish_reason":"stop"}]}`), model.StopRefusal, "I cannot.", 0},
		"NoEmptyLine": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": keepalive\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]")
		}, model.StopEnd, "x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, served(t, model.OpenAI, tt.h), ask("x"))
			if err != nil || got.Stop != tt.stop || got.Text != tt.text || len(got.Calls) != tt.calls || got.Usage != nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestCall_BadInput: arguments that are no object are told apart, and the answer can go
// back all the same.
func TestCall_BadInput(t *testing.T) {
	t.Parallel()
	for _, input := range []string{`{\"code\": \"a`, `[1]`, `\"text\"`, `nonsense`, `{\"a\":1}}`} {
		got, err := call(t, served(t, model.Anthropic, streaming(
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"`+input+`"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`,
		)), ask("x"))
		if err != nil || len(got.Calls) != 1 || got.Calls[0].Input != nil || !strings.Contains(string(got.Blocks), `"input":{"invalid_json":`) || !json.Valid(got.Blocks) {
			t.Errorf("anthropic %s: %+v, %v", input, got, err)
		}
		got, err = call(t, served(t, model.OpenAI, streaming(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"`+input+`"}}]},"finish_reason":"tool_calls"}]}`,
		)), ask("x"))
		if err != nil || len(got.Calls) != 1 || got.Calls[0].Input != nil || !strings.Contains(string(got.Blocks), `"arguments":"`+input+`"`) {
			t.Errorf("openai %s: %+v, %v", input, got, err)
		}
	}
}

func TestCall_Errors(t *testing.T) {
	t.Parallel()
	status := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	cut := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			streaming(events...)(w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	anthropicErr := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_2"}`
	}
	openAIErr := func(kind, code, message string) string {
		return `{"error":{"type":"` + kind + `","code":` + code + `,"message":"` + message + `"}}`
	}
	for name, tt := range map[string]struct {
		protocol model.Protocol
		h        http.HandlerFunc
		code     core.Code
		says     string
		after    int
	}{
		"RefusedKey":      {model.Anthropic, status(401, anthropicErr("authentication_error", "invalid x-api-key "+key)), core.CodeModelKeyRefused, "«api_key»", 0},
		"NotAllowed":      {model.Anthropic, status(403, anthropicErr("permission_error", "no")), core.CodeModelKeyRefused, "check the key", 0},
		"RateLimited":     {model.Anthropic, status(429, anthropicErr("rate_limit_error", "slow down"), "Retry-After", "7"), core.CodeRateLimited, "slow down; try again in 7 s", 7},
		"RetryAfterMs":    {model.OpenAI, status(429, "", "Retry-After-Ms", "1500", "Retry-After", "9"), core.CodeRateLimited, "429", 2},
		"RetryAfterDate":  {model.OpenAI, status(429, "", "Retry-After", "Tue, 24 Nov 2026 12:01:00 GMT"), core.CodeRateLimited, "429", 60},
		"RetryAfterLong":  {model.OpenAI, status(429, "", "Retry-After", "1e300"), core.CodeRateLimited, "429", 86400},
		"RetryAfterBad":   {model.OpenAI, status(429, "", "Retry-After", "-5"), core.CodeRateLimited, "429", 0},
		"Quota":           {model.OpenAI, status(429, openAIErr("insufficient_quota", `"insufficient_quota"`, "no money")), core.CodeModelQuota, "no money", 0},
		"Billing":         {model.Anthropic, status(402, "{}"), core.CodeModelQuota, "402", 0},
		"Overloaded":      {model.Anthropic, status(529, anthropicErr("overloaded_error", "Overloaded")), core.CodeModelUnavailable, "529", 0},
		"Unavailable":     {model.OpenAI, status(503, "<html>", "Retry-After", "3"), core.CodeModelUnavailable, "503", 3},
		"Failed":          {model.OpenAI, status(500, openAIErr("server_error", "null", "oops")), core.CodeModelUnavailable, "oops", 0},
		"TooLong":         {model.Anthropic, status(400, anthropicErr("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")), core.CodeModelContext, "210000", 0},
		"TooLongCode":     {model.OpenAI, status(400, openAIErr("invalid_request_error", `"context_length_exceeded"`, "x")), core.CodeModelContext, "x", 0},
		"TooLongLlama":    {model.OpenAI, status(400, openAIErr("exceed_context_size_error", "400", "x")), core.CodeModelContext, "x", 0},
		"TooLarge":        {model.Anthropic, status(413, anthropicErr("request_too_large", "x")), core.CodeModelContext, "x", 0},
		"Invalid":         {model.Anthropic, status(400, anthropicErr("invalid_request_error", "messages: roles must alternate")), core.CodeModelInvalid, "roles must alternate", 0},
		"NoSuchModel":     {model.OpenAI, status(404, `{"error":"model 'x' not found"}`), core.CodeModelInvalid, "model 'x' not found", 0},
		"Policy":          {model.OpenAI, status(400, openAIErr("invalid_request_error", `"content_filter"`, "x")), core.CodeModelRefused, "x", 0},
		"PolicyText":      {model.Anthropic, status(400, anthropicErr("invalid_request_error", "Output blocked by content filtering policy")), core.CodeModelRefused, "blocked", 0},
		"Redirect":        {model.Anthropic, status(302, "", "Location", "https://example.com/"), core.CodeModelInvalid, "redirect", 0},
		"HugeError":       {model.OpenAI, status(500, strings.Repeat("x", 10<<20)), core.CodeModelUnavailable, "500", 0},
		"Controls":        {model.OpenAI, status(400, `{"error":{"message":"\u001b[2Jgone"}}`), core.CodeModelInvalid, `[2Jgone`, 0},
		"NoStream":        {model.OpenAI, status(200, "{malformed", "Content-Type", "application/json"), core.CodeModelStream, "application/json", 0},
		"Disconnect":      {model.Anthropic, cut(anthropicEvents[:5]...), core.CodeModelStream, "broke off", 0},
		"DisconnectEarly": {model.OpenAI, cut(), core.CodeModelStream, "broke off", 0},
		"DisconnectLate":  {model.OpenAI, cut(openAIEvents[:9]...), core.CodeModelStream, "broke off", 0},
		"EndsEarly":       {model.Anthropic, streaming(anthropicEvents[:20]...), core.CodeModelStream, "before the answer was whole", 0},
		"EndsBeforeStop":  {model.Anthropic, streaming(anthropicEvents[:len(anthropicEvents)-1]...), core.CodeModelStream, "before the answer was whole", 0},
		"EndsEarlyToo":    {model.OpenAI, streaming(openAIEvents[:8]...), core.CodeModelStream, "before the answer was whole", 0},
		"DoneTooEarly":    {model.OpenAI, streaming(openAIEvents[2], "[DONE]"), core.CodeModelStream, "before the answer was whole", 0},
		"NoEvents":        {model.OpenAI, streaming(), core.CodeModelStream, "before the answer was whole", 0},
		"Malformed":       {model.Anthropic, streaming(`{"type":"content_block_st`), core.CodeModelStream, "cannot be read", 0},
		"MalformedToo":    {model.OpenAI, streaming(`{"choices":[{"delta":`), core.CodeModelStream, "cannot be read", 0},
		"DeltaFirst":      {model.Anthropic, streaming(anthropicEvents[3]), core.CodeModelStream, "has not begun", 0},
		"UnknownDelta":    {model.Anthropic, streaming(anthropicEvents[1], `{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta"}}`), core.CodeModelStream, "hologram_delta", 0},
		"TypeChanges":     {model.OpenAI, streaming(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":[]}}]}`), core.CodeModelStream, "type", 0},
		"ErrorInStream":   {model.Anthropic, streaming(anthropicEvents[0], anthropicErr("overloaded_error", "Overloaded")), core.CodeModelUnavailable, "Overloaded", 0},
		"ErrorInChunk":    {model.OpenAI, streaming(openAIEvents[0], openAIErr("x", "429", "slow")), core.CodeRateLimited, "slow", 0},
		"TextError":       {model.OpenAI, streaming(`{"error":"it fell over"}`), core.CodeModelUnavailable, "it fell over", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := served(t, tt.protocol, tt.h)
			_, err := call(t, m, ask("x"))
			e := core.AsError(err)
			if core.CodeOf(err) != tt.code || !strings.Contains(e.Message, tt.says) || e.RetryAfter != tt.after {
				t.Errorf("got %v (retry after %d): %v\nwant %v with %q (%d)", core.CodeOf(err), e.RetryAfter, err, tt.code, tt.says, tt.after)
			}
			if what, next, ok := strings.Cut(e.Message, "; "); !ok || next == "" || strings.Contains(next, "; ") && !strings.HasPrefix(next, "nothing of the answer is used; ") {
				t.Errorf("it is not one sentence with what to do next: %q and %q", what, next)
			}
			if strings.Contains(e.Message, key) || strings.Contains(e.Message, "\x1b") || len(e.Message) > 1000 || !strings.Contains(e.Message, "the model m (test-1 at 127.0.0.1") {
				t.Errorf("message: %q", e.Message)
			}
		})
	}
}

// TestCall_TooLarge: an endless answer ends the call, whatever it consists of.
func TestCall_TooLarge(t *testing.T) {
	t.Parallel()
	endless := func(first string, piece string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, first)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
			}
		}
	}
	k := strings.Repeat("x", 64<<10)
	for name, tt := range map[string]struct {
		protocol model.Protocol
		h        http.HandlerFunc
	}{
		"Text":   {model.OpenAI, endless("", `data: {"choices":[{"delta":{"content":"`+k+`"}}]}`+"\n\n")},
		"Calls":  {model.OpenAI, endless("", `data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"`+k+`"}}]}}]}`+"\n\n")},
		"Line":   {model.OpenAI, endless("data: ", k)},
		"Event":  {model.Anthropic, endless("", "data: "+k+"\n")},
		"TenMB":  {model.Anthropic, streaming(slices.Concat(anthropicEvents[:3], slices.Repeat([]string{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + k + `"}}`}, 160), anthropicEvents[5:])...)},
		"Blocks": {model.Anthropic, endless("", `data: {"type":"content_block_start","index":0,"content_block":{"type":"`+k+`"}}`+"\n\n"+`data: {"type":"content_block_stop","index":0}`+"\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := call(t, served(t, tt.protocol, tt.h), ask("x")); core.CodeOf(err) != core.CodeResultTooLarge || !strings.Contains(err.Error(), "; nothing of the answer is used; ask for less") {
				t.Error(err)
			}
		})
	}
}

func TestCall_NoKey(t *testing.T) {
	t.Parallel()
	for _, p := range []model.Protocol{model.Anthropic, model.OpenAI} {
		_, err := call(t, model.Model{Name: "m", Protocol: p, ID: "x"}, ask("x"))
		if core.CodeOf(err) != core.CodeModelNoKey {
			t.Errorf("%s: %v", p, err)
		}
	}
	// A server of one's own may want none.
	var head http.Header
	m := served(t, model.OpenAI, func(w http.ResponseWriter, r *http.Request) {
		head = r.Header
		streaming(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`)(w, r)
	})
	m.Key = ""
	if _, err := call(t, m, ask("x")); err != nil || head.Get("Authorization") != "" {
		t.Error(err, head)
	}
}

func TestCall_Unreachable(t *testing.T) {
	t.Parallel()
	m := served(t, model.Anthropic, nil)
	m.BaseURL = "http://127.0.0.1:1"
	if _, err := call(t, m, ask("x")); core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
	m.BaseURL = "http://a b/"
	if _, err := call(t, m, ask("x")); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Error(err)
	}
}

// transport answers without a network, so that time can be the test's own.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slow gives its parts with a pause before each, until the request ends.
type slow struct {
	ctx   context.Context
	parts []string
	pause time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.pause):
	}
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

func TestCall_Silence(t *testing.T) {
	t.Parallel()
	whole := []string{"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", ": wait\n\n", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"}
	for name, tt := range map[string]struct {
		head, part, cancel time.Duration
		code               core.Code
		after              time.Duration
	}{
		"SlowButHeard":  {50 * time.Second, 50 * time.Second, 0, "", 250 * time.Second},
		"SlowFirstByte": {61 * time.Second, 0, 0, core.CodeModelTimeout, time.Minute},
		"StopsSending":  {time.Second, time.Hour, 0, core.CodeModelTimeout, time.Minute + time.Second},
		"Cancelled":     {time.Hour, 0, 5 * time.Second, core.CodeCancelled, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := model.NewClient(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					select {
					case <-r.Context().Done():
						return nil, r.Context().Err()
					case <-time.After(tt.head):
					}
					return &http.Response{
						StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
						Body: io.NopCloser(&slow{r.Context(), whole, tt.part}),
					}, nil
				})}, fixedClock{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				began := time.Now()
				_, err := c.Call(ctx, model.Model{Name: "m", Protocol: model.OpenAI, ID: "x", BaseURL: "http://h/v1", Silence: time.Minute}, ask("x"))
				if core.CodeOf(err) != tt.code {
					t.Error(err)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %s, want %s", took, tt.after)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := model.NewClient(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, errors.New("wrapped without a reason")
		})}, fixedClock{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Call(ctx, model.Model{Name: "m", Protocol: model.OpenAI, ID: "x", BaseURL: "http://h/v1"}, ask("x"))
		if core.CodeOf(err) != core.CodeModelTimeout {
			t.Error(err)
		}
	})
}
