package store

import "github.com/casys-ai/pml/core"

// CheckStep refuses a step that no state of a store could accept: core.CodeInternal, or
// core.CodeInvalidArguments for an id that could be none. Stores call it before they
// prepare the step.
func CheckStep(step Step) error {
	ids := []core.ID{step.Run.ID}
	for _, a := range step.Open {
		ids = append(ids, a.ID)
		if a.State != "" && a.State != core.ApprovalOpen {
			return core.Errorf(core.CodeInternal, "the new approval %s is %s instead of open", a.ID.Short(), a.State).WithRun(step.Run.ID)
		}
	}
	if step.Past != nil {
		if !step.Create || !step.Run.State.Final() || step.Run.Imported == nil {
			return core.Errorf(core.CodeInternal, "the run %s is no copy of one that has ended", step.Run.ID.Short()).WithRun(step.Run.ID)
		}
		for _, a := range step.Past.Approvals {
			ids = append(ids, a.ID)
			if a.State == core.ApprovalOpen {
				return core.Errorf(core.CodeInternal, "the approval %s of a copy is open", a.ID.Short()).WithRun(step.Run.ID)
			}
		}
	}
	for _, id := range ids {
		if !ValidID(id) {
			return core.Errorf(core.CodeInvalidArguments, "%q cannot be an id: letters, digits and dashes, at most 64", id)
		}
	}
	for i, r := range step.Records {
		if r.Seq != step.Records[0].Seq+int64(i) {
			return core.Errorf(core.CodeInternal, "the records of the run %s do not follow one another", step.Run.ID.Short()).WithRun(step.Run.ID)
		}
	}
	return nil
}

// ValidID reports whether a text can be an id. Ids are keys, and names of folders, so
// nothing else may become one.
func ValidID(id core.ID) bool {
	for _, c := range []byte(id) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return id != "" && len(id) <= 64
}
