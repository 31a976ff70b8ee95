package screen

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/state"
)

// guardFlow asks before writes outside docs/, and tells about all that was written.
const guardFlow = `{"id": "guard", "name": "Ask outside docs/", "workflowType": "tools/call", "enabled": true, "match": {"tool": "write*"},
"nodes": [{"id": "start", "type": "start", "position": {"x": 0, "y": 0}, "data": {"label": "Start"}},
{"id": "inside", "type": "condition", "position": {"x": 0, "y": 0}, "data": {"label": "in docs/?", "condition": {"where": "args.path.startsWith('docs/')"}}},
{"id": "ask", "type": "approval", "position": {"x": 0, "y": 0}, "data": {"label": "Ask", "approval": {"message": "a write outside docs/"}}},
{"id": "trim", "type": "hook", "position": {"x": 0, "y": 0}, "data": {"label": "Trim", "hook": {"id": "h", "script": "const p = context.request.params.arguments\nreturn {params: {arguments: {...p, path: p.path.trim()}}}", "blocking": true}}},
{"id": "call1", "type": "mcp-call", "position": {"x": 0, "y": 0}, "data": {"label": "Call"}},
{"id": "call2", "type": "mcp-call", "position": {"x": 0, "y": 0}, "data": {"label": "Call, asked"}},
{"id": "log", "type": "hook", "position": {"x": 0, "y": 0}, "data": {"label": "Log", "hook": {"id": "l", "script": "console.log('done')", "blocking": false}}},
{"id": "end", "type": "end", "position": {"x": 0, "y": 0}, "data": {"label": "End"}}],
"edges": [{"source": "start", "target": "inside"}, {"source": "inside", "target": "trim", "label": "true"}, {"source": "inside", "target": "ask", "label": "false"},
{"source": "trim", "target": "call1"}, {"source": "ask", "target": "call2"}, {"source": "call1", "target": "log"}, {"source": "call1", "target": "end"}, {"source": "call2", "target": "end"}]}`

// hostileFlow has faults, and names that would act on a terminal.
const hostileFlow = `{"id": "bad\u001b[2J", "name": "bad\u001b[31m\u202e flow", "workflowType": "tools/call", "enabled": false,
"nodes": [{"id": "start", "type": "start", "data": {"label": "\u001b]0;x\u0007"}}, {"id": "a", "type": "hook", "data": {"label": "日本語の名前 とても長い", "hook": {"script": "\u001b[2J\ttabs", "blocking": true}}},
{"id": "b", "type": "hook", "data": {"label": "b", "hook": {"script": "", "blocking": true}}}],
"edges": [{"source": "start", "target": "a", "label": "\u001b[2J"}, {"source": "a", "target": "b"}, {"source": "b", "target": "a"}]}`

// fixtureFlows are flows of home and workspace with runs that went well, changed and
// blocked.
func fixtureFlows() state.Flows {
	folder := flow.Parse(map[string][]byte{"guard.json": []byte(guardFlow), "bad.json": []byte(hostileFlow)}, false)
	home := flow.Parse(map[string][]byte{"audit.json": []byte(strings.NewReplacer(`"guard"`, `"audit"`, "Ask outside docs/", "Audit all writes", `"enabled": true`, `"enabled": true, "mode": "audit"`).Replace(guardFlow))}, true)
	run := func(id core.ID, state core.FlowState, at time.Duration, nodes ...core.FlowNodeRun) core.FlowRun {
		return core.FlowRun{
			ID: id, Flow: "guard", Name: "Ask outside docs/", Workspace: "/w", RunID: runNotes, CallID: "create_release", Tool: "fs:write_file",
			State: state, Nodes: nodes, StartedAt: ago(at), DurationUS: 2300,
		}
	}
	node := func(id, kind string, state core.FlowState, us int64) core.FlowNodeRun {
		return core.FlowNodeRun{Node: id, Type: kind, State: state, StartedAt: fixtureNow, DurationUS: us}
	}
	trim := node("trim", flow.TypeHook, core.FlowBlocked, 2100)
	trim.Reason, trim.Console = "no writes to docs/private\x1b[2J", []string{"path docs/private/a.md", "\x1b[31mred"}
	changed := node("trim", flow.TypeHook, core.FlowOK, 1900)
	changed.Change = &core.FlowChange{Before: "sha256:a", After: "sha256:b", Diff: "-  \"path\": \" docs/a.md\"\n+  \"path\": \"docs/a.md\"\n"}
	last := run("f1", core.FlowBlocked, time.Minute, node("inside", flow.TypeCondition, core.FlowOK, 18), trim, node("ask", flow.TypeApproval, core.FlowSkipped, 0))
	last.Node, last.Reason = "trim", trim.Reason
	return state.Flows{
		Home: home, Workspace: folder, Dir: "/w", Trusted: true,
		Runs: map[core.FlowKey][]core.FlowRun{{Workspace: "/w", Flow: "guard"}: {
			last,
			run("f2", core.FlowOK, 2*time.Minute, node("inside", flow.TypeCondition, core.FlowOK, 21), changed, node("call1", flow.TypeCall, core.FlowOK, 0), node("log", flow.TypeHook, core.FlowRunning, 0), node("end", flow.TypeEnd, core.FlowOK, 0)),
		}},
	}
}

