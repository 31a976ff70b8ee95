package screen

import (
	"time"

	"github.com/casys-ai/pml/tui/keys"
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
	area := s.canvas.Area()
	s.panels[s.focus].draw(area, e, true)
	for _, o := range s.overlay {
		o.draw(area, e)
	}
	return s.canvas
}

// Key handles a key press.
func (s *Screen) Key(k keys.Key, now time.Time) []Intent {
	e := s.env(now)
	if n := len(s.overlay); n > 0 {
		intents, closed := s.overlay[n-1].key(k, e)
		if closed {
			s.overlay = s.overlay[:n-1]
		}
		return intents
	}
	return nil
}

// Button is what a mouse did.
type Button int

// The buttons.
const (
	Click Button = iota
	WheelUp
	WheelDown
)

// Mouse handles a click or a turn of the wheel at a cell of the window.
func (s *Screen) Mouse(x, y int, b Button, now time.Time) []Intent { return nil }
