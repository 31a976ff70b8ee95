package screen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// eventsPanel shows events, the newest at the bottom. While it follows, the
// cursor stays on the newest; while it is paused, the list does not grow, and
// nothing is lost: it goes on where it stopped.
type eventsPanel struct {
	list   state.EventList
	filter state.Filter // made of words, types and only
	words  string       // what the person filters by
	types  int          // of typeChoices
	only   core.ID      // the run that alone is shown

	cursor    int64 // number of an event, as State.EventAt takes it
	leaving   bool  // the cursor does not follow
	paused    bool
	pausedAt  int64 // the number of the first event that is held back
	times     timeStyle
	roomy     bool // there was room for milliseconds, as drawn last
	scroll    widget.Scroll
	firstDraw int // y of the first row, as drawn last
	calls     callNames
}

// callNames are the calls of scripts by what they call, where the layers of their runs are
// known: their ids are numbers.
type callNames map[core.ID]*dagModel

// of is the name of a call, empty where it is not known or its id is one.
func (c *callNames) of(run core.ID, call string, e *Env) string {
	w, ok := e.State.Workflow(run)
	if !ok || w.Kind != core.KindCode {
		return ""
	}
	m := (*c)[run]
	if m == nil || !m.current(&w) {
		if *c == nil || len(*c) >= maxCallRuns {
			*c = callNames{}
		}
		m = newDAGModel(&w)
		(*c)[run] = m
	}
	i, ok := m.byID[call]
	if !ok || m.tasks[i].Tool == "" {
		return ""
	}
	return m.name(i)
}

// maxCallRuns is of how many runs the calls are kept by name.
const maxCallRuns = 20

func newEvents() *eventsPanel { return &eventsPanel{} }

// timeStyle is how the time of an event is shown.
type timeStyle int

const (
	clockTime timeStyle = iota
	exactTime
	agoTime
	timeStyles
)

// typeChoice is a choice of event types that one key goes through.
type typeChoice struct{ label, words string }

// typeChoices are the choices of types.
var typeChoices = []typeChoice{
	{"all types", ""},
	{"no logs", "type:!task_log"},
	{"problems", "type:task_error,task_warning,workflow_failed,workflow_abort,workflow_expired"},
	{"decisions", "type:approval_requested,approval_resolved,decision_required"},
	{"runs", "type:workflow_start,workflow_complete,workflow_failed,workflow_abort,workflow_expired,replanned"},
}

// numbers are the events of the list, oldest first.
func (p *eventsPanel) numbers(e *Env) []int64 {
	all := p.list.Numbers(e.State, p.filter, e.Now)
	if p.paused {
		n, _ := slices.BinarySearch(all, p.pausedAt)
		all = all[:n]
	}
	return all
}

// held is how many events came while the panel was paused.
func (p *eventsPanel) held(e *Env) int {
	all := p.list.Numbers(e.State, p.filter, e.Now)
	n, _ := slices.BinarySearch(all, p.pausedAt)
	return len(all) - n
}

// at is the index of the cursor in the list: the newest while it follows, and
// the next one where its event is gone. It is -1 for an empty list.
func (p *eventsPanel) at(numbers []int64) int {
	if !p.leaving {
		return len(numbers) - 1
	}
	i, _ := slices.BinarySearch(numbers, p.cursor)
	return min(i, len(numbers)-1)
}

// current is the event under the cursor.
func (p *eventsPanel) current(e *Env) (core.Event, bool) {
	numbers := p.numbers(e)
	i := p.at(numbers)
	if i < 0 {
		return core.Event{}, false
	}
	return e.State.EventAt(numbers[i])
}

func (p *eventsPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	numbers := p.numbers(e)
	if to, ok := p.scroll.Move(act, p.at(numbers), len(numbers)); ok {
		p.moveTo(to, numbers)
		return nil, true
	}
	switch act {
	case keys.Pause:
		p.paused, p.pausedAt = !p.paused, e.State.EventsSeen()
	case keys.Follow:
		p.leaving = !p.leaving
		p.hold(numbers)
	case keys.Open:
		if ev, ok := p.current(e); ok {
			return []Intent{showText{fmt.Sprintf("event %d", ev.Seq), indented(ev)}}, true
		}
	case keys.Times:
		if p.times++; p.times == exactTime && p.roomy { // they were exact before
			p.times++
		}
		p.times %= timeStyles
	case keys.Types:
		p.types = (p.types + 1) % len(typeChoices)
		p.refilter()
	case keys.OnlyThis:
		p.toggleOnly(e)
	case keys.Filter:
		return []Intent{openOverlay{p.filterPrompt(e)}}, true
	case keys.Back:
		return nil, p.clear()
	default:
		intents := p.copyOut(act, e)
		return intents, intents != nil
	}
	return nil, true
}