// flowsScreen has the panel of flows in focus.
func flowsScreen(t *testing.T, w, h int) *Screen {
	t.Helper()
	s := newScreen(t, fixtureState(), w, h)
	wantIntents(t, press(s, "9"), LoadFlows{})
	s.ShowFlows(fixtureFlows(), nil)
	return s
}

func TestFlows_Golden(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"list": nil, "graph": {"G", "enter", "l", "l", "j"}} {
		for _, size := range goldenSizes {
			s := flowsScreen(t, size[0], size[1])
			s.Plain(fixtureNow)
			press(s, keys...)
			frame := s.Plain(fixtureNow)
			checkFrame(t, frame, size[0], size[1])
			checkGolden(t, "flows/"+name+"_"+itoa(size[0])+"x"+itoa(size[1])+".txt", frame)
		}
	}
}

func TestFlows(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	wantShown(t, s, "Audit all writes", "bad")
	wantIntents(t, press(s, "g", "x"), SwitchFlow{state.FlowFile{Home: true, Name: "audit.json"}, false}) // an audit decides nothing
	press(s, "G", "x")
	wantShown(t, s, "Disable this flow?", "are refused until you have trusted the change", "write*")
	wantIntents(t, press(s, "y"), SwitchFlow{state.FlowFile{Name: "guard.json"}, false})
	wantShown(t, s, "2: 1 blocked, 0 failed, 1 changed", "last      14:01:31 blocked")
	press(s, "enter", "l", "l", "j")
	s.ShowFlows(fixtureFlows(), nil) // it stays where it is
	wantShown(t, s, "run 1 of 2: 14:01:31 blocked", `no writes to docs/private\x1b[2J`, "the slowest node", "console   path docs/private/a.md")
	press(s, "]", "pgdown")
	wantShown(t, s, "run 2 of 2: 14:00:31 ok", "changed")
	press(s, "esc")
	wantShown(t, s, "Audit all writes")
}

// TestFlows_Link goes from a call to what the flow did with it, and back.
func TestFlows_Link(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 160, 45)
	s.sel.Run, s.sel.Task = runNotes, "create_release"
	wantIntents(t, press(s, "4", "L"), FindFlowRuns{Run: runNotes, Call: "create_release"})
	runs := fixtureFlows().Runs[core.FlowKey{Workspace: "/w", Flow: "guard"}]
	gone := runs[0]
	gone.Flow, gone.Name = "gone", "gone\x1b"
	for want, list := range map[string][]core.FlowRun{"no flow has met": nil, `the flow gone\x1b that met`: {gone}} {
		if why := s.ShowFlowRun(list); !strings.HasPrefix(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
	if why := s.ShowFlowRun([]core.FlowRun{runs[1], runs[0]}); why != "" {
		t.Fatal(why)
	}
	wantShown(t, s, "changed", `+  "path": "docs/a.md"`)
	press(s, "[")
	wantShown(t, s, "run 1 of 2: 14:01:31 blocked")
	wantIntents(t, press(s, "L"))
	if s.panes.focus != PanelTask || s.sel.Task != "create_release" {
		t.Errorf("back at %d, %s", s.panes.focus, s.sel.Task)
	}
	press(s, "9", "esc", "g", "enter", "a", "enter") // another flow is being changed
	if why := s.ShowFlowRun(runs); !strings.Contains(why, "are not saved") {
		t.Errorf("the changes of another flow are lost: %q", why)
	}
}

// TestFlows_Hostile draws faults and names that would act on a terminal, in every size.
func TestFlows_Hostile(t *testing.T) {
	t.Parallel()
	for _, size := range windowSizes {
		s := flowsScreen(t, size[0], size[1])
		checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		wantIntents(t, press(s, "g", "j", "x")) // refused: it has faults
		press(s, "enter", "n")
		for range 4 {
			press(s, "l", "pgdown")
			checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		}
	}
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "9")
	s.ShowFlows(state.Flows{}, errors.New("no \x1b folder"))
	wantShown(t, s, `cannot read the flows: no \x1b folder`)
	s.ShowFlows(state.Flows{}, nil)
	wantShown(t, s, "No hook flow is here yet")
}

