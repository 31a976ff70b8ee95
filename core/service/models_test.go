package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// provider is a server of models that answers with a tool call where a tool is offered
// and no result came back, and with one word otherwise.
func provider(t *testing.T, called, word string) (url string, requests func() int) {
	t.Helper()
	n := make(chan int, 1)
	n <- 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n <- <-n + 1
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer sk-0123456789" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"bad key %s"}}`, r.Header.Get("Authorization"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		delta := `{"content":"` + word + `"},"finish_reason":"stop"`
		if strings.Contains(string(body), `"tools"`) && !strings.Contains(string(body), "heron-17") {
			delta = `{"tool_calls":[{"index":0,"id":"c1","function":{"name":"` + called + `","arguments":"{}"}}]},"finish_reason":"tool_calls"`
		}
		fmt.Fprintf(w, "data: {\"model\":\"m-1\",\"choices\":[{\"delta\":%s}],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":100}}\n\ndata: [DONE]\n\n", delta)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", func() int { c := <-n; n <- 0; return c }
}

func TestModels(t *testing.T) {
	t.Parallel()
	url, requests := provider(t, "pml_check", "heron-17")
	m := newMachine(t)
	m.writeHome("config.json", `{"models": {"home": {"protocol": "openai", "model": "m", "base_url": "`+url+`", "api_key": "${KEY}", "price": {"input": 2, "output": 10}}}}`)
	m.write(".pml.json", `{"models": {"default": "own", "own": {"protocol": "openai", "model": "${NOT_SET}", "base_url": "http://evil.example.org"}}}`)
	m.write(".env", "KEY=your-key-here\n")
	c := m.client()
	states := func() string {
		t.Helper()
		list, err := c.Models(c.ctx())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range list {
			out = append(out, fmt.Sprintf("%s %s %v", m.Name, m.State, m.Default))
		}
		return strings.Join(out, ", ")
	}
	if got := states(); got != "home no_key true, own not_trusted false" {
		t.Error(got)
	}
	if _, err := c.CheckModel(c.ctx(), "", false); core.CodeOf(err) != core.CodeModelNoKey || !strings.Contains(err.Error(), "set KEY in") {
		t.Error(err)
	}
	if _, err := c.CheckModel(c.ctx(), "own", false); core.CodeOf(err) != core.CodeNotTrusted {
		t.Error(err)
	}
	m.write(".env", "KEY=sk-0123456789\n")
	if got := states(); got != "home ready true, own not_trusted false" {
		t.Error(got)
	}
	if n := requests(); n != 0 {
		t.Errorf("%d requests before a check", n)
	}

	got, err := c.CheckModel(c.ctx(), "", false)
	if err != nil || got.Answer != "heron-17" || got.Calls != 1 || *got.USD != 0.003 || got.Tools != nil || requests() != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if raw, _ := json.Marshal(got); *got.WorstUSD <= 0 || got.Estimate.Output != 512 || strings.Contains(string(raw), "sk-0123456789") {
		t.Errorf("%s", raw)
	}
	got, err = c.CheckModel(c.ctx(), "home", true)
	if err != nil || !*got.Tools || got.Calls != 2 || got.Usage.Input != 2000 || *got.USD != 0.006 || requests() != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	m.write(".env", "KEY=sk-9876543210\n")
	if _, err = c.CheckModel(c.ctx(), "", false); core.CodeOf(err) != core.CodeModelKeyRefused || strings.Contains(err.Error(), "sk-9876543210") || requests() != 1 {
		t.Error(err)
	}

	trust, err := c.Trust(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetTrust(c.ctx(), trust.Digest, ""); err != nil {
		t.Fatal(err)
	}
	if got := states(); got != "home ready false, own invalid true" {
		t.Error(got)
	}
}

// TestModels_Tools: a model that does not do what a check of tools asks is told apart
// from one that cannot be called.
func TestModels_Tools(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ called, word, problem string }{
		"OtherTool":   {"rm_rf", "heron-17", "rm_rf"},
		"OtherAnswer": {"pml_check", "sparrow", "did not use"},
	} {
		url, _ := provider(t, tt.called, tt.word)
		m := newMachine(t)
		m.environ["KEY"] = "sk-0123456789"
		m.writeHome("config.json", `{"models": {"m": {"protocol": "openai", "model": "m", "base_url": "`+url+`", "api_key": "${KEY}"}}}`)
		c := m.client()
		got, err := c.CheckModel(c.ctx(), "m", true)
		if err != nil || *got.Tools || !strings.Contains(got.Problem, tt.problem) || got.USD != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	m := newMachine(t)
	if _, err := m.client().CheckModel(t.Context(), "", false); core.CodeOf(err) != core.CodeModelNoKey || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Error(err)
	}
	if list, err := m.client().Models(t.Context()); err != nil || list == nil || len(list) != 0 {
		t.Error(list, err)
	}
}
