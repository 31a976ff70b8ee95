package screen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

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
