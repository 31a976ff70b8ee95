package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
)

// needsShell skips where there is no shell.
func needsShell(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh here")
	}
}

// program is a node that runs a line of shell.
func program(id, code string, behind bool) node {
	return node{id: id, kind: "command", data: `"timeoutMs":20000,"command":{"command":"sh","args":["-c",` + text(code) + `],"env":{"MINE":"1"}}`, behind: behind}
}

func specific(event, members string) string {
	return `{"hookSpecificOutput":{"hookEventName":"` + event + `",` + members + `}}`
}

// What a program says by its exit status and on its output is what the hook protocol
// of agent hosts means by it; all else refuses the call.
func TestRunner_Protocol(t *testing.T) {
	t.Parallel()
	needsShell(t)
	say := func(s string) string { return "cat >/dev/null; echo '" + s + "'" }
	for name, tt := range map[string]struct {
		code   string
		behind bool
		sent   string
		back   string
		ask    string
		failed core.Code
		says   string
	}{
		"Nothing":        {code: `true`},
		"Text":           {code: say("looks fine")},
		"Block":          {code: `cat >/dev/null; echo "not on main" >&2; exit 2`, failed: core.CodeDenied, says: "not on main"},
		"BlockAfter":     {code: `echo "not on main" >&2; exit 2`, behind: true, failed: core.CodeDenied, says: "not on main"},
		"BlockSilent":    {code: `exit 2`, failed: core.CodeDenied, says: "no reason"},
		"Status1":        {code: `echo oops >&2; exit 1`, failed: core.CodeHookFailed, says: "oops"},
		"StatusMute":     {code: `exit 1`, failed: core.CodeHookFailed, says: "(block): it gives no reason"},
		"Status127":      {code: `no-such-program`, failed: core.CodeHookFailed, says: "127"},
		"Killed":         {code: `kill -9 $$`, failed: core.CodeHookFailed, says: "killed"},
		"Allow":          {code: say(specific("PreToolUse", `"permissionDecision":"allow"`))},
		"Approve":        {code: say(`{"decision":"approve"}`)},
		"Deny":           {code: say(specific("PreToolUse", `"permissionDecision":"deny","permissionDecisionReason":"no rm"`)), failed: core.CodeDenied, says: "no rm"},
		"DenyOld":        {code: say(`{"decision":"block","reason":"no rm"}`), failed: core.CodeDenied, says: "no rm"},
		"Stop":           {code: say(`{"continue":false,"stopReason":"enough"}`), failed: core.CodeDenied, says: "enough"},
		"Ask":            {code: say(specific("PreToolUse", `"permissionDecision":"ask","permissionDecisionReason":"sure?"`)), ask: "sure?"},
		"Defer":          {code: say(specific("PreToolUse", `"permissionDecision":"defer"`)), ask: "-"},
		"Maybe":          {code: say(specific("PreToolUse", `"permissionDecision":"maybe"`)), failed: core.CodeHookFailed, says: "maybe"},
		"Input":          {code: say(specific("PreToolUse", `"permissionDecision":"allow","updatedInput":{"b":2}`)), sent: `{"b":2}`},
		"InputList":      {code: say(specific("PreToolUse", `"updatedInput":[1]`)), failed: core.CodeHookFailed, says: "no JSON object"},
		"InputAfter":     {code: say(specific("PostToolUse", `"updatedInput":{}`)), behind: true, failed: core.CodeHookFailed, says: "after the call"},
		"OtherEvent":     {code: say(specific("PostToolUse", `"additionalContext":"x"`)), failed: core.CodeHookFailed, says: "PostToolUse"},
		"Stopped":        {code: say(specific("Stop", `"additionalContext":"x"`)), failed: core.CodeHookFailed, says: "Stop"},
		"AskAfter":       {code: say(specific("PostToolUse", `"permissionDecision":"ask"`)), behind: true, failed: core.CodeHookFailed, says: "after the call"},
		"Output":         {code: say(specific("PostToolUse", `"updatedToolOutput":{"content":[{"type":"text","text":"x"}]}`)), behind: true, back: `{"content":[{"type":"text","text":"x"}]}`},
		"OutputText":     {code: say(specific("PostToolUse", `"updatedMCPToolOutput":"x"`)), behind: true, back: `{"content":[{"type":"text","text":"x"}]}`},
		"OutputList":     {code: say(specific("PostToolUse", `"updatedMCPToolOutput":[{"type":"text","text":"x"}]`)), behind: true, back: `{"content":[{"type":"text","text":"x"}]}`},
		"OutputNonsense": {code: say(specific("PostToolUse", `"updatedToolOutput":7`)), behind: true, failed: core.CodeHookFailed, says: "must be the result"},
		"OutputBefore":   {code: say(specific("PreToolUse", `"updatedToolOutput":"x"`)), failed: core.CodeHookFailed, says: "before the call"},
		"Context":        {code: say(specific("PostToolUse", `"additionalContext":"lint: fine"`)), behind: true, back: `{"content":[{"type":"text","text":"done"},{"type":"text","text":"lint: fine"}]}`},
		"ContextBefore":  {code: say(specific("PreToolUse", `"additionalContext":"x"`))},
		"Unknown":        {code: say(`{"verdict":"deny"}`), failed: core.CodeHookFailed, says: "verdict"},
		"BehindText":     {code: say(`DEBUG {"decision":"block"}`), failed: core.CodeHookFailed, says: "no JSON object"},
		"Twice":          {code: say(`{"decision":"approve","decision":"block"}`), failed: core.CodeHookFailed},
		"Half":           {code: say(`{"decision":"block"`), failed: core.CodeHookFailed},
		"Given":          {code: `grep -q '"hook_event_name":"PreToolUse","tool_name":"mcp__files__write","tool_use_id":"c1","tool_input":{"a":1}' && [ "$MINE$CLAUDE_PROJECT_DIR" = "1$PWD" ] || exit 1`},
		"GivenAfter":     {code: `grep -q '"hook_event_name":"PostToolUse".*"tool_response":{"content":\[{"type":"text","text":"done"}\]}' || exit 1`, behind: true},
		"Environment":    {code: `cat >/dev/null; [ "$(env | cut -d= -f1 | grep -v '^_$' | sort | tr '\n' ' ')" = "CLAUDE_PROJECT_DIR MINE PATH PWD " ] || { env >&2; exit 1; }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, withPath)
			set := setOf(t, line("f", "", program("x", tt.code, tt.behind)))
			req := request(`{"a":1}`)
			req.Workspace = t.TempDir()
			p, err := r.Before(context.Background(), set, req)
			var back flow.Answer
			if err == nil {
				if back = r.After(context.Background(), set, req, p, flow.Answer{Result: json.RawMessage(ok)}); back.Err != nil {
					err = back.Err
				}
			}
			if core.CodeOf(err) != tt.failed || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("the error is %v, want %q with %q", err, tt.failed, tt.says)
			}
			if err != nil {
				return
			}
			equalJSON(t, "sent", string(p.Args), tt.sent, string(p.Args))
			equalJSON(t, "answer", string(back.Result), tt.back, ok)
			if asks := len(p.Asks) == 1; asks != (tt.ask != "") || asks && tt.ask != "-" && p.Asks[0].Message != tt.ask {
				t.Errorf("it asks %v", p.Asks)
			}
		})
	}
}

func withPath(o *hook.Options) {
	o.Environ = func(name string) (string, bool) {
		if name == "PATH" {
			return os.Getenv("PATH"), true
		}
		return "", false
	}
}

// Each of several programs sees what the one before has changed.
func TestRunner_ProgramsInARow(t *testing.T) {
	t.Parallel()
	needsShell(t)
	add := `n=$(grep -o '"n":[0-9]*' | cut -d: -f2); echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"n":'$((n+1))'}}}'`
	r := newRig(t, withPath)
	req := request(`{"n":1}`)
	req.Workspace = t.TempDir()
	p, err := r.Before(context.Background(), setOf(t, line("f", "", program("a", add, false), program("b", add, false)), line("g", "", program("c", add, false))), req)
	if err != nil || string(p.Args) != `{"n":4}` {
		t.Errorf("%v %v", p, err)
	}
}

