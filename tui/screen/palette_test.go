package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestPalette_Rules: who wants to remove a rule chooses one of those that there are.
func TestPalette_Rules(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	wantIntents(t, press(s, ":", `"permissions rm"`, "tab"), LoadRules{})
	ShowRules(s, []api.PermissionRule{
		{List: "allow", Tool: "fs:*", Where: "under(args.path, 'docs')", From: "workspace"}, {List: "deny", Tool: "gh:merge\x1b", From: "home"},
	})
	wantShown(t, s, "removes what denies it, in all workspaces", `gh:merge\x1b`)
	wantIntents(t, press(s, `" fs"`, "down", "enter"), Command{`permissions rm 'fs:*' --list allow --where 'under(args.path, '\''docs'\'')'`})
}

// TestPalette_Unfinished: a line that needs more is not run, whether it was chosen or typed out.
func TestPalette_Unfinished(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"Typed":     {":", `"permissions rm"`, "enter"},
		"TypedLong": {":", `"pml permissions rm "`, "enter"},
		"Chosen":    {":", `"permissions rm"`, "down", "enter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, fixtureState(), 100, 30)
			wantIntents(t, press(s, keys...), LoadRules{})
			wantShown(t, s, "type a pattern, or choose one of those below")
			press(s, `"x"`)
			wantIntents(t, press(s, "enter"), Command{"permissions rm x"})
		})
	}
}

// TestPalette_Ran: up in an empty palette brings back what was run, each line once.
func TestPalette_Ran(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, ":", "up")
	wantHidden(t, s, "up what was run")
	for _, line := range []string{"tools ls", "doctor", "tools ls"} {
		wantIntents(t, press(s, "esc", ":", `"`+line+`"`, "enter"), Command{line})
	}
	press(s, ":")
	wantShown(t, s, "up what was run")
	wantIntents(t, press(s, "up", "up", "up", "enter"), Command{"doctor"})
	wantIntents(t, press(s, ":", "up", "down", "down", "down", "enter"), Command{"workflows ls"})
}

// TestPalette_Output: what a command printed makes way for a panel, and for the next command.
func TestPalette_Output(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	s.ShowOutput("servers check", "fs needs you", 0, fixtureNow)
	wantShown(t, s, "fs needs you")
	wantIntents(t, press(s, ":", `"tools ls"`, "enter"), Command{"tools ls"})
	wantHidden(t, s, "fs needs you")
	s.ShowOutput("tools ls", "fs:write_file", 0, fixtureNow)
	press(s, "2")
	wantHidden(t, s, "fs:write_file")
	wantShown(t, s, "2 Approvals")
}

// TestPalette_OutputLeft: also in the smallest window the output of a command says how to leave it.
func TestPalette_OutputLeft(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{40, 10}, {60, 15}, {160, 45}} {
		for _, text := range []string{"one", strings.Repeat("line\n", 1000)} {
			s := newScreen(t, fixtureState(), size[0], size[1])
			s.ShowOutput("servers check", text, 0, fixtureNow)
			wantShown(t, s, "esc closes", map[bool]string{true: "all shown", false: "1-"}[text == "one"])
		}
	}
}

// TestPalette_Begun: where one offer only goes on with what was typed, enter takes it.
func TestPalette_Begun(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"tools l": "tools ls", "audit v": "audit verify", "servers ch": "servers check", "tools list": "tools list", "audit ls": "audit ls", "workflows show": "workflows show 7f3a85b0", "workflows result": "workflows result"} {
		s := newScreen(t, fixtureState(), 100, 30)
		s.ShowServers(nil, true, nil)
		wantIntents(t, press(s, ":", `"`+typed+`"`, "enter"), Command{want})
	}
}

// TestPalette_Servers: what a server needs is offered by its name; the servers are read for that.
func TestPalette_Servers(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	wantIntents(t, press(s, ":", `"servers"`), LoadServers{})
	need := func(name string, what core.ApprovalType) api.ServerInfo {
		return api.ServerInfo{Name: name, State: api.ServerNeeds, Needs: []api.ServerNeed{{Type: what, Description: "it is new"}}}
	}
	s.ShowServers([]api.ServerInfo{{Name: "fs", State: api.ServerReady}, need("notes", core.ApproveDependency), need("linear", core.ApproveOAuth)}, true, nil)
	wantShown(t, s, "servers install notes", "servers connect linear", "decide what it needs: it is new")
	wantHidden(t, s, "install fs")
	wantIntents(t, press(s, `" i"`, "down", "down", "enter"), Command{"servers install notes"})
}

// TestHelp_History: who looks for the history of the palette finds its key.
func TestHelp_History(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "?", `"history"`)
	wantShown(t, s, "up brings back earlier ones (history)")
	wantHidden(t, s, "no key does that")
}

// TestHelp_Words: the help says what a key does in the panel that it is about, as the footer does.
func TestHelp_Words(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "4", "?")
	wantShown(t, s, "Here: task", "copy args")
	wantHidden(t, s, "copy the id")
}
