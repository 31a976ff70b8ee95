package screen

import (
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

func (s *Screen) mode() mode { return modeOf(s.w, s.h) }

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
func (s *Screen) layout() []place {
	y, h := head, s.h-head-foot
	switch m := s.mode(); {
	case m == tiny || m == mini:
		return nil
	case m == single || s.zoomed || s.focus == PanelWorkflows && s.empty:
		return []place{{s.focus, 0, y, s.w, h}}
	case m == columns && s.w >= sideBySide:
		left := leftWidth(s.w)
		return []place{{s.left, 0, y, left, h}, {s.right, left, y, s.w - left, h}}
	case m == columns:
		upper := h * 3 / 5
		return []place{{s.left, 0, y, s.w, upper}, {s.right, 0, y + upper, s.w, h - upper}}
	}
	below := h * 22 / 100
	top := h - below
	upper := top * 19 / 32
	left := leftWidth(s.w)
	return []place{
		{PanelWorkflows, 0, y, left, upper}, {PanelApprovals, 0, y + upper, left, top - upper},
		{PanelDAG, left, y, s.w - left, upper}, {PanelTask, left, y + upper, s.w - left, top - upper},
		{s.bottom, 0, y + top, s.w, below},
	}
}

// drawPanels draws the panels that are in view.
func (s *Screen) drawPanels(window paint.Area, e *Env) {
	s.empty = first(e)
	e.preview = s.previews()
	s.places = s.layout()
	for _, p := range s.places {
		area := window.Sub(p.x, p.y, p.w, p.h)
		if e.preview && p.id == s.previewAt() && s.preview.draw(area, e) {
			continue
		}
		s.panels[p.id].draw(area, e, p.id == s.focus)
	}
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
