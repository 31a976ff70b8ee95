package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/casys-ai/pml/cli/layout"
)

// Screen is what progress is written to.
type Screen struct {
	W io.Writer
	// Width is its width in columns, 0 when it is not known.
	Width func() int
	Now   func() time.Time
	// Redraws says that a line can be redrawn in place.
	Redraws bool
}

// late writes what a phase still has to say.
func (s Screen) late(p *phase) {
	if text := p.late(s.Now()); text != "" {
		fmt.Fprintf(s.W, "%s\n", text)
	}
}

// redrawn is the one line of a terminal that is written over and over. It uses
// no escape sequence: a shorter line is filled up with spaces.
type redrawn struct{ shown int } // columns

func (r *redrawn) draw(s Screen, line string) {
	if w := s.Width(); w > 1 {
		line = layout.Cut(line, w-1)
	}
	w := layout.Width(line)
	io.WriteString(s.W, "\r"+line+strings.Repeat(" ", max(0, r.shown-w)))
	r.shown = w
}

func (r *redrawn) erase(s Screen) {
	if r.shown > 0 {
		io.WriteString(s.W, "\r"+strings.Repeat(" ", r.shown)+"\r")
		r.shown = 0
	}
}
