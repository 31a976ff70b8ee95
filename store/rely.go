package store

import "github.com/casys-ai/pml/core"

// Reliance is that a call of a run is permitted by a permission that was given in another run
// of its tree (core.Approval.ForTree).
type Reliance struct {
	Approval core.ID
	CallID   string
	Tool     string
	By       core.DecidedBy
}

// Rely refuses a step that lets calls on by permissions that do not count for them, the same
// in every store: core.CodeAlreadyDecided. find reads an approval within the transaction,
// nil where there is none.
func Rely(s *Step, find func(core.ID) (*core.Approval, error)) error {
	for _, r := range s.Relies {
		a, err := find(r.Approval)
		if err != nil {
			return err
		}
		if a == nil || !a.ForTree(s.Run, r.Tool) {
			return core.Errorf(core.CodeAlreadyDecided, "the permission %s does not count for %s in the run %s", r.Approval.Short(), core.Visible(r.Tool, 120, false), s.Run.ID.Short()).WithRun(s.Run.ID)
		}
	}
	return nil
}
