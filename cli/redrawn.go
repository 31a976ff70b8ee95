package cli

import (
	"io"
	"strings"
)

// redrawn is the one line of a terminal that is written over and over. It uses
// no escape sequence: a shorter line is filled up with spaces.
type redrawn struct{ shown int } // columns

func (r *redrawn) draw(a *app, line string) {
	if w := a.Width(); w > 1 {
		line = cut(line, w-1)
	}
	w := width(line)
	io.WriteString(a.Stderr, "\r"+line+strings.Repeat(" ", max(0, r.shown-w)))
	r.shown = w
}

func (r *redrawn) erase(a *app) {
	if r.shown > 0 {
		io.WriteString(a.Stderr, "\r"+strings.Repeat(" ", r.shown)+"\r")
		r.shown = 0
	}
}
