package evidence

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/widget"
)

// sentHead stands above the arguments of a call that waits for a decision.
const sentHead = "what will be sent" + headRest

// headRest is how the heads of arguments end.
const headRest = "; values of keys stand as «NAME»" + jsonKey

// doubtHead stands above the arguments of a call that may have run, until somebody has chosen what
// comes of it.
const doubtHead = "what may have been sent" + headRest

// Chosen has the head of a call in doubt say what comes of its arguments by an answer that was chosen
// and not given yet.
func Chosen(lines []widget.Line, answer *core.Answer) []widget.Line {
	if answer == nil {
		return lines
	}
	head, ok := map[core.InDoubtAnswer]string{core.RunAgain: "what will be sent again", core.SkipResult: "what is skipped, and not sent again"}[answer.InDoubt]
	for i := range lines {
		if ok && lines[i].Label+lines[i].Text == doubtHead {
			lines[i].Text = head + headRest
		}
	}
	return lines
}

// jsonKey and openKey name keys of a card: where there is none, they are left out.
const (
	jsonKey = " (J: as JSON)"
	openKey = " (o opens it)"
)

// headOf is what stands above the arguments of a call: once it was decided, or asked again,
// nothing will be sent any more. That it was sent a yes does not say: the run can end before.
func headOf(a core.Approval) string {
	if a.RenewedBy != "" {
		return "what was asked about" + headRest
	}
	switch a.State {
	case core.ApprovalApproved:
		return "what was approved" + headRest
	case core.ApprovalDenied:
		return "what was not sent" + headRest
	case core.ApprovalSuperseded:
		return "what was asked about" + headRest
	case core.ApprovalOpen, core.ApprovalExpired:
	}
	return sentHead
}

// sent adds the arguments of a call under what became of them, and before those that were
// asked about what a person has put in their place.
func (p *proof) sent(a core.Approval) {
	edited := a.IfEdited()
	if edited == nil {
		p.arguments(headOf(a))
		return
	}
	head := "what was approved"
	if d := a.DecidedBy; d != nil {
		head += ", edited by " + d.Origin()
	}
	p.head(head + headRest)
	p.laidOut("", asked.Arguments(edited.Answer.Arguments, nil))
	p.blank()
	p.arguments("what was proposed, and not sent")
}
