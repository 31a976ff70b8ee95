package screen

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// drawMini draws one approval of several where there is no room for more.
func drawMini(a paint.Area, e *Env, ap core.Approval, of int) {
	in := a.Frame(paint.Title{Left: "pml  " + plural(of, "approval"), Focus: true})
	in.Text(0, 0, in.W, paint.Style{}, typeName(ap.Type)+"  "+subjectOf(ap))
}
