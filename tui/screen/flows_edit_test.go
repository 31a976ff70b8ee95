package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/state"
)

// clickOn clicks on a text of the frame: the first one of the panel.
func clickOn(t *testing.T, s *Screen, text string) []Intent {
	t.Helper()
	lines := strings.Split(s.Plain(fixtureNow), "\n")
	for y, line := range lines {
		if i := strings.Index(line, text); y > 2 && i >= 0 {
			return s.Mouse(len([]rune(line[:i]))+1, y, Click, fixtureNow)
		}
	}
	t.Fatalf("%q is not there\n%s", text, s.Plain(fixtureNow))
	return nil
}

// edges are those of the flow that is open.
func edges(s *Screen) string {
	var out []string
	for _, e := range s.panels[PanelFlows].(*flowsPanel).view.flow().Edges {
		out = append(out, e.Source+">"+e.Target)
	}
	return strings.Join(out, " ")
}

// TestFlows_EditByMouse changes a flow by clicks: add, name, connect, cut, move, delete, take back, do again, save.
func TestFlows_EditByMouse(t *testing.T) {
	t.Parallel()
	for _, size := range goldenSizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s := flowsScreen(t, size[0], size[1])
			wants := func(step, want string) {
				t.Helper()
				if got := edges(s); got != want {
					t.Errorf("%s: edges\n%s\nwant\n%s\n%s", step, got, want, s.Plain(fixtureNow))
				}
			}
			read := fixtureFlows()
			read.Home.Flows = nil
			read.Workspace = flow.Parse(map[string][]byte{"plain.json": []byte(plainFlow)}, false)
			s.ShowFlows(read, nil)
			clickOn(t, s, "plain")
			press(s, "enter")
			wants("open", "start>mcp mcp>end")
			clickOn(t, s, "Call")
			clickOn(t, s, "a add")
			clickOn(t, s, "a script that may change")
			wants("add", "start>mcp mcp>hook hook>end")
			clickOn(t, s, "r name")
			press(s, `"Hook one"`, "enter")
			wantShown(t, s, "Hook one")
			clickOn(t, s, "Begin")
			clickOn(t, s, "c link")
			clickOn(t, s, "Hook one")
			wants("connect", "start>mcp mcp>hook hook>end start>hook")
			clickOn(t, s, "Begin")
			clickOn(t, s, "D cut")
			clickOn(t, s, "Hook one")
			wants("disconnect", "start>mcp mcp>hook hook>end")
			clickOn(t, s, "Hook one")
			clickOn(t, s, "m move")
			clickOn(t, s, "Begin")
			wants("move", "mcp>end start>hook hook>mcp")
			clickOn(t, s, "Hook one")
			clickOn(t, s, "d del")
			wants("delete", "mcp>end start>mcp")
			clickOn(t, s, "u undo")
			wants("undo", "mcp>end start>hook hook>mcp")
			clickOn(t, s, "U redo")
			wants("redo", "mcp>end start>mcp")
			clickOn(t, s, "u undo")
			save, ok := clickOn(t, s, "o save")[0].(SaveFlow)
			if !ok || !strings.Contains(string(save.Text), "Hook one") {
				t.Fatalf("%+v", save)
			}
			clickOn(t, s, "Hook one")
			if part, ok := clickOn(t, s, "e edit")[0].(EditFlowPart); !ok || part.Node != "hook" || part.Part.Suffix != ".js" {
				t.Errorf("%+v", part)
			}
			checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		})
	}
}

const plainFlow = `{"id": "plain", "name": "plain", "workflowType": "tools/call", "enabled": false,
"nodes": [{"id": "start", "type": "start", "position": {"x": 0, "y": 0}, "data": {"label": "Begin"}},
{"id": "mcp", "type": "mcp-call", "position": {"x": 0, "y": 0}, "data": {"label": "Call"}},
{"id": "end", "type": "end", "position": {"x": 0, "y": 0}, "data": {"label": "Finish"}}],
"edges": [{"source": "start", "target": "mcp"}, {"source": "mcp", "target": "end"}]}`

