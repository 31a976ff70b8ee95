package screen

import (
	"fmt"

	"github.com/casys-ai/pml/tui/paint"
)

func (s *Screen) drawTiny(a paint.Area, e *Env) {
	a.Text(0, 0, a.W, paint.Style{}, fmt.Sprintf("pml: %d waiting (terminal %dx%d, need 40x10)", len(e.State.Waiting(e.Now)), s.w, s.h))
}

func (s *Screen) drawCard(a paint.Area, e *Env) {}

func (s *Screen) drawHeader(a paint.Area, e *Env) {}

func (s *Screen) drawFooter(a paint.Area, e *Env) {}
