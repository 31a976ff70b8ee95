package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// taskTab is one of the texts about a task.
type taskTab int

// The tabs.
const (
	tabArgs taskTab = iota
	tabResult
	tabLog
	tabError
	tabRaw
	taskTabs
)

// taskTabNames are the tabs as they are shown, and taskTabFiles how their files end.
var (
	taskTabNames = [taskTabs]string{"Args", "Result", "Log", "Error", "Raw"}
	taskTabFiles = [taskTabs]string{"args.json", "result.json", "log.txt", "error.txt", "json"}
)

// taskPanel shows one task: what it was called with, what came of it, and what
// was logged meanwhile. A text is made when its tab is first looked at, and
// kept until the run is read again.
type taskPanel struct {
	run   core.ID
	id    string
	of    *core.Layer // what the texts were made from
	found *core.Task
	model *dagModel // of the run, as the DAG has it
	tab   taskTab
	// want is the tab that the person chose last; the panel opens another one by itself where
	// a task has nothing in that. onError says that it went to the error.
	want    taskTab
	onError bool
	pages   [taskTabs]widget.Pager
	made    [taskTabs]bool
	log     taskLog
	tabX    [taskTabs]int // where a tab begins in the frame, as drawn last
}

func newTask() *taskPanel { return &taskPanel{} }

// task is the selected task. It looks for it only when another one is selected
// or the run was read again.
func (p *taskPanel) task(e *Env) *core.Task {
	w, ok := e.State.Workflow(e.Sel.Run)
	if !ok {
		w = core.Workflow{}
	}
	same := p.run == e.Sel.Run && p.id == e.Sel.Task
	if same && p.of == firstLayer(&w) {
		return p.found
	}
	if !same {
		follow, cut := p.pages[tabLog].Following, p.pages[tabLog].Cut
		p.pages = [taskTabs]widget.Pager{}
		p.pages[tabLog].Following = follow
		for i := range p.pages {
			p.pages[i].Cut = cut
		}
		p.log = taskLog{plain: p.log.plain}
	}
	if p.model == nil || !p.model.current(&w) || p.of != firstLayer(&w) {
		p.model = newDAGModel(&w)
	}
	p.run, p.id, p.of, p.found, p.made = e.Sel.Run, e.Sel.Task, firstLayer(&w), nil, [taskTabs]bool{}
	for i := range w.Layers {
		for k := range w.Layers[i].Tasks {
			if t := &w.Layers[i].Tasks[k]; t.ID == p.id && p.found == nil {
				p.found = t
			}
		}
	}
	p.openTab(!same, e)
	return p.found
}

// openTab goes to the error of a task that has failed, and else to the tab that the person
// chose, or to one in which there is something. What they look at stays while the task
// does not fail.
func (p *taskPanel) openTab(another bool, e *Env) {
	t := p.found
	failed := t != nil && t.Error != nil && (t.State == core.TaskError || t.State == core.TaskFailedSafe)
	if t == nil || !another && failed == p.onError {
		return
	}
	switch p.onError = failed; {
	case failed:
		p.tab = tabError
	case p.has(p.want, t, e):
		p.tab = p.want
	case p.has(tabResult, t, e):
		p.tab = tabResult
	default:
		p.tab = tabArgs
	}
}

// has reports whether a tab has something to read of a task, or will have.
func (p *taskPanel) has(tab taskTab, t *core.Task, e *Env) bool {
	switch tab {
	case tabResult:
		return len(t.Output) > 0 || !t.State.Settled()
	case tabLog:
		return !t.State.Settled() || p.pageOf(tabLog, t, e).Text() != ""
	case tabError:
		return t.Error != nil
	case tabArgs, tabRaw, taskTabs:
	}
	return true
}

// choose opens a tab for the person.
func (p *taskPanel) choose(tab taskTab) { p.tab, p.want = tab, tab }

// page is the text of the tab that is open, up to date.
func (p *taskPanel) page(t *core.Task, e *Env) *widget.Pager { return p.pageOf(p.tab, t, e) }

// pageOf is the text of a tab, up to date.
func (p *taskPanel) pageOf(tab taskTab, t *core.Task, e *Env) *widget.Pager {
	page := &p.pages[tab]
	if tab == tabLog {
		page.SetText(p.log.text(p.run, t.ID, e))
		return page
	}
	if p.made[tab] {
		return page
	}
	p.made[tab] = true
	page.SetLines(partLines(tab, t, e))
	return page
}

