package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const (
	before = `{"session_id":"s","cwd":"/w/sub","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}`
	asking = `{"session_id":"s","cwd":"/w/sub","permission_mode":"default","hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":{"command":"ls"}}`
)

// TestHook_Answers: what a host gets, in the form that Claude Code 2.1.330 and Codex
// 0.169.0 document. Codex takes nothing but a no before a call.
func TestHook_Answers(t *testing.T) {
	t.Parallel()
	pre := func(decision string) string {
		return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"` + decision + `","permissionDecisionReason":"pml: why"}}` + "\n"
	}
	for name, tt := range map[string]struct {
		host, event string
		effect      api.HostEffect
		want        string
	}{
		"BeforeAllow":      {core.HostClaude, before, api.HostAllow, pre("allow")},
		"BeforeDeny":       {core.HostClaude, before, api.HostDeny, pre("deny")},
		"BeforeAsk":        {core.HostClaude, before, api.HostAsk, pre("ask")},
		"BeforeSilent":     {core.HostClaude, before, api.HostSilent, ""},
		"AskingAllow":      {core.HostClaude, asking, api.HostAllow, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}` + "\n"},
		"AskingDeny":       {core.HostClaude, asking, api.HostDeny, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"pml: why"}}}` + "\n"},
		"AskingAsk":        {core.HostClaude, asking, api.HostAsk, ""},
		"CodexBeforeAllow": {core.HostCodex, before, api.HostAllow, ""},
		"CodexBeforeDeny":  {core.HostCodex, before, api.HostDeny, pre("deny")},
		"CodexBeforeAsk":   {core.HostCodex, before, api.HostAsk, ""},
		"CodexAskingAllow": {core.HostCodex, asking, api.HostAllow, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}` + "\n"},
		"CodexAskingDeny":  {core.HostCodex, asking, api.HostDeny, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"pml: why"}}}` + "\n"},
		"CodexAskingAsk":   {core.HostCodex, asking, api.HostAsk, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{world: world{hostAnswer: api.HostAnswer{Effect: tt.effect, Reason: "why"}}}
			s := (&shell{stdin: tt.event, fake: f}).run("hook", tt.host, "--json").want(t, 0)
			if s.out != tt.want {
				t.Errorf("%q, want %q", s.out, tt.want)
			}
			call := f.world.hostCalls[0]
			if call.Asking != (tt.event == asking) || call.Tool != "Bash" || call.Host != tt.host || call.Folder != "/w/sub" || string(call.Args) != `{"command":"ls"}` {
				t.Errorf("%+v", call)
			}
		})
	}
}

// TestHook_Fails: whatever goes wrong, the host asks as it would without pml, and the
// command has not failed.
func TestHook_Fails(t *testing.T) {
	t.Parallel()
	ask := `"permissionDecision":"ask"`
	for name, tt := range map[string]struct {
		host, event string
		fail        error
		want        string // in the answer; empty: there is none
	}{
		"Before":      {core.HostClaude, before, core.Errorf(core.CodeStoreFailed, "no store\x1b[2J"), ask},
		"Asking":      {core.HostClaude, asking, core.Errorf(core.CodeStoreFailed, "no store"), ""},
		"CodexBefore": {core.HostCodex, before, core.Errorf(core.CodeStoreFailed, "no store"), ""},
		"CodexAsking": {core.HostCodex, asking, core.Errorf(core.CodeStoreFailed, "no store"), ""},
		"Nothing":     {core.HostClaude, "", nil, ask},
		"NoJSON":      {core.HostClaude, "PreToolUse", nil, ask},
		"NoTool":      {core.HostClaude, `{"hook_event_name":"PreToolUse","cwd":"/w"}`, nil, ask},
		"CodexNoJSON": {core.HostCodex, "{", nil, ""},
		"TooLong":     {core.HostClaude, before + strings.Repeat(" ", 17<<20), nil, ask},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{failWith: tt.fail, world: world{hostAnswer: api.HostAnswer{Effect: api.HostAllow}}}
			s := (&shell{stdin: tt.event, fake: f}).run("hook", tt.host).want(t, 0).has(t, "err", "pml hook: ")
			out := s.out
			if strings.Contains(out, "allow") || (tt.want == "") != (out == "") || !strings.Contains(out, tt.want) || strings.Contains(out, "\x1b") {
				t.Errorf("%q", out)
			}
			if out != "" && !json.Valid([]byte(out)) {
				t.Errorf("%q is no JSON", out)
			}
		})
	}
}

// TestHook_Leaves: events and dialogs that are not about a yes to a call.
func TestHook_Leaves(t *testing.T) {
	t.Parallel()
	for _, event := range []string{
		`{"hook_event_name":"PostToolUse","cwd":"/w","tool_name":"Bash","tool_input":{}}`,
		`{"hook_event_name":"PermissionRequest","cwd":"/w","tool_name":"AskUserQuestion","tool_input":{}}`,
		`{"hook_event_name":"PermissionRequest","cwd":"/w","tool_name":"ExitPlanMode","tool_input":{"plan":"x"}}`,
	} {
		f := &fake{world: world{hostAnswer: api.HostAnswer{Effect: api.HostAllow}}}
		s := (&shell{stdin: event, fake: f}).run("hook", "claude").want(t, 0)
		if diff := cmp.Diff("", s.out); diff != "" || len(f.world.hostCalls) > 0 {
			t.Errorf("%s: %s %v", event, diff, f.world.hostCalls)
		}
	}
	(&shell{fake: &fake{}, tty: true}).run("hook", "claude").want(t, 2).has(t, "err", "pml init --hooks")
	(&shell{fake: &fake{}}).run("hook", "emacs").want(t, 2).has(t, "err", "claude and codex")
	(&shell{fake: &fake{}}).run("hook").want(t, 2)
}
