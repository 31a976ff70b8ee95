package cli_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestModels_Ls(t *testing.T) {
	t.Parallel()
	in, out := 2.0, 0.5
	f := &fake{world: world{models: []api.Model{
		{Name: "claude", Default: true, State: api.ModelReady, Protocol: "anthropic", Model: "claude-x", BaseURL: "https://api.anthropic.com", Price: &api.ModelPrice{Input: &in, Output: &out, AsOf: "2026-10-24"}, From: "home"},
		{Name: "gpt", State: api.ModelNoKey, Model: "gpt-x", Missing: []string{"OPENAI_API_KEY"}, From: "home"},
		{Name: "odd", State: api.ModelInvalid, Error: "${X} is not set\x1b[2J", From: "home"},
		{Name: "theirs", State: api.ModelNotTrusted, Model: "x", BaseURL: "http://evil/v1", From: "workspace"},
	}}}
	(&shell{fake: f}).run("models", "ls").want(t, 0).
		has(t, "out", "claude *  ready        claude-x  2/0.5", "gpt       no_key       gpt-x     -", "not_trusted", "http://evil/v1").
		has(t, "err", "gpt: set OPENAI_API_KEY", `odd: ${X} is not set\x1b[2J`, "next: pml trust")
	(&shell{fake: f}).run("models", "ls", "-o", "wide").want(t, 0).has(t, "out", "2026-10-24", "anthropic")
	(&shell{fake: f}).run("models", "ls", "--json").want(t, 0).has(t, "out", `"base_url": "http://evil/v1"`, `"default": true`)
	(&shell{fake: &fake{}}).run("models", "ls").want(t, 0).has(t, "err", "ANTHROPIC_API_KEY or OPENAI_API_KEY")
}

func TestModels_Check(t *testing.T) {
	t.Parallel()
	usd, no := 0.000123, false
	f := &fake{world: world{modelCheck: api.ModelCheck{
		Name: "claude", Model: "claude-x-1", Answer: "ready\x1b[2J", Stop: "end_turn", StopText: "end_turn", Calls: 1,
		Usage: &api.ModelUsage{Input: 10, Output: 2, CacheRead: 5}, USD: &usd, FirstMS: 400, TotalMS: 1200, RequestIDs: []string{"req_1"},
	}}}
	(&shell{fake: f}).run("models", "check").want(t, 0).
		has(t, "out", "claude answers", "claude-x-1", `ready\x1b[2J`, "15 sent, 2 answered", "$0.000123", "1.2 s, first text after 0.4 s", "req_1")
	f.world.modelCheck.Usage, f.world.modelCheck.USD = nil, nil
	f.world.modelCheck.Tools, f.world.modelCheck.Problem = &no, "it called no tool"
	(&shell{fake: f}).run("models", "check", "gpt", "--tools").want(t, 1).has(t, "out", "do not work: it called no tool", "the provider has not said", "not known")
	(&shell{fake: f}).run("models", "check", "gpt", "--json").want(t, 1).has(t, "out", `"tools": false`)
	if diff := cmp.Diff([]string{" false", "gpt true", "gpt false"}, f.world.modelChecks); diff != "" {
		t.Error(diff)
	}
	(&shell{fake: f}).run("models", "check", "a", "b").want(t, 2)
	for code, exit := range map[core.Code]int{core.CodeModelNoKey: 4, core.CodeModelKeyRefused: 4, core.CodeModelUnavailable: 5, core.CodeRateLimited: 1, core.CodeNotTrusted: 8} {
		(&shell{fake: &fake{failWith: core.Errorf(code, "why")}}).run("models", "check").want(t, exit).has(t, "err", "why")
	}
}