// textOf is the text of a tab without what is shown below it.
func (p *taskPanel) textOf(tab taskTab, t *core.Task, e *Env) string {
	switch tab {
	case tabArgs:
		return prettyJSON(t.Made())
	case tabResult:
		return prettyJSON(t.Output)
	case tabError:
		return errorText(t.Error)
	case tabRaw:
		return indented(t)
	case tabLog, taskTabs:
	}
	return p.pageOf(tab, t, e).Text()
}

// prettyJSON indents a value. One that is no JSON is shown as it came.
func prettyJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	b.Grow(len(raw) + len(raw)/4)
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// errorText is an error with its details.
func errorText(err *core.Error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s\n%s\n\n%s", err.Code, core.ShownAbort(err.Message), indented(err))
}

func (p *taskPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	switch act {
	case keys.NextTab:
		p.choose((p.tab + 1) % taskTabs)
		return nil, true
	case keys.PreviousTab:
		p.choose((p.tab + taskTabs - 1) % taskTabs)
		return nil, true
	case keys.RunResult:
		run, ok := e.State.Run(e.Sel.Run)
		return runResult(run, e), ok
	case keys.Abort, keys.Again:
		if run, ok := e.State.Run(e.Sel.Run); ok {
			return doOneRun(act, run, e), true
		}
		return nil, false
	case keys.Mark: // space: there is nothing to mark here
		act = keys.PageDown
	default:
	}
	t := p.task(e)
	if t == nil {
		return nil, false
	}
	page := p.page(t, e)
	switch act {
	case keys.Approve, keys.Deny:
		return p.decide(act, t, e), true
	case keys.FlowLink:
		return []Intent{FindFlowRuns{Run: p.run, Call: t.ID}}, true
	case keys.Filter:
		return []Intent{openOverlay{searchPrompt(page)}}, true
	case keys.Times:
		return p.switchTimes(e), true
	case keys.Follow:
		p.choose(tabLog)
		page = p.page(t, e)
	case keys.Wrap:
		cut := !page.Cut
		for i := range p.pages {
			p.pages[i].Cut = cut
		}
		return nil, true
	default:
	}
	if page.Do(act) {
		return nil, true
	}
	return p.copyOut(act, t, p.textOf(p.tab, t, e))
}

// decide opens the card of what the task, or its layer, waits for.
func (p *taskPanel) decide(act keys.Action, t *core.Task, e *Env) []Intent {
	i, ok := p.model.byID[t.ID]
	if !ok {
		return decideTask(act, "", false, e)
	}
	id, waits := p.model.approval(i, e)
	return decideTask(act, id, waits, e)
}

// copyOut copies, saves or views what is shown.
func (p *taskPanel) copyOut(act keys.Action, t *core.Task, text string) ([]Intent, bool) {
	name := "task-" + fileName(t.ID)
	switch act {
	case keys.CopyID:
		return []Intent{Copy{What: "the " + strings.ToLower(taskTabNames[p.tab]), Text: text}}, true
	case keys.CopyAll:
		return []Intent{Copy{What: "a task", Text: indented(t)}}, true
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml workflows show " + string(p.run)}}, true
	case keys.Edit:
		return []Intent{View{Name: name + "." + taskTabFiles[p.tab], Text: text}}, true
	case keys.Save:
		return []Intent{Save{Name: name + "." + taskTabFiles[p.tab], Text: text}}, true
	default:
		return nil, false
	}
}

// searchPrompt searches in a pager as it is typed.
func searchPrompt(page *widget.Pager) *prompt {
	before := page.Query()
	ask := newPrompt("/ search:", before)
	ask.changed = func(text string) error {
		page.Find(text)
		ask.hint = page.Searching()
		return nil
	}
	ask.cancelled = func() { page.Find(before) }
	return ask
}

func (p *taskPanel) click(x, y int, e *Env) []Intent {
	if y != 0 {
		return nil
	}
	for i, at := range p.tabX {
		if at > 0 && x >= at && x < at+len(taskTabNames[i])+2 {
			p.choose(taskTab(i))
		}
	}
	return nil
}

