package screen

import (
	"slices"

	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
)

// move selects another button. It presses nothing.
func (c *card) move(by int) {
	if n := len(c.buttons); n > 0 {
		c.focus, c.moved = (c.focus+by+n)%n, true
	}
}

// toApprove selects the button that approves, as the card was opened to, where the person has
// selected none.
func toApprove(c *card) {
	act := keys.Approve
	if c.eager && c.then == decide.Remember {
		act = keys.ApproveRemember
	}
	at := slices.IndexFunc(c.buttons, func(b button) bool { return b.act == act })
	if at >= 0 && !c.moved {
		c.focus = at
	}
}
