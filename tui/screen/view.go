package screen

import (
	"time"

	"github.com/casys-ai/pml/tui/paint"
)

// View draws the window: exactly as many lines of exactly as many columns as it
// has.
func (s *Screen) View(now time.Time) string { return s.draw(now).String() }

// Plain is View without any escape sequence.
func (s *Screen) Plain(now time.Time) string { return s.draw(now).Plain() }

func (s *Screen) draw(now time.Time) *paint.Canvas {
	if s.canvas == nil {
		s.canvas = paint.NewCanvas(s.w, s.h, s.o.Theme)
	}
	s.canvas.Clear()
	e := s.env(now)
	s.settle(e)
	window := s.canvas.Area()
	s.places, s.tabs = nil, nil
	switch s.mode() {
	case tiny:
		s.drawTiny(window, e)
		return s.canvas
	case mini:
		s.drawCard(window, e)
	case single, columns, dashboard:
		s.drawHeader(window, e)
		s.drawPanels(window, e)
		s.drawFooter(window, e)
	}
	for _, o := range s.overlay {
		o.draw(window, e)
	}
	return s.canvas
}
