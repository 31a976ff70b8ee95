package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// two are servers that have everything.
func two() *half {
	whole := func(name string) api.Exposed {
		s := server(name)
		s.Resources, s.Prompts, s.Completions, s.Logging = true, true, true, true
		return s
	}
	h := newHalf(whole("a"), whole("b"))
	h.answers = map[string]string{
		"a resources/list":                  `{"resources":[{"name":"one","uri":"a://1","size":12345678901234567890}],"nextCursor":"2"}`,
		`a resources/list {"cursor":"2"}`:   `{"resources":[{"name":"two","uri":"a://2"}]}`,
		"b resources/list":                  `{"resources":[{"name":"one","uri":"b://1"}]}`,
		"a resources/templates/list":        `{"resourceTemplates":[{"uriTemplate":"a://t/{id}"}]}`,
		"b resources/templates/list":        `{"resourceTemplates":[{"uriTemplate":"b://t/{id}/x"}]}`,
		"a prompts/list":                    `{"prompts":[{"name":"same"},{"name":"of a"}]}`,
		"b prompts/list":                    `{"prompts":[{"name":"of b"},{"name":"same"}]}`,
		"a resources/read":                  `{"contents":["a"]}`,
		"b resources/read":                  `{"contents":["b"]}`,
		"a prompts/get":                     `{"messages":["a"]}`,
		"b prompts/get":                     `{"messages":["b"]}`,
		"a completion/complete":             `{"completion":"a"}`,
		"b completion/complete":             `{"completion":"b"}`,
		"b logging/setLevel":                `{}`,
		`a resources/list {"cursor":"own"}`: `{"resources":[]}`,
	}
	return h
}

func TestForward(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, params, want string // want: empty where it is nobody's
	}{
		{"lists are put together", "resources/list", `{}`, `{"resources":[{"name":"one","uri":"a://1","size":12345678901234567890},{"name":"two","uri":"a://2"},{"name":"one","uri":"b://1"}]}`},
		{"prompts of one name are not offered", "prompts/list", `{}`, `{"prompts":[{"name":"of a"},{"name":"of b"}]}`},
		{"by URI, of who lists it", "resources/read", `{"uri":"b://1"}`, `{"contents":["b"]}`},
		{"by template", "resources/read", `{"uri":"b://t/7/x"}`, `{"contents":["b"]}`},
		{"nobody's", "resources/read", `{"uri":"c://1"}`, ``},
		{"by name", "prompts/get", `{"name":"of b"}`, `{"messages":["b"]}`},
		{"of two", "prompts/get", `{"name":"same"}`, ``},
		{"of none", "prompts/get", `{"name":"other"}`, ``},
		{"completion of a prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"of a"}}`, `{"completion":"a"}`},
		{"completion of a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"b://t/{id}/x"}}`, `{"completion":"b"}`},
		{"one refuses the level", "logging/setLevel", `{"level":"debug"}`, `{}`},
		{"another method", "tasks/list", `{}`, ``},
		{"no parameters", "resources/read", ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := open(t, two())
			raw, ours, err := g.Forward(t.Context(), nil, tt.method, json.RawMessage(tt.params))
			if err != nil || ours != (tt.want != "") || string(raw) != tt.want {
				t.Errorf("%s, %v, %v", raw, ours, err)
			}
		})
	}
}

// All have the level, whoever refuses it.
func TestForward_LevelToAll(t *testing.T) {
	t.Parallel()
	h := two()
	if _, _, err := open(t, h).Forward(t.Context(), nil, "logging/setLevel", json.RawMessage(`{"level":"debug"}`)); err != nil {
		t.Fatal(err)
	}
	if want := []string{`a logging/setLevel {"level":"debug"}`, `b logging/setLevel {"level":"debug"}`}; !slices.Equal(h.sent, want) {
		t.Errorf("%v", h.sent)
	}
}

// The lists of a single server pass page by page, and its errors as they are.
func TestForward_OneServer(t *testing.T) {
	t.Parallel()
	s := server("a")
	s.Resources = true
	h := newHalf(s)
	h.answers["a resources/list"] = `{"resources":[],"nextCursor":"next","_meta":{"x":1}}`
	g := open(t, h)
	raw, ours, err := g.Forward(t.Context(), nil, "resources/list", json.RawMessage(`{"cursor":"here"}`))
	if err != nil || !ours || string(raw) != h.answers["a resources/list"] || h.sent[0] != `a resources/list {"cursor":"here"}` {
		t.Errorf("%s, %v, %v", raw, err, h.sent)
	}
	var said *api.PeerError
	_, ours, err = g.Forward(t.Context(), nil, "resources/read", json.RawMessage(`{"uri":"whatever"}`))
	if !errors.As(err, &said) || !ours || said.Code != -32601 {
		t.Errorf("%v, %v", err, ours)
	}
	if _, ours, err := g.Forward(t.Context(), nil, "prompts/list", nil); ours || err != nil {
		t.Errorf("prompts of a server without any: %v, %v", ours, err)
	}
}

// A server whose list cannot be had does not hide those of the others.
func TestForward_OneFails(t *testing.T) {
	t.Parallel()
	h := two()
	delete(h.answers, "a resources/list")
	delete(h.answers, `a resources/list {"cursor":"2"}`)
	raw, _, err := open(t, h).Forward(t.Context(), nil, "resources/list", nil)
	if err != nil || !strings.Contains(string(raw), "b://1") {
		t.Errorf("%s, %v", raw, err)
	}
	delete(h.answers, "b resources/list")
	if _, ours, err := open(t, h).Forward(t.Context(), nil, "resources/list", nil); err == nil || !ours {
		t.Errorf("all fail: %v", err)
	}
}

func FuzzForward(f *testing.F) {
	f.Add("resources/read", `{"uri":"a://t/1"}`, `a://t/{id}`)
	f.Add("prompts/get", `{"name":3}`, `{}}{`)
	f.Fuzz(func(t *testing.T, method, params, template string) {
		h := two()
		raw, err := json.Marshal(map[string]any{"resourceTemplates": []any{map[string]string{"uriTemplate": template}, nil, 3}})
		if err != nil {
			return
		}
		h.answers["a resources/templates/list"] = string(raw)
		g := proxy.New(proxy.Options{Half: h})
		defer g.Close()
		if result, ours, err := g.Forward(context.Background(), nil, method, json.RawMessage(params)); !ours && (result != nil || err != nil) {
			t.Errorf("%s, %v", result, err)
		}
	})
}
