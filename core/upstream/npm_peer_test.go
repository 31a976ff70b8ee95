package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/core/upstream"
)

// person is a host as the server with everything asks it.
func person() *host {
	h := newHost("person", `{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`)
	h.Ask = func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		switch {
		case method == "sampling/createMessage":
			return json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"a model said this"},"model":"m-1","stopReason":"endTurn"}`), nil
		case method == "elicitation/create" && strings.Contains(string(params), `"url"`) && strings.Contains(string(params), "x.example"):
			return json.RawMessage(`{"action":"decline"}`), nil
		case method == "elicitation/create":
			return json.RawMessage(`{"action":"accept","content":{"name":"Ada","check":true}}`), nil
		case method == "roots/list":
			return json.RawMessage(`{"roots":[{"uri":"file:///of/the/person","name":"mine"}]}`), nil
		}
		return nil, &jsonrpc.Error{Code: -32601, Message: "no " + method}
	}
	return h
}

// hears waits until a host has been told something.
func hears(t *testing.T, h *host, method, part string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, said := range h.heard() {
			if strings.HasPrefix(said, method+" ") && strings.Contains(said, part) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s with %s is not told: %q", method, part, h.heard())
		}
	}
}

// The server with everything asks its client, and tells it things, through the
// Manager as it would directly.
func TestReal_ServerEverythingAsksAndTells(t *testing.T) {
	t.Parallel()
	dir := installEverything(t)
	node := skiptest.Tool(t, "node")
	for name, l := range map[string]upstream.Launch{
		"stdio": {
			Name: "everything", Workspace: t.TempDir(), Command: node, Args: []string{filepath.Join(dir, "dist", "index.js"), "stdio"},
			Env: []string{"PATH=" + filepath.Dir(node)},
		},
		"streamable HTTP": {Name: "everything", Workspace: "/w", URL: serveEverything(t, dir)},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := newManager(t, nil), person()
			own := with(l, h)
			realQuestions(t, m, own)
			realDefinitions(t, m, l, own)
			realRequests(t, m, own, h)
			m.Gone("person")
		})
	}
}

func realQuestions(t *testing.T, m *upstream.Manager, l upstream.Launch) {
	t.Helper()
	for _, tt := range []struct{ tool, args, want string }{
		{"trigger-sampling-request", `{"prompt":"hello","maxTokens":10}`, "a model said this"},
		{"trigger-elicitation-request", `{}`, "Ada"},
		{"trigger-url-elicitation", `{"url":"https://x.example/go?a=1"}`, "declin"},
		{"get-roots-list", `{}`, "file:///of/the/person"},
	} {
		if tt.tool == "get-roots-list" && l.URL != "" {
			continue // it asks on a stream that it may find closed, and then never again
		}
		got, err := call(t, m, l, tt.tool, tt.args)
		if err != nil || !strings.Contains(strings.ToLower(got), strings.ToLower(tt.want)) {
			t.Errorf("%s: %s, %v", tt.tool, got, err)
		}
	}
	_, err := call(t, m, l, "trigger-url-elicitation", `{"url":"https://x.example/go","elicitationId":"e1","errorPath":true}`)
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc.Code != -32042 || !strings.Contains(string(rpc.Data), `"elicitationId"`) {
		t.Errorf("the error path: %v, %+v", err, rpc)
	}
	if _, err = call(t, m, l, "simulate-research-query", `{"topic":"x"}`); err == nil {
		t.Error("a tool that runs as a task only was called")
	}
	t.Logf("a task's tool, called plainly: %v", err)
}

func realDefinitions(t *testing.T, m *upstream.Manager, shared, own upstream.Launch) {
	t.Helper()
	names := func(l upstream.Launch) (names []string) {
		defs, _, err := m.Definitions(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range defs {
			names = append(names, d.Tool.Name)
			if d.Tool.Name == "simulate-research-query" && !strings.Contains(string(d.Raw), `"taskSupport":"required"`) {
				t.Errorf("%s", d.Raw)
			}
		}
		return names
	}
	ofAll, ofOwn := names(shared), names(own)
	for _, name := range []string{"trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation", "get-roots-list"} {
		if slices.Contains(ofAll, name) || !slices.Contains(ofOwn, name) {
			t.Errorf("%s: %v and %v", name, ofAll, ofOwn)
		}
	}
}

func realRequests(t *testing.T, m *upstream.Manager, l upstream.Launch, h *host) {
	t.Helper()
	caps, err := m.Capabilities(t.Context(), l)
	if err != nil || caps.Instructions == "" || !json.Valid(caps.Raw) {
		t.Errorf("%+v, %v", caps, err)
	}
	const uri = "demo://resource/dynamic/text/1"
	for _, tt := range []struct{ method, params, want string }{
		{"resources/list", ``, `"resources"`},
		{"resources/templates/list", `{}`, `demo://resource/dynamic/text/{`},
		{"resources/read", `{"uri":"` + uri + `"}`, `"contents"`},
		{"prompts/list", `{}`, `"simple-prompt"`},
		{"prompts/get", `{"name":"args-prompt","arguments":{"city":"Bern"}}`, `Bern`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"E"}}`, `"Engineering"`},
		{"logging/setLevel", `{"level":"debug"}`, `{}`},
		{"resources/subscribe", `{"uri":"` + uri + `"}`, `{}`},
	} {
		got, err := forward(t, m, l, tt.method, tt.params)
		if err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, %v", tt.method, got, err)
		}
	}
	_, err = forward(t, m, l, "resources/read", `{"uri":"demo://nothing"}`)
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc.Code >= 0 {
		t.Errorf("%v", err)
	}
	hears(t, h, "notifications/message", "Received Subscribe Resource request for URI: "+uri)
	if _, err := call(t, m, l, "toggle-subscriber-updates", `{}`); err != nil {
		t.Error(err)
	}
	hears(t, h, "notifications/resources/updated", uri)
	if _, err := call(t, m, l, "toggle-simulated-logging", `{}`); err != nil {
		t.Error(err)
	}
	hears(t, h, "notifications/message", "evel")
	var steps []float64
	_, err = m.Call(t.Context(), upstream.Request{
		Launch: l, Tool: "trigger-long-running-operation", Args: json.RawMessage(`{"duration":0.4,"steps":4}`),
		Progress: func(_ string, done, total float64) { steps = append(steps, done/total) },
	})
	if err != nil || fmt.Sprint(steps) != "[0.25 0.5 0.75 1]" {
		t.Errorf("progress %v, %v", steps, err)
	}
	if _, err := forward(t, m, l, "resources/unsubscribe", `{"uri":"`+uri+`"}`); err != nil {
		t.Error(core.CodeOf(err), err)
	}
}