// TestFlows_Edit changes a flow by keys and by the mouse: add, name, connect, cut, move,
// delete, take back, do again, save.
func TestFlows_Edit(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 160, 45)
	press(s, "G", "enter")
	wantShown(t, s, "a add", "u undo")
	press(s, "o")
	wantShown(t, s, "nothing to save")
	press(s, "a", "j", "j", "enter") // a hook behind start
	wantShown(t, s, "(not saved)", "hook hook  Hook")
	press(s, "r", `"Hook one"`, "enter")
	wantShown(t, s, "Hook one")
	part := press(s, "e")[0].(EditFlowPart)
	if part.Part.Suffix != ".js" || s.FlowPartEdited(part, "return {block: {message: 'no'}}") != nil {
		t.Fatalf("%+v", part)
	}
	wantShown(t, s, "return {block: {message: 'no'}}")
	press(s, "c", "l", "enter") // it leads there already
	wantShown(t, s, `leads to "inside" already`)
	press(s, "h", "D", "l", "enter")
	wantShown(t, s, "the flow has", "fault", "the path ends here")
	wantIntents(t, press(s, "o")) // enabled: what is broken is not saved
	wantShown(t, s, "saved like this it would refuse")
	press(s, "u", "u", "u", "U", "U")
	wantShown(t, s, "Hook one")
	press(s, "esc")
	wantShown(t, s, "Leave without saving?")
	press(s, "n", "q")
	wantShown(t, s, "Leave without saving?", "would be lost")
	press(s, "n")
	frame := strings.Split(s.Plain(fixtureNow), "\n")
	click := func(text string) {
		t.Helper()
		for y, line := range frame {
			if before, _, found := strings.Cut(line, text); found {
				s.Mouse(len([]rune(before))+1, y, Click, fixtureNow)
				return
			}
		}
		t.Fatalf("%s is not there", text)
	}
	click("Hook one")
	click("d del")
	if strings.Contains(s.Plain(fixtureNow), "Hook one") {
		t.Error("it was not deleted")
	}
	click("u undo")
	wantShown(t, s, "Hook one")
	save := press(s, "o")[0].(SaveFlow)
	if string(save.Was) != guardFlow || !strings.Contains(string(save.Text), "Hook one") {
		t.Errorf("%+v", save)
	}
	s.FlowSaved(save.Flow, save.Text)
	wantIntents(t, press(s, "esc"))
	wantShown(t, s, "3 flows")
}

// TestFlows_New makes a flow from a template, which opens.
func TestFlows_New(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	read := fixtureFlows()
	press(s, "+")
	wantShown(t, s, "approve-outside", "asks a person before a write outside")
	press(s, "enter")
	wantShown(t, s, "Where is approve-outside to hold?", "this workspace", "all workspaces")
	save := press(s, "enter")[0].(SaveFlow)
	if save.Flow.Home || save.Flow.Name != "approve-outside.json" || len(save.Was) != 0 {
		t.Errorf("%+v", save.Flow)
	}
	s.FlowSaved(save.Flow, save.Text)
	read.Workspace = flow.Parse(map[string][]byte{save.Flow.Name: save.Text}, false)
	read.Trusted = false
	s.ShowFlows(read, nil)
	wantShown(t, s, "disabled", "Outside of", "T comes next; what it checked while trusted", "x enables it", "no call has met it yet")
	press(s, "esc", "+")
	if save = press(s, "enter", "enter")[0].(SaveFlow); save.Flow.Name != "approve-outside-2.json" {
		t.Errorf("%+v", save.Flow)
	}
	press(s, "+")
	if save = press(s, "enter", "down", "enter")[0].(SaveFlow); !save.Flow.Home || save.Flow.Name != "approve-outside.json" {
		t.Errorf("%+v", save.Flow)
	}
}

