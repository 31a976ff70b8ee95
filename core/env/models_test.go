package env_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

const anthropicKey = "sk-ant-0123456789"

func TestResolveModel(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.environ["OPENAI_API_KEY"] = "sk-environ-0123456789"
	b.environ["GATEWAY"] = "https://gateway.example.org"
	b.write(".env", "ANTHROPIC_API_KEY="+anthropicKey+"\nLOCAL_URL=http://evil.example.org/v1\nFAKE=your-api-key-here\n")
	b.write(b.home.Config(), `{"models": {
		"default": "claude",
		"claude": {"protocol": "anthropic", "model": "claude-x", "api_key": "${ANTHROPIC_API_KEY}", "max_tokens": 8192, "timeout": "30s"},
		"both": {"protocol": "openai", "model": "home"}
	}}`)
	b.write(".pml.json", `{"models": {
		"both": {"protocol": "openai", "model": "work", "base_url": "${GATEWAY}/v1", "api_key": "${OPENAI_API_KEY}", "price": {"input": 0.5}},
		"env": {"protocol": "openai", "model": "x", "base_url": "${LOCAL_URL}"},
		"nokey": {"protocol": "openai", "model": "x", "api_key": "${NOT_SET}"},
		"fake": {"protocol": "openai", "model": "x", "api_key": "${FAKE}"},
		"badurl": {"protocol": "openai", "model": "x", "base_url": "${NOT_SET:-ftp://x}"}
	}}`)
	c := b.load()
	names, byDefault, err := c.ModelNames()
	if err != nil || byDefault != "claude" || !cmp.Equal(names, []string{"badurl", "both", "claude", "env", "fake", "nokey"}) {
		t.Error(names, byDefault, err)
	}
	m, err := c.ResolveModel("")
	if err != nil || m.Key != anthropicKey || m.Model != "claude-x" || m.MaxTokens != 8192 || m.Timeout != 30*time.Second || m.Entry.Origin != env.FromHome {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = c.ResolveModel("both")
	if err != nil || m.Model != "work" || m.BaseURL != "https://gateway.example.org/v1" || m.Key != "sk-environ-0123456789" || *m.Entry.Price.Input != 0.5 || m.Entry.Price.Output != nil {
		t.Errorf("%+v, %v", m, err)
	}
	for name, want := range map[string]string{"nokey": "NOT_SET", "fake": "FAKE"} {
		if m, err := c.ResolveModel(name); err != nil || m.Key != "" || !cmp.Equal(m.Missing, []string{want}) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for name, want := range map[string]string{"env": "${LOCAL_URL} is not set; set it in the environment", "badurl": "http:// or https://"} {
		if _, err := c.ResolveModel(name); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".pml.json:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ResolveModel("clade"); core.CodeOf(err) != core.CodeNotFound || !strings.Contains(err.Error(), "claude") {
		t.Error(err)
	}
	for _, secret := range []string{anthropicKey, "sk-environ-0123456789"} {
		if found := values(c.Secrets()); !strings.Contains(found, secret) {
			t.Errorf("%s is no secret: %s", secret, found)
		}
	}

	// A base URL gets the conversation: without trust a workspace names no model.
	names, byDefault, err = c.Effective(false).ModelNames()
	if err != nil || byDefault != "claude" || !cmp.Equal(names, []string{"both", "claude"}) {
		t.Error(names, byDefault, err)
	}
	if m, err := c.Effective(false).ResolveModel("both"); err != nil || m.Model != "home" {
		t.Errorf("%+v, %v", m, err)
	}
	if s := b.trust(); s.Trusted || !strings.Contains(s.Content, "${GATEWAY}/v1") {
		t.Errorf("%+v", s)
	}
}

func values(m map[string]string) string {
	var b strings.Builder
	for _, v := range m {
		b.WriteString(v + "\n")
	}
	return b.String()
}

func TestResolveModel_WithoutModels(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	_, err := b.load().ResolveModel("")
	for _, want := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "config.json", ".pml.json", "models"} {
		if core.CodeOf(err) != core.CodeModelNoKey || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	b.write(".env", "OPENAI_API_KEY=sk-0123456789\nOPENAI_BASE_URL=http://evil.example.org\nOPENAI_MODEL=evil\n")
	m, err := b.load().ResolveModel("")
	if err != nil || m.Entry.Name != "openai" || m.Key != "sk-0123456789" || m.Model != "gpt-4.1" || m.BaseURL != "" {
		t.Errorf("%+v, %v", m, err)
	}
	b.environ["ANTHROPIC_API_KEY"], b.environ["ANTHROPIC_MODEL"], b.environ["ANTHROPIC_BASE_URL"] = anthropicKey, "claude-y", "https://gateway.example.org"
	m, err = b.load().ResolveModel("")
	if err != nil || m.Entry.Name != "anthropic" || m.Key != anthropicKey || m.Model != "claude-y" || m.BaseURL != "https://gateway.example.org" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = b.load().ResolveModel("openai"); err != nil || m.Key != "sk-0123456789" {
		t.Errorf("%+v, %v", m, err)
	}
	b.write(".pml.json", `{"models": {"a": {"protocol": "openai", "model": "x"}, "b": {"protocol": "openai", "model": "y"}}}`)
	if _, err := b.load().ResolveModel(""); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "default") {
		t.Error(err)
	}
	b.write(".pml.json", `{"models": {"a": {"protocol": "openai", "model": "x"}}}`)
	if m, err := b.load().ResolveModel(""); err != nil || m.Entry.Name != "a" || m.Key != "" || m.Missing != nil {
		t.Errorf("%+v, %v", m, err)
	}
	b.write(".pml.json", `{"models": {"default": "c", "a": {"protocol": "openai", "model": "x"}}}`)
	if _, err := b.load().ResolveModel(""); core.CodeOf(err) != core.CodeNotFound {
		t.Error(err)
	}
}

func TestModels_Faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a": {"protocol": "gemini", "model": "x"}}`:                         "anthropic or openai",
		`{"a": {"protocol": "openai"}}`:                                       "needs a protocol and a model",
		`{"a": {"model": "x"}}`:                                               "needs a protocol and a model",
		`{"a b": {"protocol": "openai", "model": "x"}}`:                       "cannot be the name of a model",
		`{"a": {"protocol": "openai", "model": "x", "base_url": "x"}}`:        "http:// or https://",
		`{"a": {"protocol": "openai", "model": "x", "api_key": "${X"}}`:       "not closed",
		`{"a": {"protocol": "openai", "model": "x", "max_tokens": 0}}`:        "whole number",
		`{"a": {"protocol": "openai", "model": "x", "timeout": 5}}`:           "duration",
		`{"a": {"protocol": "openai", "model": "x", "price": {"input": -1}}}`: "not negative",
		`{"a": {"protocol": "openai", "model": "x", "price": {"inputs": 1}}}`: "unknown key",
		`{"a": {"protocol": "openai", "model": "x", "apikey": "x"}}`:          "api_key",
		`{"default": 1}`: "a string",
		`{"a": 1}`:       "an object",
		`[]`:             "an object",
	} {
		b := newBox(t)
		b.write(".pml.json", `{"models": `+text+`}`)
		if _, err := env.Load(b.options()); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestShow_Models: a key that stands in the file is not shown.
func TestShow_Models(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"models": {"default": "a", "a": {"protocol": "openai", "model": "x", "api_key": "sk-0123456789"}, "b": {"protocol": "openai", "model": "y", "api_key": "${KEY}"}}}`)
	shown := string(b.load().Show())
	if strings.Contains(shown, "sk-0123456789") || !strings.Contains(shown, `"${KEY}"`) || !strings.Contains(shown, `"default": "a"`) || !strings.Contains(shown, `"from": "workspace"`) {
		t.Error(shown)
	}
}
