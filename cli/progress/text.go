package progress

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/casys-ai/pml/core"
)

// ownTools is how the names of calls begin that are pml's own: no tool of a server is
// called by them.
const ownTools = "pml:"

// written is what a model writes on the terminal while it comes.
type written struct {
	spent *core.AgentSpent // of the agent that is watched; nil: none is
	call  string           // whose answer is shown
	ended string           // the call whose answer has come as a whole
	text  strings.Builder  // of the answer, as it is shown
	open  bool             // the cursor stands behind it
}

// Agent says that the run is an agent's, and what it has used: events tell more.
func (p *Progress) Agent(id core.ID, spent core.AgentSpent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.written.spent = id, &spent
}

// Text shows a piece of what the model of the agent writes, at once, where lines can be
// redrawn. offset is 0 where an answer begins.
func (p *Progress) Text(e core.Event, offset int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.written
	if !p.on || p.held || !p.screen.Redraws {
		return
	}
	if offset == 0 || e.TaskID != w.call {
		p.leaveText()
		w.call = e.TaskID
		w.text.Reset()
	}
	p.line.erase(p.screen)
	text := core.Visible(e.Message, 0, true)
	_, _ = io.WriteString(p.screen.W, text)
	w.text.WriteString(text)
	w.open = !strings.HasSuffix(text, "\n")
	if w.ended == w.call {
		p.leaveText()
	}
}

// leaveText goes to the line after the text.
func (p *Progress) leaveText() {
	if p.written.open {
		p.written.open = false
		_, _ = io.WriteString(p.screen.W, "\n")
	}
}

// Rest is what is left of a text to show: all of it, unless its beginning is what was
// shown last. Behind that the cursor stands then.
func (p *Progress) Rest(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.written.text.String()
	rest, shown := strings.CutPrefix(text, strings.TrimRight(said, "\n"))
	if said == "" || !shown {
		p.leaveText()
		return text
	}
	switch {
	case rest == "":
		p.leaveText()
	case !p.written.open:
		rest = strings.TrimPrefix(rest, "\n")
	}
	p.written.open = false
	return rest
}

// agent counts what an agent has used: an answer of its model, or a call of one of its
// scripts.
func (p *Progress) agent(e core.Event) {
	w := &p.written
	switch {
	case e.Type == core.EventAgentIteration && e.RunID == p.id:
		w.ended = e.TaskID
		p.leaveText()
		var a core.AgentAnswer
		if json.Unmarshal(e.Data, &a) != nil {
			return
		}
		if a.Usage != nil && *a.Usage == (core.AgentUsage{}) {
			a.Usage = nil // the provider has not said it
		}
		w.spent.Add(a)
	case e.RunID != p.id && (e.Type == core.EventTaskComplete || e.Type == core.EventTaskError) && !strings.HasPrefix(e.Tool, ownTools):
		w.spent.Calls++
	}
}

// tellAgent are the lines that an event of an agent is worth where nothing is redrawn: its
// answers, its scripts, and what a person would want to know at once.
func (p *Progress) tellAgent(e core.Event, what string) []string {
	switch e.Type {
	case core.EventAgentIteration:
		what = core.Visible(e.Message, 200, false)
	case core.EventTaskError:
		if strings.HasPrefix(e.Tool, ownTools) && e.Tool != core.ModelTool { // its call has said it
			return nil
		}
		what = p.lines.failure(what)
	case core.EventTaskStart, core.EventTaskComplete, core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort:
		return nil
	default:
	}
	return []string{what}
}
