package screen

import (
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// drawMini draws one of several approvals where there is no room for panels,
// and which keys decide it. They open its card.
func drawMini(a paint.Area, e *Env, ap core.Approval, of int) {
	left, style := timeLeft(ap, e)
	in := a.Frame(paint.Title{Left: fmt.Sprintf("pml  %d waiting", of), Focus: true})
	a.Put(a.W-4-paint.Width(left), 0, style, " "+left+" ")
	if in.H < 6 {
		return
	}
	muted := paint.Style{Role: paint.Muted}
	x := in.Put(0, 0, paint.Style{}.Bold(), typeName(ap.Type)) + 2
	x += in.Put(x, 0, riskStyle(ap.Risk), riskWord(ap.Risk)) + 2
	in.Text(x, 0, in.W-x, paint.Style{}, subjectOf(ap))
	in.Text(0, 1, in.W, muted, fullName(ap.RunID, e))
	in.Text(0, 2, in.W, paint.Style{}, whatText(ap))
	if why := linkLost(ap.Side, e); why != "" {
		in.Text(0, in.H-3, in.W, paint.Style{Role: paint.Danger}, why)
	}
	in.Text(0, in.H-2, in.W, muted, hintText(e, keys.Deny, keys.Down, keys.Open))
	text := hintText(e, keys.Abort, keys.Approve)
	if decide.High(ap, false) {
		text = "approve needs 60x15 (HIGH)"
	}
	in.Text(0, in.H-1, in.W, muted, text)
}
