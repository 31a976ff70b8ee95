package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const docsRule = `under(args.path, 'docs')`

func TestPermissions_Ls(t *testing.T) {
	t.Parallel()
	f := &fake{world: world{permissions: []api.PermissionRule{{List: "deny", Tool: "shell", From: "home"}, {List: "allow", Tool: "fs:write", Where: docsRule, From: "workspace"}}}}
	(&shell{fake: f}).run("permissions", "ls").want(t, 0).has(t, "out", "deny   shell", "allow  fs:write  "+docsRule+"  workspace")
	(&shell{fake: f}).run("rules", "ls", "--json").want(t, 0).has(t, "out", `"where": "`+docsRule+`"`)
	(&shell{fake: &fake{}}).run("permissions", "ls").want(t, 0).has(t, "err", "no rules")
}

func TestPermissions_Test(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := &fake{world: world{trial: api.RuleTrial{Runs: 3, Calls: 9, Failed: 2, Unknown: 4, Changed: []api.TriedCall{
		{RunID: string(runA), Tool: "fs:write", Arguments: json.RawMessage(`{"path":"docs/a"}`), At: at, Now: "ask", Then: "allow", Decided: "approved"},
		{RunID: string(runA), Tool: "fs:write", Arguments: json.RawMessage(`{"path":"b"}`), At: at, Now: "allow", Then: "deny", Reason: "there is no args.x"},
	}}}}
	rule := `{"tool": "fs:write", "where": "under(args.path, 'docs')"}`
	(&shell{fake: f}).run("permissions", "test", "--list", "allow", "--rule", rule, "--since", "7d").want(t, 0).
		has(t, "out", "9 calls that the pattern matches, in 3 runs", "runs that a server keeps, such as detached ones, are not among them\n", "would be denied: 1\n", "path=b  (there is no args.x)", "would be asked: 0\n",
			"let through without a question: 1\n", "path=docs/a  (was asked: approved)", "could not be evaluated for 2 of them", "for 4 of them nothing is known of the tool")
	(&shell{fake: f}).run("permissions", "test", "--list", "deny", "--rule", "fs:*", "--json").want(t, 0).has(t, "out", `"list": "deny"`, `"tool": "fs:*"`, `"then": "deny"`)
	for _, args := range [][]string{
		{"--rule", "fs"}, {"--list", "allow"}, {"--list", "never", "--rule", "fs"}, {"--list", "allow", "--rule", "{"}, {"--list", "allow", "--rule", `{"tool":"fs"}`},
		{"--list", "allow", "--rule", `{"tool":"fs","when":"true"}`}, {"--list", "allow", "--rule", rule + "{}"}, {"--list", "allow", "--rule", "fs", "--since", "soon"},
	} {
		(&shell{fake: f}).run(append([]string{"permissions", "test"}, args...)...).want(t, 2)
	}
}

// How far back a command looks is --since, as elsewhere; --last is its older name, which
// help does not show.
func TestPermissions_Since(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"permissions", "test", "--list", "deny", "--rule", "fs:*"}, {"permissions", "suggest"}} {
		for _, name := range []string{"--since", "--last"} {
			(&shell{}).run(append(args, name, "7d")...).want(t, 0)
			(&shell{}).run(append(args, name, "soon")...).want(t, 2).has(t, "err", "--since: ")
		}
	}
	for _, words := range []string{"permissions test", "permissions suggest", "flows test"} {
		(&shell{}).run(strings.Fields(words+" --help")...).want(t, 0).has(t, "out", "--since string").lacks(t, "--last")
	}
}

// A rule that allows is written by a person at a terminal who has seen the change.
func TestPermissions_Suggest(t *testing.T) {
	t.Parallel()
	world := func() world {
		return world{suggested: []api.RuleSuggestion{
			{Number: 1, Saves: 12, Rule: api.PermissionRule{List: "allow", Tool: "fs:write", Where: docsRule}},
			{Number: 2, Saves: 7, Rule: api.PermissionRule{List: "allow", Tool: "fs:mkdir", Where: docsRule}},
		}}
	}
	run := func(tty bool, stdin string, args ...string) (*shell, *fake) {
		f := &fake{world: world()}
		return (&shell{tty: tty, stdin: stdin, fake: f}).run(append([]string{"permissions", "suggest"}, args...)...), f
	}
	s, _ := run(false, "")
	s.want(t, 0).has(t, "out", "1  12     fs:write", "2  7      fs:mkdir").has(t, "err", "--apply 1")
	for _, tt := range []struct {
		tty   bool
		stdin string
		args  []string
		code  int
		file  string // that was written
		says  string
	}{
		{true, "y\n", []string{"--apply", "1,2"}, 0, "/w/.pml.json", "+fs:mkdir where " + docsRule},
		{true, "y\n", []string{"--apply", "2", "--for-all"}, 0, "/home/config.json", "in /home/config.json"},
		{true, "n\n", []string{"--apply", "1"}, 9, "", "nothing was written"},
		{false, "y\n", []string{"--apply", "1"}, 8, "", "a person has to agree"},
		{true, "y\n", []string{"--apply", "3"}, 2, "", "there is no suggestion"},
		{true, "y\n", []string{"--apply", "0"}, 2, "", "there is no suggestion"},
		{true, "y\n", []string{"--apply", "1", "--yes"}, 2, "", "unknown flag"},
		{true, "", []string{"--for-all"}, 2, "", "--apply"},
	} {
		s, f := run(tt.tty, tt.stdin, tt.args...)
		s.want(t, tt.code).has(t, "err", tt.says)
		if wrote := len(f.world.written) > 0; wrote != (tt.file != "") {
			t.Errorf("%q: written %+v", tt.args, f.world.written)
		}
		if tt.file != "" {
			s.has(t, "out", "wrote "+tt.file)
		}
	}
}

