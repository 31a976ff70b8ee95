package plain

import (
	"context"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
)

// loop approves the calls of the loop of the current approval within bounds, which are
// read out behind it. Changes of them are separated by semicolons.
func (d *dialogue) loop(ctx context.Context, changes string) {
	a := d.card.Approval()
	calls := approval.Loop(a, d.st.Undecided(a.RunID, d.now()), d.now())
	s, ok := approval.Propose(calls)
	if !ok {
		d.say("not possible: bounds are for the calls that one line of a script makes, where they are not asked about each time.")
		return
	}
	s, wrong := approval.EditShape(s, calls, strings.Split(changes, ";"), d.now())
	for _, w := range wrong {
		d.say("not possible: %s.", w)
	}
	if len(wrong) > 0 || !d.possible(decide.Deny) || !d.show(ctx) {
		return
	}
	d.card.Bind(&s)
	defer func() {
		if d.card.Shape() == &s {
			d.card.Bind(nil)
		}
	}()
	for _, l := range evidence.BoundsText(s, calls, d.now().Location()) {
		d.say("  %s", l)
	}
	c := decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()}
	d.say("end of the bounds. The same as a command: %s", decide.Line(a, c))
	d.card.Read()
	d.decide(ctx, c)
}

// what is what a yes does, for the question before it.
func (d *dialogue) what() string {
	if s := d.card.Shape(); s != nil {
		return fmt.Sprintf("approve up to %d calls within these bounds", s.Max)
	}
	return "approve"
}