// A program that may not be started, and keys that nobody fills in, refuse the call.
func TestRunner_ProgramRefused(t *testing.T) {
	t.Parallel()
	needsShell(t)
	mark := filepath.Join(t.TempDir(), "ran")
	r := newRig(t, withPath, func(o *hook.Options) {
		o.MayStart = func(f *flow.Flow, n *flow.Node, workspace string) error {
			return core.Errorf(core.CodeNotTrusted, "%s of %s in %s is not trusted", n.Data.Command.Command, f.ID, workspace)
		}
	})
	_, err := r.Before(context.Background(), setOf(t, line("f", "", program("a", "touch "+mark, false))), request(`{}`))
	if err == nil || !strings.Contains(err.Error(), "sh of f in /work is not trusted") {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
	key := node{id: "a", kind: "command", data: `"command":{"command":"true","env":{"TOKEN":"${TOKEN}"}}`}
	if _, err := newRig(t).Before(context.Background(), setOf(t, line("f", "", key)), request(`{}`)); err == nil || !strings.Contains(err.Error(), "keys are not available") {
		t.Error(err)
	}
}

// url is a node that posts to a URL.
func url(id, at string, behind bool) node {
	return node{id: id, kind: "http", data: `"timeoutMs":20000,"http":{"url":` + text(at) + `,"headers":{"Authorization":"Bearer ${KEY}"}}`, behind: behind}
}

func withKey(o *hook.Options) {
	o.Secrets = nil // the key is no key of the workspace
	o.Expand = func(_ *flow.Flow, _, text string) (string, map[string]string, error) {
		return strings.ReplaceAll(text, "${KEY}", secret), map[string]string{"KEY": secret}, nil
	}
}

func TestRunner_HTTP(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		failed core.Code
		says   string
		sent   string
	}{
		"Empty": {serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		"Given": {serve: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+secret || !strings.Contains(string(body), `"tool_name":"mcp__files__write"`) {
				w.WriteHeader(http.StatusBadRequest)
			}
		}},
		"Change": {serve: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, specific("PreToolUse", `"updatedInput":{"b":2}`))
		}, sent: `{"b":2}`},
		"Deny": {serve: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, specific("PreToolUse", `"permissionDecision":"deny","permissionDecisionReason":"policy 7"`))
		}, failed: core.CodeDenied, says: "policy 7"},
		"Status": {serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, failed: core.CodeHookFailed, says: "status 500"},
		"Redirect": {serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, failed: core.CodeHookFailed, says: "status 307"},
		"Page":  {serve: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<style>a {}</style>") }, failed: core.CodeHookFailed, says: "no JSON object"},
		"Flood": {serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 9<<20)) }, failed: core.CodeHookFailed, says: "more than 8 MiB"},
		"Gone": {serve: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}, failed: core.CodeHookFailed, says: "gave no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.serve)
			defer server.Close()
			r := newRig(t, withKey)
			p, err := r.Before(context.Background(), setOf(t, line("f", "", url("x", server.URL+"/"+secret, false))), request(`{"a":1}`))
			if core.CodeOf(err) != tt.failed || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("the error is %v, want %q with %q", err, tt.failed, tt.says)
			}
			if strings.Contains(text(r.runs()), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the key is in the record or in %v", err)
			}
			if err == nil && string(p.Args) != tt.sent {
				t.Errorf("sent %s", p.Args)
			}
		})
	}
}

// Without TLS only this machine is asked, and whoever never answers is given up.
func TestRunner_HTTPBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, withKey)
	if _, err := r.Before(context.Background(), setOf(t, line("f", "", url("x", "http://192.0.2.1/", false))), request(`{}`)); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Error(err)
	}
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hold)
	slow := node{id: "x", kind: "http", data: `"timeoutMs":50,"http":{"url":` + text(server.URL) + `}`}
	began := time.Now()
	if _, err := r.Before(context.Background(), setOf(t, line("f", "", slow)), request(`{}`)); err == nil || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Minute {
		t.Errorf("it took %v", took)
	}
}
