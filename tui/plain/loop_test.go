package plain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/plain"
)

// atLine has line 7 of a script make the calls of tools that are asked about.
func atLine(list []core.Approval) []core.Approval {
	for i := range list {
		if list[i].Type == core.ApproveTool {
			list[i].Place = core.Position{Line: 7, Column: 3}
		}
	}
	return list
}

// TestPlain_Loop: bounds are read out behind the question, and approved with a yes of their
// own; what is wrong, or anything else than yes, decides nothing.
func TestPlain_Loop(t *testing.T) {
	t.Parallel()
	altering(t, func(b *altered, _ *plain.Options) { b.approvals = atLine }, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		id := a.ID.Short()
		p.wants(p.types("loop "+id+" max 0; nosuch any"), "not possible: \"max 0\": max is a number of calls", "not possible: \"nosuch any\"")
		p.after(time.Second)
		said := p.types("loop max 7; until 10m")
		if strings.Count(said, "end of approval") != 1 {
			t.Errorf("the question is not read out once:\n%s", said)
		}
		p.wants(said, "end of approval "+id, "at most 7 calls of "+a.Tool+" from line 7:3, in this run until ",
			"digest      sha256:", "1 call waits now", "pml approve "+id+" --shape --max 7 --until ", "confirm: type yes to approve up to 7 calls within these bounds")
		b.nothing(t, "loop")
		p.wants(p.types("no"), "not approved")
		b.nothing(t, "no")
		p.wants(p.types("approve"), "end of approval "+id, "type yes to approve, anything")
		p.types("no")
		p.types("loop max 7")
		p.wants(p.types("yes"), "done: approved")
		if b.shape == nil || b.shape.Max != 7 || b.shape.Place.Line != 7 || b.shape.Until != nil {
			t.Errorf("the bounds are %+v", b.shape)
		}
	})
}

// TestPlain_LoopChanged: bounds go with the question that they were for, also between them
// and the yes.
func TestPlain_LoopChanged(t *testing.T) {
	t.Parallel()
	altering(t, func(b *altered, _ *plain.Options) { b.approvals = atLine }, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		p.types("show " + a.ID.Short())
		p.after(time.Second)
		p.wants(p.types("loop"), "confirm: type yes to approve up to 2 calls")
		b.change(func(b *altered) {
			b.approvals = func(list []core.Approval) []core.Approval {
				list = atLine(list)
				for i := range list {
					if list[i].ID == a.ID {
						list[i].Digest = "sha256:other"
					}
				}
				return list
			}
		})
		p.after(time.Minute)
		said := p.types("yes")
		if strings.Contains(said, "done:") || b.shape != nil {
			t.Errorf("approved: %s", said)
		}
		p.after(time.Second)
		p.wants(p.types("loop "+p.of(core.ApproveKeys).ID.Short()), "bounds are for the calls that one line of a script makes")
	})
}
