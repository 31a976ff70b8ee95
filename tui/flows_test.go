package tui

import (
	"context"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// fakeFlows has one flow file, and remembers what was done to it.
type fakeFlows struct {
	text  []byte
	tried state.FlowCall
	on    bool
	err   error
	reads int

	unread error // of the next read
}

func (f *fakeFlows) ReadFlows(context.Context) (state.Flows, error) {
	f.reads++
	if err := f.unread; err != nil {
		f.unread = nil
		return state.Flows{}, err
	}
	return state.Flows{Workspace: flow.Parse(map[string][]byte{"f.json": f.text}, false), Trusted: string(f.text) == plainFlow}, nil
}

func (f *fakeFlows) CallFlowRuns(_ context.Context, run core.ID, call string) ([]core.FlowRun, error) {
	return []core.FlowRun{{ID: "x", Flow: "f", Workspace: "/w", RunID: run, CallID: call, State: core.FlowOK}}, nil
}

func (f *fakeFlows) TryFlow(_ context.Context, _ state.FlowFile, _ []byte, call state.FlowCall) (state.FlowTried, error) {
	f.tried = call
	return state.FlowTried{Matches: true, Args: call.Args}, f.err
}

func (f *fakeFlows) SaveFlow(_ context.Context, _ state.FlowFile, text, was []byte) error {
	if string(was) != string(f.text) {
		return core.Errorf(core.CodeInvalidConfig, "it has changed")
	}
	f.text = text
	return nil
}

func (f *fakeFlows) EnableFlow(_ context.Context, _ state.FlowFile, enable bool) error {
	f.on = enable
	return f.err
}

// plainFlow is a flow without faults.
const plainFlow = `{"id": "f", "name": "Plain", "workflowType": "tools/call", "enabled": false,
"nodes": [{"id": "start", "type": "start", "data": {}}, {"id": "mcp", "type": "mcp-call", "data": {}}, {"id": "end", "type": "end", "data": {}}],
"edges": [{"source": "start", "target": "mcp"}, {"source": "mcp", "target": "end"}]}`

// typed presses keys.
func (h *harness) typed(text string) {
	h.t.Helper()
	for _, r := range text {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}
		if r == '\r' {
			msg = tea.KeyMsg{Type: tea.KeyEnter}
		}
		h.send(msg)
	}
}

// TestModel_Flows: read, changed with the editor, tried, saved, switched on, and found
// from a call.
func TestModel_Flows(t *testing.T) {
	t.Parallel()
	fake := &fakeFlows{text: []byte(plainFlow)}
	h := newHarness(t, func(o *Options) { o.Flows = fake })
	h.typed("9")
	h.shows("Plain")
	h.tick(flowsAfter) // of the beginning
	was := fake.reads
	h.learn(func(s *state.State) { s.SetNotices([]string{"news"}) })
	if h.tick(flowsAfter / 2); fake.reads != was {
		t.Error("read at once, before the records are written")
	}
	h.tick(flowsAfter)
	if h.tick(flowsAfter); fake.reads != was+1 {
		t.Errorf("%d reads after one change", fake.reads-was)
	}
	h.typed("\ra\r") // an approval behind start
	h.shows("(not saved)")
	h.editWith(`printf 'Really?\n' > "$1"`)
	h.typed("e")
	h.shows("does      Really?")
	h.typed("E") // what is no JSON is not taken
	h.shows("the flow is as it was: this is no JSON")
	h.typed("t\rserver:tool {}\r")
	h.shows("test, step 1 of 0")
	if fake.tried.Tool != "server:tool" {
		t.Errorf("tried %+v", fake.tried)
	}
	h.want(screen.TryFlowOnAll{Flow: state.FlowFile{Name: "f.json"}, Calls: []state.FlowCall{{Tool: "a:b"}, {Tool: "a:c"}}})
	h.shows("Of 2 calls")
	h.typed("\r")
	if fake.tried.Tool != "a:c" {
		t.Errorf("tried %+v", fake.tried)
	}
	fake.err = core.Errorf(core.CodeInvalidConfig, "not now\x1b")
	h.want(screen.TryFlowOnAll{Flow: state.FlowFile{Name: "f.json"}, Calls: []state.FlowCall{{Tool: "a:b"}}})
	h.shows(`the flow cannot be tested: not now\x1b`)
	h.typed("t\r\r")
	h.shows(`the flow cannot be tested: not now\x1b`)
	fake.err = nil
	h.typed("o")
	h.shows("f.json is saved; until it is trusted, what it checked before is refused: T comes next")
	if !strings.Contains(string(fake.text), `"message":"Really?"`) && !strings.Contains(string(fake.text), `"message": "Really?"`) {
		t.Error(string(fake.text))
	}
	h.typed("x")
	h.shows("f.json is enabled")
	if !fake.on {
		t.Error("it is not on")
	}
	fake.text = []byte(plainFlow) // as it was trusted
	h.typed("x")
	h.shows("f.json is enabled")
	h.hides("comes next")
	h.want(screen.SaveFlow{Flow: state.FlowFile{Name: "f.json"}, Text: []byte("{}"), Was: []byte("other")})
	h.shows("f.json was not saved: it has changed")
	h.want(screen.FindFlowRuns{Run: runA, Call: "c"})
	h.shows("Plain")
	h.m.o.Flows = nil
	h.want(screen.LoadFlows{})
	h.typed("9")
}

// TestModel_FlowsAgain: what is asked for while the flows are being read is read once more,
// for it may have happened since: a trust that was given elsewhere, say.
func TestModel_FlowsAgain(t *testing.T) {
	t.Parallel()
	fake := &fakeFlows{text: []byte(plainFlow)}
	h := newHarness(t, func(o *Options) { o.Flows = fake })
	begun := h.m.loadFlows()
	was := fake.reads
	if h.m.loadFlows() != nil {
		t.Error("it is read twice at the same time")
	}
	for _, msg := range h.run(begun) {
		h.send(msg)
	}
	if fake.reads != was+2 {
		t.Errorf("it was read %d times", fake.reads-was)
	}
}

// TestModel_FlowsUnread: flows that cannot be read are said, and read again.
func TestModel_FlowsUnread(t *testing.T) {
	t.Parallel()
	fake := &fakeFlows{text: []byte(plainFlow), unread: core.Errorf(core.CodeStoreBusy, "another process has it")}
	h := newHarness(t, func(o *Options) { o.Flows = fake })
	h.typed("9")
	h.shows("another process has it")
	h.tick(flowsAfter)
	h.shows("Plain")
}
