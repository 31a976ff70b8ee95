package screen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// mode is how much of the window there is.
type mode int

// The modes, from the smallest window to the largest.
const (
	tiny      mode = iota // one line
	mini                  // the next approval alone
	single                // one panel
	columns               // a list and a detail
	dashboard             // everything
)

// panes is how the window is divided: its size, and which panels it shows.
type panes struct {
	w, h   int
	focus  PanelID
	left   PanelID // the list that two columns show
	right  PanelID // the detail that two columns show
	bottom PanelID // what the dashboard shows below
	zoomed bool
	empty  bool // there was nothing yet, as drawn last
}

func (p *panes) mode() mode { return modeOf(p.w, p.h) }

func modeOf(w, h int) mode {
	switch {
	case w >= 140 && h >= 40:
		return dashboard
	case w >= 100 && h >= 30:
		return columns
	case w >= 60 && h >= 15:
		return single
	case w >= 40 && h >= 10:
		return mini
	}
	return tiny
}

// place is where a panel is in the window.
type place struct {
	id         PanelID
	x, y, w, h int
}

// tab is where a panel's tab is in the window.
type tab struct {
	id      PanelID
	x, y, w int
}

// head and foot are the lines above and below the panels.
const (
	head = 2
	foot = 2
)

// leftWidth is how wide the lists of the dashboard are: the list is what a person
// reads by row, and has the larger part.
func leftWidth(w int) int { return w * 54 / 100 }

// sideBySide is from which width two columns are as wide as a window of one panel
// each; below it the detail lies under the list.
const sideBySide = 160

// layout says where the panels are. It returns nothing in the modes that show
// no panel.
func (p *panes) layout() []place {
	y, h := head, p.h-head-foot
	switch m := p.mode(); {
	case m == tiny || m == mini:
		return nil
	case m == single || p.zoomed || p.focus == PanelFlows || p.focus == PanelWorkflows && p.empty,
		m == columns && p.w < sideBySide && ownDetail(p.focus):
		return []place{{p.focus, 0, y, p.w, h}}
	case m == columns && p.w >= sideBySide:
		left := leftWidth(p.w)
		return []place{{p.left, 0, y, left, h}, {p.right, left, y, p.w - left, h}}
	case m == columns:
		upper := h * 3 / 5
		return []place{{p.left, 0, y, p.w, upper}, {p.right, 0, y + upper, p.w, h - upper}}
	}
	below := h * 22 / 100
	top := h - below
	upper := top * 19 / 32
	left := leftWidth(p.w)
	return []place{
		{PanelWorkflows, 0, y, left, upper}, {PanelApprovals, 0, y + upper, left, top - upper},
		{PanelDAG, left, y, p.w - left, upper}, {PanelTask, left, y + upper, p.w - left, top - upper},
		{p.bottom, 0, y + top, p.w, below},
	}
}

// ownDetail reports whether a panel shows the detail of what it lists itself: half a
// window has no room for that.
func ownDetail(id PanelID) bool { return id == PanelServers || id == PanelHosts }

// listAndDetail divides a panel between what it lists and the detail of what is selected,
// which takes up to a number of rows below the list, or stands beside it. Where there is
// room for neither, the detail has no rows.
func listAndDetail(in paint.Area, rows int) (list, detail paint.Area) {
	switch left := leftWidth(in.W); {
	case in.H >= 12:
		below := min(in.H/2, rows)
		return in.Sub(0, 0, in.W, in.H-below), in.Sub(0, in.H-below, in.W, below)
	case in.W >= 120:
		return in.Sub(0, 0, left-2, in.H), in.Sub(left, 0, in.W-left, in.H)
	}
	return in, paint.Area{}
}

// show gives a panel the focus, and its place where panels lie behind each other.
func (p *panes) show(id PanelID) {
	p.focus = id
	switch id {
	case PanelWorkflows, PanelApprovals:
		p.left = id
	case PanelServers, PanelHosts:
		if p.bottom = id; p.w >= sideBySide {
			p.right = id
		}
	case PanelEvents, PanelAudit:
		p.bottom, p.right = id, id
	case PanelDAG, PanelTask:
		p.right = id
	case PanelFlows, panels: // the flows fill the window
	}
}

// acting is the panel that gets the actions: in card mode that of approvals.
func (p *panes) acting() PanelID {
	if p.mode() == mini {
		return PanelApprovals
	}
	return p.focus
}

// previews reports whether there is room beside the inbox for what it selects.
func (p *panes) previews() bool {
	return p.focus == PanelApprovals && !p.zoomed && (p.mode() == columns || p.mode() == dashboard)
}

// previewAt is the panel in whose place the preview stands.
func (p *panes) previewAt() PanelID {
	if p.mode() == columns {
		return p.right
	}
	return PanelDAG
}

// drawPanels draws the panels that are in view.
func (s *Screen) drawPanels(window paint.Area, e *Env) {
	s.panes.empty = first(e)
	e.preview = s.panes.previews()
	s.places = s.panes.layout()
	for _, p := range s.places {
		area := window.Sub(p.x, p.y, p.w, p.h)
		if e.preview && p.id == s.panes.previewAt() && s.preview.draw(area, e, s.alike(), &s.panels[PanelApprovals].(*inboxPanel).rows) {
			continue
		}
		s.panels[p.id].draw(area, e, p.id == s.panes.focus)
	}
}

// alike is how many approvals the row of the selected one stands for, 0 for itself.
func (s *Screen) alike() int {
	return len(s.panels[PanelApprovals].(*inboxPanel).rows.groups.of[s.sel.Approval])
}

