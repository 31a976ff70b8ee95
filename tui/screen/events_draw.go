package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// The columns of the list of events.
const (
	evTime = iota
	evSeq
	evType
	evRun
	evWhat
)

func (p *eventsPanel) columns(w int) []widget.Column {
	timeWidth := 8
	if p.exact(w) {
		timeWidth = 12
	}
	return widget.PlaceColumns([]widget.Column{
		evTime: {Title: "TIME", Width: timeWidth},
		evSeq:  {Title: "SEQ", Width: 7, Drop: 2},
		evType: {Title: "TYPE", Width: 18},
		evRun:  {Title: "RUN", Width: 16, Drop: 1},
		evWhat: {Title: "WHAT", Width: 24, Grow: true},
	}, 2, w-2)
}

func (p *eventsPanel) draw(a paint.Area, e *Env, focus bool) {
	numbers := p.numbers(e)
	in := a.Frame(p.title(focus, e))
	rows := mergeGaps(numbers, e.State.Gaps())
	if rows.len() == 0 {
		p.drawEmpty(in, e)
		return
	}
	// Titles are worth a row where there are several.
	if p.firstDraw = 0; in.H > 9 {
		p.firstDraw = 1
	}
	cols := p.columns(in.W)
	if p.firstDraw > 0 {
		widget.DrawTitles(in, 0, cols)
	}
	height := in.H - p.firstDraw
	at := p.at(numbers)
	cursor := rows.len() - 1
	if p.leaving {
		cursor = rows.row(at)
	}
	p.scroll.Show(cursor, rows.len(), height)
	for y := 0; y < height && p.scroll.Top+y < rows.len(); y++ {
		event, gap := rows.at(p.scroll.Top + y)
		if gap >= 0 {
			in.Rule(p.firstDraw+y, gapText(rows.gaps[gap], e))
			continue
		}
		if ev, ok := e.State.EventAt(numbers[event]); ok {
			p.drawEvent(in, p.firstDraw+y, cols, &ev, e)
		}
		if event == at {
			widget.DrawCursor(in, p.firstDraw+y, focus)
		}
	}
}

func gapText(g state.Gap, e *Env) string {
	half := "reconnected"
	if g.Side == core.SideServer {
		half = "server reconnected"
	}
	return fmt.Sprintf("%s %s after %s, resumed from seq %s", half, clockText(g.At, e), ageText(g.Away), grouped(g.Seq))
}

func (p *eventsPanel) title(focus bool, e *Env) paint.Title {
	seen := e.State.EventsSeen()
	right := fmt.Sprintf("following  %s seen", grouped(seen))
	switch {
	case p.paused:
		right = fmt.Sprintf("paused at %s, %d new %s", grouped(p.pausedSeq(e)), p.held(e), e.Theme.Glyph.ArrowDown)
	case p.leaving:
		right = fmt.Sprintf("not following  %s seen", grouped(seen))
	}
	if stale := staleLists(e); stale != "" {
		right = stale + "  " + right
	}
	foot := typeChoices[p.types].label
	if p.words != "" {
		foot = "/ " + core.Visible(p.words, 80, false) + "  " + foot
	}
	if p.only != "" {
		foot = "only " + p.only.Short() + "  " + foot
	}
	return paint.Title{Left: "5 Events", Right: right, Foot: foot, Focus: focus}
}

// pausedSeq is the number that the last event before the pause has in its half.
func (p *eventsPanel) pausedSeq(e *Env) int64 {
	ev, _ := e.State.EventAt(p.pausedAt - 1)
	return ev.Seq
}

func (p *eventsPanel) drawEmpty(in paint.Area, e *Env) {
	text := "No events yet. They show up here as runs go on."
	switch {
	case !p.filter.Empty():
		text = fmt.Sprintf("0 of %d match %s. esc clears the filter.", e.State.EventsSeen()-e.State.FirstEvent(), core.Visible(p.filter.String(), 200, false))
	case !e.State.Loaded:
		text = "Reading the events."
	case e.State.Links.Client.State == state.LinkLost:
		text = e.Theme.Glyph.Failed + " cannot read the events: " + core.Visible(e.State.Links.Client.Err, 300, false)
	}
	for i, line := range paint.Wrap(text, in.W) {
		in.Put(0, i, paint.Style{Role: paint.Muted}, line)
	}
}

func (p *eventsPanel) drawEvent(in paint.Area, y int, cols []widget.Column, ev *core.Event, e *Env) {
	muted := paint.Style{Role: paint.Muted}
	cols[evTime].Text(in, y, muted, p.timeText(ev.At, in.W, e))
	seq := itoa(int(ev.Seq))
	if ev.Side == core.SideServer {
		seq = "s" + seq
	}
	cols[evSeq].Text(in, y, muted, seq)
	cols[evType].Text(in, y, eventStyle(ev.Type), core.Visible(string(ev.Type), 40, false))
	cols[evRun].Text(in, y, paint.Style{}, e.State.Name(ev.RunID))
	cols[evWhat].Text(in, y, paint.Style{}, eventWhat(ev, p.calls.of(ev.RunID, ev.TaskID, e)))
}

// exact reports whether times have milliseconds: where a person wants them, or
// there is room.
func (p *eventsPanel) exact(w int) bool {
	p.roomy = w >= 130
	return p.times == exactTime || p.times == clockTime && p.roomy
}

func (p *eventsPanel) timeText(t time.Time, w int, e *Env) string {
	switch {
	case p.times == agoTime:
		return ageText(e.Now.Sub(t)) + " ago"
	case p.exact(w):
		return t.In(e.Now.Location()).Format("15:04:05.000")
	}
	return clockText(t, e)
}

// eventStyle is how the type of an event looks.
func eventStyle(t core.EventType) paint.Style {
	switch t {
	case core.EventTaskError, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
		return paint.Style{Role: paint.Danger}
	case core.EventTaskWarning, core.EventApprovalRequested, core.EventDecisionRequired:
		return paint.Style{Role: paint.Warn}
	case core.EventWorkflowComplete, core.EventTaskComplete, core.EventApprovalResolved:
		return paint.Style{Role: paint.OK}
	case core.EventWorkflowStart, core.EventLayerStart, core.EventTaskStart, core.EventTaskLog, core.EventCheckpoint,
		core.EventReplanned, core.EventAgentIteration, core.EventAgentText:
	}
	return paint.Style{}
}

// eventWhat is what an event says, on one line; call is what its call is named, if that
// says more than the tool.
func eventWhat(ev *core.Event, call string) string {
	const most = 200 // runes of a part: no window is wider
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, core.Visible(s, most, false))
		}
	}
	if ev.Layer != nil {
		parts = append(parts, "L"+itoa(*ev.Layer+1))
	}
	add(ev.TaskID)
	if server, _, ok := core.SplitTool(ev.Tool); call != "" && ok {
		add(call + " (" + server + ")")
	} else {
		add(ev.Tool)
	}
	if ev.DurationMS > 0 {
		parts = append(parts, durationText(ev.DurationMS))
	}
	add(ev.OwnMessage())
	if ev.Error != nil {
		add(core.ShownAbort(ev.Error.Message))
	}
	return strings.Join(parts, "  ")
}

// durationText is how long something took: 812 ms, 12.0 s, 3m40s.
func durationText(ms float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return ageText(time.Duration(ms * float64(time.Millisecond)))
}
