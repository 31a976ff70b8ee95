// Package progress tells on stderr how far a command is.
package progress

import (
	"fmt"
	"sync"
	"time"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// Progress shows on stderr how far a run is: one line that is redrawn on a
// terminal, a line for each layer elsewhere (lines.go). It uses no escape
// sequence: a redraw is a carriage return and spaces over what was there.
type Progress struct {
	screen Screen
	mu     sync.Mutex
	on     bool // a command that runs something has asked for it

	id      core.ID // of the run that events speak of
	started time.Time
	layer   int
	tasks   map[string]bool // by id: whether it is done
	done    int             // how many of them are
	lines   lines           // where nothing is redrawn
	drawn   int             // how often the line was drawn, and when last
	drawnAt time.Time
	line    redrawn
	phase   phase
	ticking chan struct{}
	held    bool // a question is on the terminal
	written written
	waits   bool // questions are decided elsewhere while the command waits
}

// New shows nothing yet.
func New(s Screen) *Progress { return &Progress{screen: s, tasks: map[string]bool{}} }

// Start shows progress from now on.
func (p *Progress) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = true
	p.started = p.screen.Now()
	if p.ticking == nil { // the first words come soon, whatever happens
		p.ticking = make(chan struct{})
		go p.tick(p.ticking)
	}
}

// Phase tells what is done before a call can be made, and how far that is; empty
// when it is over. It may be called from any goroutine.
func (p *Progress) Phase(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = core.Visible(text, 200, false)
	said := p.phase.text == text
	p.phase.now = text
	if text != "" {
		p.phase.text = text
	}
	switch {
	case !p.on || p.held || text == "" || said:
	case p.screen.Redraws:
		p.draw()
	case p.phase.due(text, p.screen.Now()):
		fmt.Fprintf(p.screen.W, "%s\n", text)
	}
}

// Wait makes questions stay on the screen: the command waits for somebody to
// decide them elsewhere, and says how.
func (p *Progress) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = true
}

// Run returns the run that events have spoken of.
func (p *Progress) Run() core.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// Begun names the run before any event does: one of a server sends none here.
func (p *Progress) Begun(id core.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = id
}

// Went says what a run has done before: its calls count, also those that are made anew.
func (p *Progress) Went(w core.Workflow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range w.Layers {
		for i := range l.Tasks {
			if t := &l.Tasks[i]; t.Tool != core.SleepTool && t.State.Settled() && t.State != core.TaskSkipped {
				p.end(t.ID)
				p.layer = max(p.layer, l.Index+1)
			}
		}
	}
}

// Event takes up one event. It may be called from any goroutine.
func (p *Progress) Event(e core.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.RunID != "" && p.written.spent == nil { // those below an agent are not the command's
		p.id = e.RunID
	}
	if p.written.spent != nil {
		p.agent(e)
	}
	if e.Type == core.EventTaskLog && e.TaskID == "" && p.phase.covers(e.Message) {
		return
	}
	what := p.note(e)
	if !p.on || p.held {
		return
	}
	if p.screen.Redraws {
		p.redraw(e, what)
	} else {
		p.tell(e, what)
	}
	if p.ticking == nil {
		p.ticking = make(chan struct{})
		go p.tick(p.ticking)
	}
}

// redraw shows the event in the line on the terminal, logs and warnings above.
func (p *Progress) redraw(e core.Event, what string) {
	question := e.Type == core.EventApprovalRequested || e.Type == core.EventApprovalResolved
	if p.written.open && e.Type != core.EventTaskLog && e.Type != core.EventTaskWarning {
		return
	}
	if e.Type == core.EventTaskLog || e.Type == core.EventTaskWarning || p.waits && question && what != "" {
		p.line.erase(p.screen)
		p.leaveText()
		fmt.Fprintf(p.screen.W, "%s\n", what)
	}
	// Thousands of calls need not be thousands of redraws: the ticker follows.
	if what == "" || p.drawn > manyDraws && p.screen.Now().Sub(p.drawnAt) < drawEvery {
		return
	}
	p.draw()
}

const (
	manyDraws = 100
	drawEvery = 50 * time.Millisecond
)

// tell writes the event as a line if it is one that a person reads in a log.
func (p *Progress) tell(e core.Event, what string) {
	if p.written.spent != nil {
		p.write(p.tellAgent(e, what))
		return
	}
	p.lines.add(e)
	var out []string
	switch e.Type {
	case core.EventTaskStart, core.EventTaskComplete:
	case core.EventCheckpoint:
		if e.Layer != nil {
			out = p.lines.done(*e.Layer, p.screen.Now(), false)
		}
	case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort:
		out = p.lines.done(p.layer, p.screen.Now(), true)
	case core.EventTaskError:
		out = append(out, p.lines.failure(what))
	default:
		out = append(out, what)
	}
	p.write(out)
}