// TestFlows_TryAll lists what a flow would have made of all recorded calls, and goes
// through one of them.
func TestFlows_TryAll(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	again := fixtureWorkflow()
	again.Layers = append(again.Layers, again.Layers...)
	s.o.State.PutWorkflow(again)
	press(s, "G", "t") // from the list as well
	wantShown(t, s, "all of them", "what it would make of these")
	press(s, "G")
	wantShown(t, s, "another run's")
	press(s, "enter")
	if s.panes.focus != PanelWorkflows {
		t.Errorf("another run is chosen in panel %d", s.panes.focus)
	}
	press(s, "9", "t", "down")
	i := press(s, "enter")[0].(TryFlowOnAll)
	if len(i.Calls) < 2 || string(i.Text) != guardFlow {
		t.Fatalf("%+v", i)
	}
	seen := map[string]bool{}
	for _, c := range i.Calls {
		key := c.Tool + string(c.Args) + string(c.Result)
		if seen[key] {
			t.Errorf("offered twice: %s", key)
		}
		seen[key] = true
	}
	run := fixtureFlows().Runs[core.FlowKey{Workspace: "/w", Flow: "guard"}][1]
	tried := make([]state.FlowTried, len(i.Calls))
	for n, c := range i.Calls {
		tried[n] = state.FlowTried{Matches: true, Run: run, Args: c.Args}
	}
	blocked := run
	blocked.State = core.FlowBlocked
	tried[0].Asks = []core.FlowAsk{{Message: "really?"}}
	tried[1].Run, tried[1].Refused = blocked, "no"
	s.ShowTrials(TryFlowOnAll{Flow: state.FlowFile{Name: "other.json"}}, nil) // closed meanwhile
	s.ShowTrials(i, tried)
	wantShown(t, s, "1 blocked, 1 asks", "asks", "blocked")
	checkFrame(t, s.Plain(fixtureNow), 80, 24)
	press(s, "down", "enter")
	wantShown(t, s, "test, step 1 of 5, blocked: "+visibleName(i.Calls[1].Tool))
}

// All calls of past days are tried by a command, with the flow as it was saved.
func TestFlows_TrySince(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	press(s, "G", "enter", "t", "down", "down", "enter")
	wantShown(t, s, "test on all calls of the last:", "1d")
	wantIntents(t, press(s, "ctrl+u", `"2w"`, "enter"), Command{`flows test "guard" --since "2w"`})
	press(s, "a", "j", "j", "enter", "t", "down", "down", "enter")
	wantShown(t, s, "save the flow first")
}

// A flow of tools/list is tried on the tools of a server: which it hides, changes and
// leaves as they are.
func TestFlows_TryList(t *testing.T) {
	t.Parallel()
	s, read := flowsScreen(t, 80, 24), fixtureFlows()
	read.Workspace.Flow("guard").Type = flow.ListTools
	s.ShowFlows(read, nil)
	press(s, "G", "enter", "t")
	wantShown(t, s, "test on the tools of: ")
	press(s, "ctrl+u")
	i := press(s, `"files"`, "enter")[0].(TryFlow)
	if i.Call.Tool != "files" || len(i.Call.Args) > 0 {
		t.Fatalf("%+v", i.Call)
	}
	run := core.FlowRun{State: core.FlowOK, Nodes: []core.FlowNodeRun{{Node: "end", Type: flow.TypeEnd, State: core.FlowOK}}}
	s.ShowTrial(i, state.FlowTried{Matches: true, Run: run, List: []byte(`{"tools":[{"name":"a"},{"name":"b"},{"name":"c\u001b"}]}`), Result: []byte(`{"tools":[{"name":"b"},{"name":"c\u001b","title":"x"}]}`)})
	wantShown(t, s, "changed: files", "hidden    a", "changed   c", "as is     b")
	checkFrame(t, s.Plain(fixtureNow), 80, 24)
}

// TestFlows_Try goes step by step through what a flow made of a call that was not made.
func TestFlows_Try(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	press(s, "G", "enter", "t")
	wantShown(t, s, "Test on a call, which is not made", "type one", "gh:create_release") // a recorded one
	press(s, "enter")
	press(s, "ctrl+u", `"x"`, "enter")
	wantShown(t, s, "that is no server:tool")
	press(s, "t", "enter")
	for range 60 {
		press(s, "backspace")
	}
	try := press(s, `"fs:write_file {"path": " a"}"`, "enter")
	if len(try) != 1 {
		t.Fatalf("%v\n%s", try, s.Plain(fixtureNow))
	}
	i := try[0].(TryFlow)
	if i.Call.Tool != "fs:write_file" || string(i.Call.Args) != `{"path": " a"}` || string(i.Text) != guardFlow || len(i.Call.Result) == 0 {
		t.Fatalf("%+v", i.Call)
	}
	run := fixtureFlows().Runs[core.FlowKey{Workspace: "/w", Flow: "guard"}][1]
	s.ShowTrial(i, state.FlowTried{Matches: true, Run: run, Args: core.Null, Asks: []core.FlowAsk{{Message: "really\x1b[2J?"}}, Result: i.Call.Result})
	wantShown(t, s, "test, step 1 of 5", "✓ in docs/?", "enter next step")
	if strings.Contains(s.Plain(fixtureNow), "changed") {
		t.Error("a later step is shown")
	}
	press(s, "enter")
	wantShown(t, s, "step 2 of 5", "changed", `+  "path": "docs/a.md"`)
	press(s, "enter", "enter", "enter", "enter", "pgdown")
	wantShown(t, s, "step 5 of 5", "asks", `really\x1b[2J?`, "sent      null")
	press(s, "[", "esc")
	wantShown(t, s, "run 1 of 2")
	s.ShowTrial(i, state.FlowTried{Run: run, Refused: "no\x1b"})
	press(s, "enter", "enter", "enter", "enter")
	wantShown(t, s, "does not match this call", `refused   no\x1b`)
	press(s, "[", "[", "[", "a", "enter") // a change ends it
	wantShown(t, s, "(not saved)", "run 1 of 2")
}

