package screen

import (
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// taskLog is what was logged of one task, and by the code of its run, one line
// for each event. It looks at each event once.
type taskLog struct {
	plain bool  // without times
	next  int64 // the first event that it has not looked at
	lines string
}

// switchTimes shows the lines of the log with times or without. Other tabs have no times, and
// say where they are.
func (p *taskPanel) switchTimes(e *Env) []Intent {
	if p.tab != tabLog {
		return []Intent{say{Note, "times are in the tab Log, " + keyOf(e, keys.Follow) + " goes there"}}
	}
	p.log = taskLog{plain: !p.log.plain}
	return nil
}

// maxLog bounds the text that is kept of a log.
const maxLog = 4 << 20

// text is the log as of now.
func (l *taskLog) text(run core.ID, task string, e *Env) string {
	end := e.State.EventsSeen()
	if l.next > end { // of another state
		l.next, l.lines = 0, ""
	}
	var b strings.Builder
	for n := max(l.next, e.State.FirstEvent()); n < end; n++ {
		ev, ok := e.State.EventAt(n)
		if !ok || ev.RunID != run || ev.TaskID != task && (ev.TaskID != "" || ev.Type != core.EventTaskLog) {
			continue
		}
		l.write(&b, ev, e)
	}
	l.next = end
	if b.Len() == 0 {
		return l.lines
	}
	if l.lines != "" {
		l.lines += "\n"
	}
	if l.lines += strings.TrimSuffix(b.String(), "\n"); len(l.lines) > maxLog {
		_, l.lines, _ = strings.Cut(l.lines[len(l.lines)-maxLog/2:], "\n")
	}
	return l.lines
}

// write writes the line of an event. Newlines in it are shown as escapes, so
// that nothing logged can look like a line of its own.
func (l *taskLog) write(b *strings.Builder, ev core.Event, e *Env) {
	if !l.plain {
		b.WriteString(ev.At.In(e.Now.Location()).Format("15:04:05.000 "))
	}
	text := ev.OwnMessage()
	if ev.Error != nil {
		text = strings.TrimSpace(text + " " + string(ev.Error.Code) + " " + core.ShownAbort(ev.Error.Message))
	}
	if ev.Type != core.EventTaskLog {
		text = strings.TrimSpace(string(ev.Type) + " " + text + " " + tookText(ev.DurationMS))
	}
	b.WriteString(widget.OneLine(text))
	b.WriteByte('\n')
}

// partLines are the lines of a tab, and below them what belongs to it: below arguments
// what came of them, below a result or an error the arguments. Arguments that were changed
// are those that were sent, and then those that were proposed.
func partLines(tab taskTab, t *core.Task, e *Env) (out []widget.Line) {
	add := func(name, text, none string) {
		if name != "" {
			if len(out) > 0 {
				out = append(out, widget.Line{})
			}
			rule := strings.Repeat(e.Theme.Glyph.Thin.Top, 2)
			out = append(out, widget.Line{Text: rule + " " + name + " " + rule, Style: paint.Style{Role: paint.Muted}})
		}
		if text == "" {
			out = append(out, widget.Line{Text: none, Style: paint.Style{Role: paint.Muted}})
			return
		}
		for line := range strings.SplitSeq(text, "\n") {
			out = append(out, widget.Line{Text: line})
		}
	}
	args := func(name string) {
		if len(t.Sent) > 0 {
			add("what was sent", prettyJSON(t.Sent), "")
			name = "what was proposed"
		}
		add(name, prettyJSON(t.Arguments), noText(tabArgs, t))
	}
	switch tab {
	case tabArgs:
		if args(""); t.Error != nil {
			add("error", errorText(t.Error), "")
		} else {
			add("result", prettyJSON(t.Output), noText(tabResult, t))
		}
	case tabResult:
		add("", prettyJSON(t.Output), noText(tabResult, t))
		args("args")
	case tabError:
		add("", errorText(t.Error), noText(tabError, t))
		args("args")
	case tabRaw:
		add("", indented(t), "")
	case tabLog, taskTabs:
	}
	return out
}

// runResult shows what a run has returned, or says why there is nothing.
func runResult(run core.Run, e *Env) []Intent {
	result := run.Result
	if w, ok := e.State.Workflow(run.ID); ok && len(result) == 0 {
		result = w.Result
	}
	switch {
	case len(result) > 0:
		return []Intent{showText{"result: " + fullName(run.ID, e), resultText(result)}}
	case run.Error != nil:
		return []Intent{showText{"error: " + fullName(run.ID, e), errorText(run.Error)}}
	case run.State.Final():
		return []Intent{say{Note, "the run has returned nothing"}}
	}
	return []Intent{say{Note, "the run has no result yet"}}
}

// resultText is a result for people: a text as it is, an object key by key with the lines of
// its texts and then as JSON, anything else as JSON.
func resultText(result json.RawMessage) string {
	var text string
	if json.Unmarshal(result, &text) == nil && text != "" {
		return text
	}
	fields, ok := asked.Fields(result)
	if !ok || len(fields) == 0 {
		return prettyJSON(result)
	}
	var b strings.Builder
	addArguments(&b, "", result)
	return b.String() + "\nas JSON\n" + prettyJSON(result)
}

// hintWord implements wording.
func (p *taskPanel) hintWord(act keys.Action, _ *Env) string {
	if act == keys.CopyID {
		return "copy " + strings.ToLower(taskTabNames[p.tab])
	}
	return ""
}