func (p *Progress) write(lines []string) {
	for _, text := range lines {
		if text != "" {
			fmt.Fprintf(p.screen.W, "%s%s  %s\n", p.standing(), p.elapsed(), text)
		}
	}
}

// note counts the event and says it in words; empty when it changes nothing.
func (p *Progress) note(e core.Event) string {
	if e.Layer != nil {
		p.layer = max(p.layer, *e.Layer+1)
	}
	tool := core.Visible(e.Tool, 80, false)
	switch e.Type {
	case core.EventWorkflowStart:
		if name := core.Visible(e.RunName, 0, false); name != "" {
			return "run " + e.RunID.Short() + " started: " + name
		}
		return "run " + e.RunID.Short() + " started"
	case core.EventTaskStart:
		if p.tasks[e.TaskID] {
			p.done--
		}
		p.tasks[e.TaskID] = false
		return core.Visible(e.TaskID, 40, false) + " " + tool + " started"
	case core.EventTaskComplete:
		p.end(e.TaskID)
		return core.Visible(e.TaskID, 40, false) + " " + tool + " done in " + layout.Millis(e.DurationMS)
	case core.EventTaskError:
		p.end(e.TaskID)
		return core.Visible(e.TaskID, 40, false) + " " + tool + " failed" + reason(e)
	case core.EventTaskLog:
		return "log: " + core.Visible(e.Message, 2000, false)
	case core.EventTaskWarning:
		return "warning: " + core.Visible(e.Message, 2000, false)
	case core.EventApprovalRequested:
		if tool == "" {
			tool = core.Visible(e.Message, 200, false)
		}
		if p.waits {
			return "approval needed: " + tool + "; look at it with: pml approvals show " + e.ApprovalID.Short()
		}
		return "approval needed: " + tool
	case core.EventApprovalResolved:
		if tool == "" {
			return ""
		}
		return "approval decided: " + tool
	case core.EventReplanned:
		return "replanned"
	case core.EventCheckpoint, core.EventLayerStart, core.EventDecisionRequired, core.EventAgentIteration, core.EventAgentText,
		core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
		return ""
	}
	return ""
}

// standing is how far the run is, at the beginning of a line; empty before its first call.
func (p *Progress) standing() string {
	switch {
	case p.written.spent != nil:
		return p.written.spent.Text() + "  "
	case len(p.tasks) == 0:
		return ""
	}
	return fmt.Sprintf("tasks %d/%d  ", p.done, len(p.tasks))
}

func reason(e core.Event) string {
	if e.Error == nil {
		return ""
	}
	return ": " + core.Visible(layout.Joined(core.ShownAbort(e.Error.Message)), 200, false)
}

// end counts a task that is done. One that is tried again starts again.
func (p *Progress) end(id string) {
	if !p.tasks[id] {
		p.tasks[id] = true
		p.done++
	}
}

// summary is "layer 2  tasks 3/5  1.2s".
func (p *Progress) summary() string {
	switch {
	case p.phase.now != "":
		return p.phase.now + "  " + p.elapsed().Round(time.Second).String()
	case p.written.spent == nil && len(p.tasks) == 0 && p.id == "":
		return "starting  " + p.elapsed().String()
	case p.written.spent == nil && len(p.tasks) == 0:
		return "running  " + p.elapsed().String()
	case p.written.spent == nil:
		return fmt.Sprintf("layer %d  %s%s", p.layer, p.standing(), p.elapsed())
	}
	return p.standing() + p.elapsed().String()
}

func (p *Progress) elapsed() time.Duration {
	return p.screen.Now().Sub(p.started).Round(100 * time.Millisecond)
}

func (p *Progress) draw() {
	if p.written.open {
		return
	}
	p.line.draw(p.screen, p.summary())
	p.drawn++
	p.drawnAt = p.screen.Now()
}

// firstWords is when a person reads for the first time that something is done.
const firstWords = 300 * time.Millisecond

// tick keeps the elapsed time moving while nothing happens, or says once that
// a slow layer has started.
func (p *Progress) tick(stop chan struct{}) {
	t := time.NewTicker(firstWords)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			t.Reset(time.Second)
			p.mu.Lock()
			switch {
			case !p.on || p.held || p.ticking != stop:
			case p.screen.Redraws:
				p.draw()
			default:
				p.write(p.lines.slow(p.screen.Now()))
				p.screen.late(&p.phase)
			}
			p.mu.Unlock()
		}
	}
}

// Hold removes the line and writes nothing until Release: the terminal belongs
// to a question.
func (p *Progress) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.erase(p.screen)
	p.leaveText()
	p.held = true
}

// Release ends Hold.
func (p *Progress) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

// Clear removes the line so that other text can be written.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.erase(p.screen)
	p.leaveText()
}

// Stop ends progress: nothing is drawn after it.
func (p *Progress) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = false
	p.line.erase(p.screen)
	if p.ticking != nil {
		close(p.ticking)
		p.ticking = nil
	}
}