// largeFlow has a hundred conditions in a row, behind each a hook that the call waits for,
// and beside every tenth one that it does not.
func largeFlow() string {
	var nodes, edges []string
	node := func(id, kind, data string) {
		nodes = append(nodes, fmt.Sprintf(`{"id": %q, "type": %q, "position": {"x": 0, "y": 0}, "data": {"label": %q%s}}`, id, kind, strings.ToUpper(id), data))
	}
	edge := func(from, to, label string) {
		edges = append(edges, fmt.Sprintf(`{"source": %q, "target": %q, "label": %q}`, from, to, label))
	}
	node("start", "start", "")
	node("call", "mcp-call", "")
	node("end", "end", "")
	edge("start", "call", "")
	last, label := "call", ""
	for i := range 100 {
		cond, hook := fmt.Sprintf("c%d", i), fmt.Sprintf("h%d", i)
		node(cond, "condition", `, "condition": {"where": "true"}`)
		node(hook, "hook", `, "hook": {"id": "x", "script": "return", "blocking": true}`)
		edge(last, cond, label)
		edge(cond, hook, "true")
		edge(cond, "end", "false")
		if i%10 == 0 {
			beside := fmt.Sprintf("b%d", i)
			node(beside, "hook", `, "hook": {"id": "x", "script": "return", "blocking": false}`)
			edge(hook, beside, "")
		}
		last = hook
	}
	edge(last, "end", "")
	return `{"id": "large", "name": "large", "workflowType": "tools/call", "enabled": false, "nodes": [` + strings.Join(nodes, ",\n") + `], "edges": [` + strings.Join(edges, ",\n") + `]}`
}

func largeFlows(t testing.TB) state.Flows {
	folder := flow.Parse(map[string][]byte{"large.json": []byte(largeFlow())}, false)
	if f := folder.Flows[0]; len(f.Faults) > 0 || len(f.Nodes) < 200 {
		t.Fatal(len(f.Nodes), f.Faults)
	}
	return state.Flows{Workspace: folder, Dir: "/w", Trusted: true}
}

// TestFlows_Large draws a flow of 213 nodes, goes to its end, and changes it there.
func TestFlows_Large(t *testing.T) {
	t.Parallel()
	for _, size := range goldenSizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s := flowsScreen(t, size[0], size[1])
			s.ShowFlows(largeFlows(t), nil)
			press(s, "enter")
			wantShown(t, s, "START", "CALL", "C0")
			view := s.panels[PanelFlows].(*flowsPanel).view
			for range 205 {
				press(s, "l")
			}
			checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
			wantShown(t, s, "END")
			if view.node != "end" {
				t.Fatalf("at %s", view.node)
			}
			press(s, "h")
			last := view.node
			press(s, "a", "j", "j", "enter", "r", "ctrl+u", `"New one"`, "enter")
			wantShown(t, s, "New one")
			if e := edges(s); last != "h99" || !strings.HasSuffix(e, " h99>hook hook>end") || len(view.flow().Faults) > 0 {
				t.Errorf("behind %s: %s, %v", last, e[len(e)-60:], view.flow().Faults)
			}
			press(s, "d", "u", "U", "u", "u", "u")
			if view.edit.Changed() {
				t.Error("all was taken back, and it has changed")
			}
			checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		})
	}
}

// BenchmarkFlow_LargeStep takes a step in a flow of 213 nodes, takes it back, and draws both.
func BenchmarkFlow_LargeStep(b *testing.B) {
	s := newScreen(b, fixtureState(), 160, 45)
	press(s, "9")
	s.ShowFlows(largeFlows(b), nil)
	press(s, "enter")
	for b.Loop() {
		press(s, "a", "j", "j", "enter")
		s.View(fixtureNow)
		press(s, "u")
		s.View(fixtureNow)
	}
}

// TestFlows_MatchHint: the start of a flow that meets all calls says how it is limited to one tool.
func TestFlows_MatchHint(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "9")
	folder := flow.Parse(map[string][]byte{"all.json": []byte(strings.Replace(guardFlow, `"match": {"tool": "write*"}`, `"match": {}`, 1)), "some.json": []byte(strings.Replace(guardFlow, `"guard"`, `"some"`, 1))}, false)
	s.ShowFlows(state.Flows{Workspace: folder, Dir: "/w", Trusted: true}, nil)
	press(s, "g", "enter")
	wantShown(t, s, "all calls. To limit it press e and write", `"write_*"`)
	press(s, "esc", "j", "enter")
	wantShown(t, s, "match     calls: write*")
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "To limit it") {
		t.Errorf("it is limited already:\n%s", frame)
	}
}

// TestFlows_TrustNext: while the files of a workspace are not trusted, the panel says of a flow that
// was disabled what is refused until then, and the status line which key comes next.
func TestFlows_TrustNext(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.Warnings = nil
	st.SetNotices([]string{"what this workspace's files grant counts only once trusted: pml trust"})
	s := newScreen(t, st, 160, 45)
	press(s, "9")
	folder := flow.Parse(map[string][]byte{"guard.json": []byte(strings.Replace(guardFlow, `"enabled": true`, `"enabled": false`, 1))}, false)
	s.ShowFlows(state.Flows{Workspace: folder, Dir: "/w"}, nil)
	wantShown(t, s, "T comes next; what it checked while trusted is refused until then", "counts only once trusted: T shows it and trusts it")
	press(s, "1")
	wantShown(t, s, "counts only once trusted: pml trust")
}
