//go:build unix

package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// The reference server of MCP, seen by the TypeScript SDK directly and through
// pml: the same tools, results, progress, questions, notifications, resources,
// prompts, completions and errors. The first list that pml sees is recorded, so
// the client that has declared most comes first.
func TestDifferential_Gateway(t *testing.T) {
	t.Parallel()
	g := newGatewayRun(t)
	for _, capable := range []bool{true, false} {
		t.Run(fmt.Sprintf("capabilities %v", capable), func(t *testing.T) {
			direct := g.drive(t, "node", []string{g.everything, "stdio"}, capable)
			through := g.through(t, capable)
			compareGateways(t, direct, through)
			if len(direct.Tools) < 12 || capable && len(direct.Seen.Asked) < 7 || len(direct.Resources) == 0 || len(direct.Prompts) == 0 {
				t.Errorf("too little was compared: %d tools, %d questions, %d resources, %d prompts",
					len(direct.Tools), len(direct.Seen.Asked), len(direct.Resources), len(direct.Prompts))
			}
		})
	}
}

// The same with flows that change nothing: one without hooks, and one with hooks that give
// back what they got.
func TestDifferential_GatewayFlows(t *testing.T) {
	t.Parallel()
	g := newGatewayRun(t)
	direct := g.drive(t, "node", []string{g.everything, "stdio"}, true)
	for name, script := range map[string]string{
		"empty": "", "identity": `if (context.response) return {response: context.response}; if (!context.error) return {params: context.request.params}`,
	} {
		t.Run(name, func(t *testing.T) {
			raw := pmltest.Flow("same", nil, script, script)
			err := os.MkdirAll(filepath.Join(g.workspace, ".pml", "flows"), 0o700)
			if err == nil {
				err = os.WriteFile(filepath.Join(g.workspace, ".pml", "flows", "same.json"), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			g.trust(t)
			compareGateways(t, direct, g.through(t, true))
		})
	}
}

// gatewayRun is what the test runs.
type gatewayRun struct {
	node, dir, everything, pml, workspace, home string
}

func newGatewayRun(t *testing.T) *gatewayRun {
	t.Helper()
	skiptest.Long(t, "installs from the npm registry")
	node, npm := skiptest.Tool(t, "node"), skiptest.Tool(t, "npm")
	g := &gatewayRun{node: node, dir: t.TempDir(), workspace: t.TempDir(), home: t.TempDir(), pml: pmltest.Build(t, "./cmd/pml")}
	for _, name := range []string{"package.json", "package-lock.json", "driver.mjs"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "gateway", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(g.dir, name), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	install.Dir = g.dir
	if out, err := install.CombinedOutput(); err != nil {
		skiptest.Missing(t, "needs the npm registry: "+err.Error()+"\n"+string(out))
	}
	g.everything = filepath.Join(g.dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	config, err := json.Marshal(map[string]any{
		"mcpServers":  map[string]any{"everything": map[string]any{"command": node, "args": []string{g.everything, "stdio"}}},
		"permissions": map[string]any{"allow": []string{"everything"}},
		"expose":      []string{"everything"},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(g.workspace, ".pml.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.trust(t)
	return g
}

func (g *gatewayRun) trust(t *testing.T) {
	t.Helper()
	trust := exec.CommandContext(t.Context(), g.pml, "trust", "--yes")
	trust.Dir, trust.Env = g.workspace, g.env()
	if out, err := trust.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (g *gatewayRun) env() []string {
	return append(os.Environ(), "PML_HOME="+g.home, "PML_SERVER=", "PML_NO_AUTOSTART=1")
}

// sight is what a client sees of a server.
type sight struct {
	Seen struct {
		Told, Asked []json.RawMessage
	}
	Tools, Resources, Templates, Prompts []json.RawMessage
	Progress                             []struct{ Progress, Total float64 }
	Calls, Read, Prompt, Completions     map[string]json.RawMessage
	Level, Subscribed, Unsubscribed      json.RawMessage
	Updated, Ping                        json.RawMessage
}

// drive lets the client drive a server and returns what it has seen.
func (g *gatewayRun) drive(t *testing.T, command string, args []string, capable bool) sight {
	t.Helper()
	run, err := json.Marshal(map[string]any{
		"command": command, "args": args, "cwd": g.workspace, "capabilities": capable,
		"env": map[string]string{"PML_HOME": g.home, "PML_NO_AUTOSTART": "1", "HOME": os.Getenv("HOME"), "PATH": os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.node, "driver.mjs", string(run))
	cmd.Dir = g.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var s sight
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatalf("%s %v: %v\n%s\n%s", command, args, err, stderr.String(), out)
	}
	return s
}

// through lets the client drive pml. A list waits 5 s for a server that pml has never reached, and on a busy machine that
// starts slower; then the client comes again.
func (g *gatewayRun) through(t *testing.T, capable bool) (s sight) {
	t.Helper()
	pmltest.WaitFor(t, "pml to offer the tools of the server", func() bool {
		s = g.drive(t, g.pml, []string{"stdio"}, capable)
		return len(s.Tools) > len(api.OwnTools)
	})
	return s
}

// ownPrompts are those of pml itself.
var ownPrompts = []string{"review-approvals", "explain-workflow"}

// compareGateways reports what a client sees otherwise through pml.
func compareGateways(t *testing.T, direct, through sight) {
	t.Helper()
	through.Tools = without(through.Tools, "name", api.OwnTools)
	through.Prompts = without(through.Prompts, "name", ownPrompts)
	own := func(raw json.RawMessage) bool { return bytes.Contains(raw, []byte(`"pml://`)) }
	through.Resources = slices.DeleteFunc(through.Resources, own)
	through.Templates = slices.DeleteFunc(through.Templates, own)
	through = unlabelled(t, through)
	for _, l := range []struct {
		what string
		a, b []json.RawMessage
	}{
		{"tools", direct.Tools, through.Tools}, {"resources", direct.Resources, through.Resources},
		{"templates", direct.Templates, through.Templates}, {"prompts", direct.Prompts, through.Prompts},
		{"questions", direct.Seen.Asked, through.Seen.Asked}, {"notifications", told(direct), told(through)},
		{"others", []json.RawMessage{direct.Level, direct.Subscribed, direct.Unsubscribed, direct.Updated, direct.Ping},
			[]json.RawMessage{through.Level, through.Subscribed, through.Unsubscribed, through.Updated, through.Ping}},
	} {
		same(t, l.what, list(l.a), list(l.b))
	}
	for _, m := range []struct {
		what string
		a, b map[string]json.RawMessage
	}{
		{"call", direct.Calls, through.Calls}, {"resource", direct.Read, through.Read},
		{"prompt", direct.Prompt, through.Prompt}, {"completion", direct.Completions, through.Completions},
	} {
		if len(m.a) != len(m.b) {
			t.Errorf("%d of %s directly, %d through pml", len(m.a), m.what, len(m.b))
		}
		for key, a := range m.a {
			b := m.b[key]
			if m.what == "call" && stoppedByGates(a) {
				if !failedCall(b) {
					t.Errorf("call %s fails directly:\n%s\nthrough pml:\n%s", key, a, b)
				}
				continue
			}
			same(t, m.what+" "+key, constant(a), constant(b))
		}
	}
	// The SDK drops what comes with the result; what is seen is in order.
	n := min(len(direct.Progress), len(through.Progress))
	if n == 0 || !slices.Equal(direct.Progress[:n], through.Progress[:n]) {
		t.Errorf("progress directly: %v, through pml: %v", direct.Progress, through.Progress)
	}
}

// unlabelled takes out of the questions of the server what says whose they are.
func unlabelled(t *testing.T, s sight) sight {
	t.Helper()
	label := []byte("[server everything] ")
	for i, raw := range s.Seen.Asked {
		if bytes.Contains(raw, []byte(`"elicitation/create"`)) != bytes.Contains(raw, label) {
			t.Errorf("through pml a question does not say whose it is, or what is none does: %s", raw)
		}
		s.Seen.Asked[i] = bytes.Replace(raw, label, nil, 1)
	}
	for name, raw := range s.Calls { // an error may be a question
		s.Calls[name] = bytes.Replace(raw, label, nil, 1)
	}
	return s
}

func same(t *testing.T, what, direct, through string) {
	t.Helper()
	if direct != through {
		t.Errorf("%s differ; directly:\n%s\nthrough pml:\n%s", what, direct, through)
	}
}

func list(values []json.RawMessage) string {
	lines := make([]string, len(values))
	for i, v := range values {
		lines[i] = constant(v)
	}
	return strings.Join(lines, "\n")
}

// told are the notifications that a server sends, less that its tools have
// changed: pml says so when they differ from those that the client was given.
// Their order and number are of time: the server asks for roots after 350 ms, and
// once more where a tool was faster.
func told(s sight) []json.RawMessage {
	all := slices.DeleteFunc(slices.Clone(s.Seen.Told), func(raw json.RawMessage) bool {
		return bytes.Contains(raw, []byte("notifications/tools/list_changed"))
	})
	slices.SortFunc(all, func(a, b json.RawMessage) int { return strings.Compare(constant(a), constant(b)) })
	return slices.CompactFunc(all, func(a, b json.RawMessage) bool { return constant(a) == constant(b) })
}

// stoppedByGates reports whether a call is one that pml's gates stop before the
// server can: with arguments that its schema does not allow, or of no tool.
func stoppedByGates(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte("Input validation error")) || bytes.Contains(raw, []byte("not found"))
}

func failedCall(raw json.RawMessage) bool {
	var r struct {
		Error  json.RawMessage
		Result struct{ IsError bool }
	}
	return json.Unmarshal(raw, &r) == nil && (len(r.Error) > 0 || r.Result.IsError)
}

var changing = []*regexp.Regexp{
	regexp.MustCompile(`[0-9]{1,2}:[0-9]{2}:[0-9]{2} [AP]M`),
	regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`),
	regexp.MustCompile(`"blob":"UmVzb3VyY2[^"]*"`), // a time in base64
	regexp.MustCompile(`"level":"[a-z]+"`), regexp.MustCompile(`(?i)"data":"[a-z]+[- ]level[- ]message"`),
}

// constant is a value in one form, less what is another one each time.
func constant(raw json.RawMessage) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	for _, re := range changing {
		out = re.ReplaceAll(out, []byte("*"))
	}
	return string(out)
}

// without leaves the items out whose field is one of some values.
func without(items []json.RawMessage, field string, values []string) []json.RawMessage {
	return slices.DeleteFunc(items, func(raw json.RawMessage) bool {
		var it map[string]json.RawMessage
		var value string
		return json.Unmarshal(raw, &it) == nil && json.Unmarshal(it[field], &value) == nil && slices.Contains(values, value)
	})
}
