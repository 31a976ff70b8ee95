//go:build unix

package models_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// checkFixtures are what the stand-in answers to pml models check: a call of the tool where it is offered, the
// tool's own word once it has a result, and else one word.
const checkFixtures = `{"fixtures": [
	{"match": {"toolCallId": "call_check"}, "response": {"content": "heron-17", "usage": {"input_tokens": 120, "output_tokens": 4, "prompt_tokens": 120, "completion_tokens": 4}}},
	{"match": {"toolName": "pml_check"}, "response": {"content": "I call it.", "reasoning": "It wants a bird.", "toolCalls": [{"id": "call_check", "name": "pml_check", "arguments": {"bird": "heron"}}],
		"usage": {"input_tokens": 100, "output_tokens": 20, "prompt_tokens": 100, "completion_tokens": 20}}},
	{"match": {"userMessage": "ready"}, "response": {"content": "ready"}}
]}`

// aimock is a stand-in for providers, by others.
type aimock struct {
	t   testing.TB
	url string
}

// startAimock starts one with what it is to answer.
func startAimock(t testing.TB, fixtures string) aimock {
	t.Helper()
	packages := pmltest.NPMPackages(t, "models", "ci")
	node := skiptest.Tool(t, "node")
	file := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(file, []byte(fixtures), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, filepath.Join(packages, "node_modules", "@copilotkit", "aimock", "dist", "cli.js"), "--port", "0", "--fixtures", file, "--log-level", "info")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was told to end
	})
	listens := regexp.MustCompile(`listening on (http://\S+)`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
			return aimock{t, m[1]}
		}
	}
	t.Fatalf("aimock ended before it listened: %v", lines.Err())
	return aimock{}
}

// do makes a request of its own interface.
func (a aimock) do(method, path, body string) []byte {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+"/__aimock/"+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, raw, err)
	}
	return raw
}

// requests is what reached it, and forgets that.
func (a aimock) requests() (bodies []json.RawMessage) {
	a.t.Helper()
	var journal []struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(a.do(http.MethodGet, "journal", ""), &journal); err != nil {
		a.t.Fatal(err)
	}
	a.do(http.MethodPost, "reset/journal", "")
	for _, j := range journal {
		bodies = append(bodies, j.Body)
	}
	return bodies
}

// TestAimock: both protocols against a server that is not pml's own: a word, a tool
// with its result, and what goes wrong, each with the requests that were counted there.
func TestAimock(t *testing.T) {
	t.Parallel()
	a := startAimock(t, checkFixtures)
	m := pmltest.BareMachine(t)
	m.Setenv("KEY", "sk-test-0123456789")
	m.Write(".pml.json", fmt.Sprintf(`{"models": {
		"anthropic": {"protocol": "anthropic", "model": "claude-sonnet-5-5", "base_url": %q, "api_key": "${KEY}", "price": {"input": 1, "output": 10}},
		"openai": {"protocol": "openai", "model": "gpt-4.1", "base_url": %q, "api_key": "${KEY}", "price": {"input": 1, "output": 10}}
	}}`, a.url, a.url+"/v1"))
	if f := m.PML("models", "check", "openai", "--json").Want(8).Fault(); f.Code != core.CodeNotTrusted {
		t.Errorf("without trust: %+v", f)
	}
	if got := a.requests(); len(got) != 0 {
		t.Errorf("without trust something was sent: %s", got)
	}
	m.OK("trust", "--yes")
	for _, name := range []string{"anthropic", "openai"} {
		var c api.ModelCheck
		m.OK("models", "check", name, "--json").Decode(&c)
		if c.Answer != "ready" || c.Stop != "end_turn" || c.Calls != 1 || len(c.RequestIDs) != 1 {
			t.Errorf("%s: %+v", name, c)
		}
		if got := a.requests(); len(got) != 1 {
			t.Errorf("%s: %d requests", name, len(got))
		}
		c = api.ModelCheck{}
		m.OK("models", "check", name, "--tools", "--json").Decode(&c)
		if c.Tools == nil || !*c.Tools || c.Calls != 2 || c.Usage == nil || c.Usage.Input != 220 || c.Usage.Output != 24 || c.USD == nil || *c.USD < 0.000459 || *c.USD > 0.000461 {
			t.Errorf("%s with tools: %+v, usage %+v", name, c, c.Usage)
		}
		if got := a.requests(); len(got) != 2 || !strings.Contains(string(got[1]), "call_check") || !strings.Contains(string(got[1]), "heron-17") {
			t.Errorf("%s with tools: %s", name, got)
		}
		for _, chaos := range []struct {
			config string
			code   core.Code
			exit   int
		}{
			{`{"rateLimitRate": 1}`, core.CodeRateLimited, 1},
			{`{"dropRate": 1}`, core.CodeModelUnavailable, 5},
			{`{"disconnectRate": 1}`, core.CodeServerUnreachable, 5},
			{`{"malformedRate": 1}`, core.CodeModelStream, 1},
		} {
			a.do(http.MethodPost, "chaos", chaos.config)
			f := m.PML("models", "check", name, "--json").Want(chaos.exit).Fault()
			if f.Code != chaos.code || strings.Contains(f.Message, "sk-test") {
				t.Errorf("%s %s: %+v", name, chaos.config, f)
			}
			if got := a.requests(); len(got) != 1 {
				t.Errorf("%s %s: %d requests", name, chaos.config, len(got))
			}
		}
		a.do(http.MethodDelete, "chaos", "")
	}
}