// moveTo puts the cursor on a row. The last row follows.
func (p *eventsPanel) moveTo(row int, numbers []int64) {
	p.leaving = row < len(numbers)-1
	if row >= 0 && row < len(numbers) {
		p.cursor = numbers[row]
	}
}

// hold keeps the cursor on the newest event while that is no longer followed.
func (p *eventsPanel) hold(numbers []int64) {
	if n := len(numbers); p.leaving && n > 0 {
		p.cursor = numbers[n-1]
	}
}

func (p *eventsPanel) toggleOnly(e *Env) {
	if p.only != "" {
		p.only = ""
	} else if ev, ok := p.current(e); ok {
		p.only = ev.RunID
	}
	p.refilter()
}

// refilter makes one filter of all that narrows the list; the words of a person
// are known to be right.
func (p *eventsPanel) refilter() {
	words := []string{p.words, typeChoices[p.types].words}
	if p.only != "" {
		words = append(words, "run:"+string(p.only))
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if f, err := state.ParseFilter(strings.Join(words, " "), state.EventKeys...); err == nil {
		p.filter = f
	}
}

// clear takes back what narrows the list.
func (p *eventsPanel) clear() bool {
	if p.filter.Empty() {
		return false
	}
	p.words, p.types, p.only = "", 0, ""
	p.refilter()
	return true
}

func (p *eventsPanel) filterPrompt(e *Env) overlay {
	before := p.words
	ask := newPrompt("/ filter:", before)
	st := e.State
	tell := func() {
		ask.hint = fmt.Sprintf("%d of %d match   words, or type:task_error  tool:fs:*  run:7f3a  task:c1  age<1h  !word", len(p.numbers(e)), st.EventsSeen()-st.FirstEvent())
	}
	tell()
	ask.changed = func(text string) error {
		if _, err := state.ParseFilter(text, state.EventKeys...); err != nil {
			return err
		}
		p.words = text
		p.refilter()
		tell()
		return nil
	}
	ask.cancelled = func() {
		p.words = before
		p.refilter()
	}
	return ask
}

// copyOut copies or saves events, nil for another action.
func (p *eventsPanel) copyOut(act keys.Action, e *Env) []Intent {
	if act == keys.Save {
		name := "events-" + e.Now.Format("20060102-150405") + ".jsonl"
		return []Intent{Save{Name: name, Text: p.jsonLines(e)}}
	}
	ev, ok := p.current(e)
	if !ok {
		return nil
	}
	switch act {
	case keys.CopyID:
		return []Intent{Copy{What: "an id", Text: string(ev.RunID)}}
	case keys.CopyAll:
		return []Intent{Copy{What: "an event", Text: indented(ev)}}
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml events --run " + string(ev.RunID)}}
	case keys.Edit:
		return []Intent{View{Name: fmt.Sprintf("event-%d.json", ev.Seq), Text: indented(ev)}}
	default:
		return nil
	}
}

// jsonLines are all events of the list, one a line.
func (p *eventsPanel) jsonLines(e *Env) string {
	var b strings.Builder
	for _, n := range p.numbers(e) {
		if ev, ok := e.State.EventAt(n); ok {
			if line, err := json.Marshal(ev); err == nil {
				b.Write(line)
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

func (p *eventsPanel) click(x, y int, e *Env) []Intent {
	numbers := p.numbers(e)
	rows := mergeGaps(numbers, e.State.Gaps())
	if r := p.scroll.Top + y - 1 - p.firstDraw; y > p.firstDraw && r >= 0 && r < rows.len() && y-1-p.firstDraw < p.scroll.Height {
		if i, gap := rows.at(r); gap < 0 {
			p.moveTo(i, numbers)
		}
	}
	return nil
}

func (p *eventsPanel) hints(e *Env) []keys.Action {
	return []keys.Action{keys.Pause, keys.Open, keys.Filter, keys.Types, keys.OnlyThis, keys.Follow, keys.Times, keys.Save, keys.CopyAll, keys.Palette}
}

// gapRows are rows of events with the gaps between them.
type gapRows struct {
	events int
	gaps   []state.Gap
	before []int // the index of the event that a gap stands before, by gap
}

func mergeGaps(numbers []int64, gaps []state.Gap) gapRows {
	rows := gapRows{events: len(numbers), gaps: gaps, before: make([]int, len(gaps))}
	for i, g := range gaps {
		rows.before[i], _ = slices.BinarySearch(numbers, g.Before)
	}
	return rows
}

func (g gapRows) len() int { return g.events + len(g.gaps) }

// row is the row of an event.
func (g gapRows) row(event int) int {
	n := event
	for _, b := range g.before {
		if b <= event {
			n++
		}
	}
	return n
}

// at is what stands in a row: an event, or a gap where that is not -1.
func (g gapRows) at(row int) (event, gap int) {
	for i, b := range g.before {
		if b+i == row {
			return -1, i
		}
		if b+i > row {
			return row - i, -1
		}
	}
	return row - len(g.before), -1
}