// A rule that lets more through is agreed to by a person at a terminal, in the home with the
// PIN where one is set; one that asks or denies may be written with --yes.
func TestPermissions_Write(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tty   bool
		stdin string
		args  string
		code  int
		keep  bool // it was written, and stays trusted or counts at once
		file  string
		says  string
	}{
		{true, "y\n", "allow fs:write --where true", 0, true, "/w/.pml.json", "+fs:write where true"},
		{true, "n\n", "allow fs:write", 9, false, "", "allow fs:write?"},
		{false, "", "allow fs:write", 8, false, "", "next: pml permissions allow fs:write\n"},
		{false, "", "allow fs:write --yes", 2, false, "", "unknown flag"},
		{true, "y\n", "allow fs:write --for-all", 0, true, "/home/config.json", "in /home/config.json"},
		{true, "y\n", "rm fs:write --list allow", 0, true, "/w/.pml.json", "-allow fs:write"},
		{true, "y\n", "rm fs:write --for-all", 0, true, "/home/config.json", "remove what is shown?"},
		{false, "", "rm fs:write", 8, false, "", "a person has to agree"},
		{true, "", "rm fs:write --list never", 2, false, "", "never"},
		{false, "", "deny fs:write", 8, false, "", "next: pml permissions deny fs:write --yes\n"},
		{false, "", "deny fs:write --yes", 0, false, "/w/.pml.json", "next: pml trust"},
		{true, "y\n", "ask fs:write", 0, true, "/w/.pml.json", "ask fs:write?"},
		{true, "y\n", "ask fs:write --for-all", 0, false, "/home/config.json", "ask fs:write?"},
		{false, "", "allow", 2, false, "", "PATTERN"},
	} {
		f := changing()
		s := (&shell{tty: tt.tty, stdin: tt.stdin, fake: f}).run(append([]string{"permissions"}, strings.Fields(tt.args)...)...)
		s.want(t, tt.code).has(t, "err", tt.says)
		if wrote := f.world.written; (len(wrote) > 0) != (tt.file != "") || len(wrote) > 0 && wrote[0].Keep != tt.keep {
			t.Errorf("%s: written %+v", tt.args, wrote)
		}
		if tt.file != "" {
			s.has(t, "out", "wrote "+tt.file)
		}
	}
	f := changing()
	f.world.pin = "1234"
	if s := (&shell{tty: true, stdin: "y\n", fake: f}).run("permissions", "allow", "fs:write", "--for-all"); len(f.world.written) != 0 && f.world.written[0].Pin == "" {
		t.Errorf("the home's rules were loosened without the PIN:\n%s", s.err)
	}
}

// TestPermissions_AskedBefore: a rule answers what is asked from now on, and says how many
// questions about its tools wait from before; those of another workspace only where it is for all.
func TestPermissions_AskedBefore(t *testing.T) {
	t.Parallel()
	ask := func(tool, workspace string, typ core.ApprovalType) core.Approval {
		return core.Approval{ID: core.ID(tool + workspace), Type: typ, Tool: tool, Workspace: workspace, State: core.ApprovalOpen}
	}
	for args, want := range map[string]string{
		"allow fs:write":           "1 question about such a tool was asked before the rule",
		"allow fs:*":               "2 questions about such tools were asked before the rule, and still wait: pml approve",
		"allow fs:write --for-all": "2 questions",
		"allow web:get":            "",
		"ask fs:*":                 "",
	} {
		f := changing()
		f.world.paths = &api.Paths{Workspace: "/w"}
		f.pending = []core.Approval{ask("fs:write", "/w", core.ApproveTool), ask("fs:read", "/w", core.ApproveTool), ask("fs:write", "/other", core.ApproveTool), ask("fs", "/w", core.ApproveDependency)}
		s := (&shell{tty: true, stdin: "y\n", fake: f}).run(append([]string{"permissions"}, strings.Fields(args)...)...)
		s.want(t, 0)
		if strings.Contains(s.err, "asked before") != (want != "") || !strings.Contains(s.err, want) {
			t.Errorf("%s: %s", args, s.err)
		}
	}
}