// TestFlows_Property: whatever is pressed and clicked on, a frame is exactly as large as
// its window, and nothing but keys for it writes or switches a flow.
func TestFlows_Property(t *testing.T) {
	t.Parallel()
	names := []string{"enter", "esc", "up", "down", "h", "l", "j", "k", "g", "G", "a", "A", "c", "D", "m", "r", "d", "u", "U", "n", "N", "[", "]", "t", "pgdown", "pgup", "+", "q", "x", "o", "y", "e", "E"}
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom(windowSizes).Draw(rt, "size")
		s := newScreen(t, fixtureState(), size[0], size[1])
		press(s, "9")
		s.ShowFlows(fixtureFlows(), nil)
		for range rapid.IntRange(1, 40).Draw(rt, "keys") {
			var intents []Intent
			name := rapid.SampledFrom(names).Draw(rt, "key")
			if rapid.IntRange(0, 9).Draw(rt, "mouse") == 0 {
				name, intents = "click", s.Mouse(rapid.IntRange(0, size[0]).Draw(rt, "x"), rapid.IntRange(0, size[1]).Draw(rt, "y"), Click, fixtureNow)
			} else {
				intents = press(s, name)
			}
			for _, i := range intents {
				switch i := i.(type) {
				case SaveFlow:
					if name != "o" && name != "enter" && name != "click" || name == "o" && bytes.Equal(i.Text, i.Was) {
						rt.Fatalf("%s saves a flow", name)
					}
					s.FlowSaved(i.Flow, i.Text)
				case SwitchFlow:
					if name != "x" && name != "y" && name != "enter" {
						rt.Fatalf("%s switches a flow", name)
					}
				case TryFlowOnAll:
					s.ShowTrials(i, make([]state.FlowTried, len(i.Calls)))
				case TryFlow:
					s.ShowTrial(i, state.FlowTried{Run: fixtureFlows().Runs[core.FlowKey{Workspace: "/w", Flow: "guard"}][1]})
				case EditFlowPart:
					_ = s.FlowPartEdited(i, rapid.SampledFrom([]string{"", "{", "return", hostileFlow, "args.a == 1"}).Draw(rt, "text")) // said on the screen
				}
			}
			checkFrame(t, s.Plain(fixtureNow), size[0], size[1])
		}
	})
}

// TestFlows_Unread: a file that is no JSON is a row with its fault, and opens as a text.
func TestFlows_Unread(t *testing.T) {
	t.Parallel()
	s := flowsScreen(t, 80, 24)
	s.ShowFlows(state.Flows{Workspace: flow.Parse(map[string][]byte{"x.json": []byte(`{"id": `)}, false), Trusted: true}, nil)
	wantShown(t, s, "1 fault", "x.json")
	press(s, "enter")
	for _, name := range []string{"a", "enter", "c", "enter", "D", "esc", "m", "enter", "r", "d", "u", "U", "n", "t", "]", "L", "o", "j", "l", "G", "pgdown"} {
		press(s, name)
		checkFrame(t, s.Plain(fixtureNow), 80, 24)
	}
	part, ok := press(s, "e")[0].(EditFlowPart)
	if !ok || part.Part.Suffix != ".json" || s.FlowPartEdited(part, guardFlow) != nil {
		t.Fatalf("%+v", part)
	}
	wantShown(t, s, "Ask outside docs/ (not saved)", "in docs/?")
}

func BenchmarkView_Flow(b *testing.B) {
	s := newScreen(b, fixtureState(), 160, 45)
	press(s, "9")
	s.ShowFlows(fixtureFlows(), nil)
	press(s, "G", "enter", "l", "l")
	for b.Loop() {
		s.View(fixtureNow)
	}
}
