package screen

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// flowTrial is a call that the open flow was tried on, gone through node by node.
type flowTrial struct {
	call  state.FlowCall
	tried state.FlowTried
	step  int // of the nodes that the call came to
}

// testedRuns is of how many runs, the newest, calls are offered.
const testedRuns = 10

// maxTried bounds how many recorded calls are offered.
const maxTried = 40

// tryMenu asks which call to try the flow on: a recorded one, or one that is typed.
func (v *flowView) tryMenu(e *Env) []Intent {
	if n := len(v.flow().Faults); n > 0 {
		return []Intent{say{Bad, "the flow has " + plural(n, "fault") + "; it can be tested without"}}
	}
	if v.flow().Type == flow.ListTools {
		return v.tryListPrompt(e)
	}
	calls := recordedCalls(e)
	m := &menu{title: "Test on a call, which is not made", items: []menuItem{{"type one", "server:tool and its arguments as JSON"}}}
	if len(calls) > 1 {
		m.items = append(m.items, menuItem{"all of them", fmt.Sprintf("what it would make of these %d", len(calls))})
	}
	m.items = append(m.items, menuItem{"of past days", "what the saved flow would make of all calls since then"})
	first := len(m.items)
	for _, c := range calls {
		m.items = append(m.items, menuItem{visibleName(c.Tool), core.Visible(string(c.Args), 200, false)})
	}
	m.items = append(m.items, menuItem{"another run's", "choose the run in 1 Runs, come back: its calls come first"})
	m.done = func(i int) []Intent {
		switch {
		case i == 0:
			return v.tryPrompt()
		case i == len(m.items)-1:
			return []Intent{openPanel{PanelWorkflows}}
		case i == first-1:
			return v.sincePrompt()
		case i < first:
			return []Intent{TryFlowOnAll{Flow: v.row.file, Text: v.edit.Text(), Calls: calls}}
		}
		return v.try(calls[i-first])
	}
	return []Intent{openOverlay{m}}
}

// sincePrompt asks for the time since when all calls are tried, which a command does: they
// may be many more than the terminal has read.
func (v *flowView) sincePrompt() []Intent {
	if v.edit.Changed() {
		return []Intent{say{Note, "save the flow first: this tries the flow as it is in its file"}}
	}
	ask := newProposal("test on all calls of the last:", "1d")
	ask.hint = "12h, 7d, 2w, or a day such as 2026-11-25; nothing is called"
	ask.done = func(text string, _ *Env) []Intent {
		return []Intent{Command{fmt.Sprintf("flows test %q --since %q", v.flow().ID, strings.TrimSpace(text))}}
	}
	return []Intent{openOverlay{ask}}
}

// tryListPrompt asks for the server whose list of tools the flow is tried on.
func (v *flowView) tryListPrompt(e *Env) []Intent {
	text := v.typed
	for _, c := range recordedCalls(e) {
		if server, _, ok := core.SplitTool(c.Tool); text == "" && ok {
			text = server
		}
	}
	ask := newProposal("test on the tools of:", text)
	ask.hint = "the name of a server, which is asked for its tools (7 Servers)"
	ask.done = func(text string, _ *Env) []Intent {
		v.typed = strings.TrimSpace(text)
		return v.try(state.FlowCall{Tool: v.typed})
	}
	return []Intent{openOverlay{ask}}
}

// recordedCalls are the calls of the runs that were read, of the selected run first. One
// of those that are alike stands for all.
func recordedCalls(e *Env) (out []state.FlowCall) {
	seen := map[string]bool{}
	for _, id := range append([]core.ID{e.Sel.Run}, e.State.Runs()...) {
		w, ok := e.State.Workflow(id)
		if !ok {
			continue
		}
		for i := range w.Layers {
			for _, t := range w.Layers[i].Tasks {
				if alike := fmt.Sprintf("%s %s %s", t.Tool, t.Arguments, t.Output); t.Tool != "" && len(out) < maxTried && !seen[alike] {
					seen[alike] = true
					out = append(out, state.FlowCall{Tool: t.Tool, Args: t.Arguments, Result: resultOf(t.Output)})
				}
			}
		}
	}
	return out
}

// resultOf is the output of a recorded call as a server would have given it.
func resultOf(output json.RawMessage) json.RawMessage {
	result := map[string]any{"content": []map[string]string{{"type": "text", "text": string(output)}}}
	if strings.HasPrefix(string(output), "{") {
		result["structuredContent"] = output
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil // the trial ends before the call
	}
	return raw
}

// tryPrompt asks for a call.
func (v *flowView) tryPrompt() []Intent {
	ask := newProposal("test on:", v.typed)
	ask.hint = `server:tool and its arguments, such as files:read_file {"path": "README.md"}; nothing is called`
	ask.done = func(text string, _ *Env) []Intent {
		v.typed = text
		tool, args, _ := strings.Cut(strings.TrimSpace(text), " ")
		if args = strings.TrimSpace(args); args == "" {
			args = "{}"
		}
		if _, _, ok := core.SplitTool(tool); !ok || !json.Valid([]byte(args)) {
			return []Intent{say{Bad, "that is no server:tool with arguments as JSON"}}
		}
		return v.try(state.FlowCall{Tool: tool, Args: json.RawMessage(args), Result: resultOf(json.RawMessage(`"the answer of a test"`))})
	}
	return []Intent{openOverlay{ask}}
}

func (v *flowView) try(c state.FlowCall) []Intent {
	return []Intent{TryFlow{Flow: v.row.file, Text: v.edit.Text(), Call: c}}
}