// popup is a part of the window in its middle, and all of it where the window is
// small.
func popup(window paint.Area, w, h int) paint.Area {
	if window.W <= 77 && window.H <= 20 {
		return window
	}
	w, h = min(w, window.W), min(h, window.H)
	return window.Sub((window.W-w)/2, (window.H-h)/3, w, h)
}

// tabNames are the panels as their tabs call them.
var tabNames = [panels]string{"Runs", "Approve", "DAG", "Task", "Events", "Audit", "Servers", "Hosts", "Flows"}

// drawTabs is the first line where panels lie behind each other.
func (s *Screen) drawTabs(a paint.Area, lost bool, e *Env) {
	glyph, style := e.Theme.Glyph.Live, paint.Style{Role: paint.OK}
	if lost {
		glyph, style = e.Theme.Glyph.Stale, paint.Style{Role: paint.Danger}
	}
	help := hintText(e, keys.Help)
	tabs, close, gap := tabTexts(a.W-10-paint.Width(help), s.panes.focus, e), 0, 1
	if named := closeTabs(a.W-4, s.panes.focus, e); !allNamed(tabs) && named != nil {
		tabs, close = named, 1
		if closeWidth(named)+len(" pml * ") > a.W {
			gap = 0
		}
		if asks := asksWaiting(e); asks != "" && !strings.Contains(named[PanelApprovals], asks) {
			if wider := closeTabs(a.W-3, s.panes.focus, e); wider != nil { // the line below says when something is lost
				tabs, glyph, gap = wider, "", 0
			}
		}
	}
	x := 2*gap + a.Put(gap, 0, paint.Style{Role: paint.Accent}.Bold(), "pml")
	x += gap + a.Put(x, 0, style, glyph)
	for i, text := range tabs {
		if PanelID(i) != s.panes.focus {
			a.Text(x+close, 0, a.W-x-close, paint.Style{Role: paint.Muted}, text[close:len(text)-close])
		}
		s.tabs = append(s.tabs, tab{PanelID(i), x, 0, paint.Width(text)})
		x += paint.Width(text) - close
	}
	at := s.tabs[s.panes.focus].x
	a.Text(at, 0, a.W-at, paint.Style{Role: paint.Accent}.Bold(), tabs[s.panes.focus])
	if w := paint.Width(help); x+w+2 <= a.W {
		a.Put(a.W-1-w, 0, paint.Style{Role: paint.Muted}, help)
	}
}

// allNamed reports whether every tab has its name.
func allNamed(tabs []string) bool {
	for i, text := range tabs {
		if !strings.Contains(text, tabNames[i]) {
			return false
		}
	}
	return true
}

// closeTabs are the tabs of a window that has no room for more than their names: one
// column lies between two of them. The numbers of what runs and waits, which the lines
// below have as well, come along where they fit in room. It is nil where the names do not.
func closeTabs(room int, focus PanelID, e *Env) []string {
	counts := [panels]string{PanelWorkflows: runsActive(e), PanelApprovals: asksWaiting(e)}
	out := make([]string, panels)
	for i := range out {
		out[i] = " " + strconv.Itoa(i+1) + " " + tabNames[i] + " "
		if PanelID(i) == focus {
			out[i] = "[" + out[i][1:len(out[i])-1] + "]"
		}
	}
	w := closeWidth(out)
	if w > room {
		return nil
	}
	for _, i := range []PanelID{PanelApprovals, PanelWorkflows} {
		if n := paint.Width(counts[i]); n > 0 && w+n <= room {
			end := len(out[i]) - 1
			out[i], w = out[i][:end]+counts[i]+out[i][end:], w+n
		}
	}
	return out
}

// closeWidth is how wide tabs are that share the column between them.
func closeWidth(tabs []string) int {
	w := 1
	for _, text := range tabs {
		w += paint.Width(text) - 1
	}
	return w
}

// runsActive is how many runs run or wait, as a tab says it; empty for none.
func runsActive(e *Env) string {
	if c := countRuns(e); c.running+c.waiting > 0 {
		return fmt.Sprintf(" %d", c.running+c.waiting)
	}
	return ""
}

// asksWaiting is how many approvals wait, as a tab says it; empty for none.
func asksWaiting(e *Env) string {
	if n := len(e.State.Waiting(e.Now)); n > 0 {
		return fmt.Sprintf(" %d!", n)
	}
	return ""
}

// tabTexts are the tabs, each as wide without the focus as with it. The one with the
// focus has its name, the others as far as there is room, the first panels first.
func tabTexts(room int, focus PanelID, e *Env) []string {
	out := make([]string, panels)
	room -= 3*len(out) + 1 + len(tabNames[focus]) + len(" 99") + len(" 99!")
	for i := range out {
		text := strconv.Itoa(i + 1)
		switch name := " " + tabNames[i]; {
		case PanelID(i) == focus:
			text += name
		case len(name) <= room:
			text, room = text+name, room-len(name)
		default:
			room = 0
		}
		switch PanelID(i) {
		case PanelWorkflows:
			text += runsActive(e)
		case PanelApprovals:
			text += asksWaiting(e)
		case PanelDAG, PanelTask, PanelEvents, PanelAudit, PanelServers, PanelHosts, PanelFlows, panels:
		}
		if out[i] = " " + text + " "; PanelID(i) == focus {
			out[i] = "[" + text + "]"
		}
	}
	return out
}
