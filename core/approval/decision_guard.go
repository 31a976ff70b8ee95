package approval

import (
	"github.com/casys-ai/pml/core"
)

// Permits refuses a decision that lacks what the guard of the store or the
// question itself wants. Stores ask it within the transaction that decides, so
// that what a process has read before does not matter. Errors: core.CodeAuth for
// an approval without the PIN, or with one that is not the PIN any more;
// core.CodeAwaitingHuman where people decide and nobody has shown to be one.
func Permits(g core.Guard, a core.Approval, d core.Decision) error {
	switch {
	case d.Approved && g.Pin != "" && d.Proved != g.Pin:
		return core.Errorf(core.CodeAuth, "an approval here needs the PIN, which is set in the store of the run; nothing was decided, a person types it at the prompt").
			WithRun(a.RunID).WithNext("pml", "continue", a.RunID.Short(), "--approve", "--pin")
	case a.Human && d.Presence == "", a.Human && d.Presence == core.PresencePin && g.Unproved:
		return AwaitingHuman(a.RunID)
	}
	return nil
}

// AwaitingHuman is the error for a decision that has to be a person's.
func AwaitingHuman(run core.ID) *core.Error {
	return core.Errorf(core.CodeAwaitingHuman, "the run %s waits for a person (approvals.decider is human): a decision is made on a terminal that shows the question, in the dialog of the host where approvals.trust_host is set, or with the PIN (pml config pin; without a terminal --pin-fd); nothing was decided",
		run.Short()).WithRun(run).WithNext("pml", "approvals", "ls")
}