// ShowTrials lists what the open flow made of calls that were tried; each can be gone
// through. What somebody has opened meanwhile keeps the keys, and they try again.
func (s *Screen) ShowTrials(i TryFlowOnAll, tried []state.FlowTried) {
	if v := s.panels[PanelFlows].(*flowsPanel).view; v == nil || v.row.file != i.Flow || s.Open() {
		return
	}
	m, counts := &menu{}, map[string]int{}
	for n, c := range i.Calls {
		word := verdictOf(c, tried[n])
		counts[word]++
		m.items = append(m.items, menuItem{word, visibleName(c.Tool) + " " + core.Visible(string(c.Args), 200, false)})
	}
	var words []string
	for _, word := range []string{"blocked", "failed", "asks", "changed", "passes", "no match"} {
		if counts[word] > 0 {
			words = append(words, itoa(counts[word])+" "+word)
		}
	}
	m.title = "Of " + plural(len(tried), "call") + ": " + strings.Join(words, ", ")
	m.done = func(n int) []Intent {
		s.ShowTrial(TryFlow{Flow: i.Flow, Text: i.Text, Call: i.Calls[n]}, tried[n])
		return nil
	}
	s.overlay.open(m)
}

// verdictOf is what a flow made of a call, in a word.
func verdictOf(c state.FlowCall, t state.FlowTried) string {
	switch {
	case !t.Matches:
		return "no match"
	case t.Refused != "" && t.Run.State == core.FlowBlocked:
		return "blocked"
	case t.Refused != "":
		return "failed"
	case len(t.Asks) > 0:
		return "asks"
	case !sameJSON(t.Args, c.Args), len(t.Result) > 0 && !sameJSON(t.Result, c.Result):
		return "changed"
	}
	return "passes"
}

// ShowTrial shows what the open flow made of a call that was tried.
func (s *Screen) ShowTrial(i TryFlow, tried state.FlowTried) {
	p := s.panels[PanelFlows].(*flowsPanel)
	if v := p.view; v != nil && v.row.file == i.Flow {
		var came []core.FlowNodeRun
		for _, n := range tried.Run.Nodes {
			if n.State != core.FlowSkipped {
				came = append(came, n)
			}
		}
		tried.Run.Nodes = came
		if len(tried.List) > 0 {
			i.Call.Result = tried.List
		}
		v.trial = &flowTrial{call: i.Call, tried: tried}
		v.toStep(0)
	}
}

// toStep goes to a node that the call came to.
func (v *flowView) toStep(step int) {
	t := v.trial
	t.step = max(min(step, len(t.tried.Run.Nodes)-1), 0)
	if len(t.tried.Run.Nodes) > 0 {
		v.node = t.tried.Run.Nodes[t.step].Node
	}
	v.detail.Top = 0
}

// doTrial goes through a trial, until it is left or the flow is changed.
func (v *flowView) doTrial(act keys.Action) (done bool) {
	switch act {
	case keys.Open, keys.NextTab:
		v.toStep(v.trial.step + 1)
	case keys.PreviousTab:
		v.toStep(v.trial.step - 1)
	case keys.Back:
		v.trial = nil
	default:
		return false
	}
	return true
}

// headText says which call is tried, and how far it has come.
func (t *flowTrial) headText() string {
	return fmt.Sprintf("test, step %d of %d, %s: %s %s", t.step+1, len(t.tried.Run.Nodes), verdictOf(t.call, t.tried), visibleName(t.call.Tool), core.Visible(string(t.call.Args), 200, false))
}

// addEnd says what the trial came to, at its last step.
func (t *flowTrial) addEnd(add func(label, text string, style paint.Style)) {
	if !t.tried.Matches {
		add("match", "the flow does not match this call: it would pass by it", paint.Style{Role: paint.Warn})
	}
	if t.step < len(t.tried.Run.Nodes)-1 {
		return
	}
	for _, ask := range t.tried.Asks {
		add("asks", core.Visible(ask.Message, 500, false), paint.Style{Role: paint.Warn})
	}
	switch {
	case t.tried.Refused != "":
		add("refused", core.Visible(t.tried.Refused, 500, false), paint.Style{Role: paint.Danger})
		return
	case len(t.tried.List) > 0:
		t.addTools(add)
		return
	case !sameJSON(t.tried.Args, t.call.Args):
		add("sent", core.Visible(string(t.tried.Args), 1000, false), paint.Style{Role: paint.OK})
	default:
		add("sent", "the arguments as they are", paint.Style{Role: paint.OK})
	}
	if len(t.tried.Result) > 0 && !sameJSON(t.tried.Result, t.call.Result) {
		add("answer", core.Visible(string(t.tried.Result), 1000, false), paint.Style{Role: paint.OK})
	}
}

// addTools says which tools are left of a server's.
func (t *flowTrial) addTools(add func(label, text string, style paint.Style)) {
	d, _ := flow.DiffLists(t.tried.List, t.tried.Result)
	for _, part := range []struct {
		label string
		names []string
		role  paint.Role
	}{{"hidden", d.Hidden, paint.Warn}, {"changed", d.Changed, paint.Warn}, {"as is", d.Same, paint.OK}} {
		if len(part.names) > 0 {
			add(part.label, core.Visible(strings.Join(part.names, ", "), 1000, false), paint.Style{Role: part.role})
		}
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(a, b json.RawMessage) bool {
	x, err := core.Digest(a)
	y, err2 := core.Digest(b)
	return err == nil && err2 == nil && x == y
}