func (p *taskPanel) hints(e *Env) []keys.Action {
	if t := p.task(e); t != nil {
		if _, ok := p.waitsFor(t, e); ok {
			return append([]keys.Action{keys.Approve, keys.Deny}, p.reading()...)
		}
		if byFlow(t) {
			return append([]keys.Action{keys.FlowLink}, p.reading()...)
		}
	}
	return p.reading()
}

// byFlow reports whether a hook flow has refused a call.
func byFlow(t *core.Task) bool {
	return t.Error != nil && t.Error.Decided != nil && strings.HasPrefix(t.Error.Decided.Who, "flow:")
}

// reading are the keys that help to read.
func (p *taskPanel) reading() []keys.Action {
	acts := []keys.Action{keys.NextTab, keys.Down, keys.Filter, keys.Wrap, keys.Follow, keys.Edit, keys.Save, keys.CopyID}
	if p.tab == tabLog {
		acts = append(acts, keys.Times)
	}
	return append(acts, keys.RunResult)
}

func (p *taskPanel) draw(a paint.Area, e *Env, focus bool) {
	t := p.task(e)
	title := paint.Title{Left: "4 Task", Focus: focus}
	if t == nil {
		in := a.Frame(title)
		text := "No task is selected. 3 goes to the DAG, enter opens a task."
		if _, ok := e.State.Workflow(e.Sel.Run); !ok && e.Sel.Run != "" {
			text = "reading the layers" + e.Theme.Glyph.More
		}
		for i, line := range paint.Wrap(text, in.W) {
			in.Put(0, i, paint.Style{Role: paint.Muted}, line)
		}
		return
	}
	page := p.page(t, e)
	title.Right = p.tabsText(a.W)
	title.Left += "  L" + itoa(t.Layer+1) + " " + visibleName(t.ID)
	if i, ok := p.model.byID[t.ID]; ok && p.model.code && t.Tool != "" {
		title.Left += " " + paint.Clip(p.model.name(i), max(a.W-paint.Width(title.Left+title.Right)-8, 16), e.Theme.Glyph.More)
	}
	in := a.Frame(title)
	used := p.drawHead(in, t, e)
	body := in.Sub(0, used, in.W, in.H-used)
	if page.Text() == "" {
		body.Text(0, 0, body.W, paint.Style{Role: paint.Muted}, noText(p.tab, t))
		return
	}
	if found := page.Searching(); found != "" && body.H > 2 {
		body.Text(0, body.H-1, body.W, paint.Style{Role: paint.Accent}, found)
		body = body.Sub(0, 0, body.W, body.H-1)
	}
	page.Draw(body)
	p.drawFoot(a, page)
}

// tabsText are the tabs with the open one in brackets, or that one alone where
// there is no room, and notes where they are.
func (p *taskPanel) tabsText(w int) string {
	var b strings.Builder
	for i, name := range taskTabNames {
		p.tabX[i] = b.Len()
		if taskTab(i) == p.tab {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString(" " + name + " ")
		}
	}
	if b.Len()+16 > w {
		p.tabX = [taskTabs]int{}
		return fmt.Sprintf("[%s] %d/%d", taskTabNames[p.tab], p.tab+1, taskTabs)
	}
	for i := range p.tabX {
		p.tabX[i] += w - 2 - b.Len()
	}
	return b.String()
}

// drawFoot says where in the text the view is.
func (p *taskPanel) drawFoot(a paint.Area, page *widget.Pager) {
	text := page.Position()
	if p.tab == tabLog && page.Following {
		text = "follow  " + text
	}
	if page.Cut {
		text = "cut, w wraps  " + text
	}
	style := paint.Style{Role: paint.Muted}
	if n := paint.Width(text); n+6 <= a.W {
		a.Put(a.W-3-n-1, a.H-1, style, " "+text+" ")
	}
}

// noText says why a tab is empty.
func noText(tab taskTab, t *core.Task) string {
	switch {
	case tab == tabArgs && t.State == core.TaskRunning: // a call that only reads is journaled once it has answered
		return "its arguments are shown when it has ended"
	case tab == tabArgs && t.Predicted:
		return "its arguments are known when the script calls it"
	case tab == tabArgs:
		return "no arguments are known"
	case tab == tabResult && !t.State.Settled():
		return "no result yet"
	case tab == tabResult:
		return "it returned nothing"
	case tab == tabLog:
		return "nothing was logged since this terminal listens"
	}
	return "no error"
}
