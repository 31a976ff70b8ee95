package approval

import "github.com/casys-ai/pml/core"

// AskedAlike reports whether a rule that allows the tool of one question, for the person of
// this machine, is about another question of its workspace as well.
func AskedAlike(decided, other core.Approval) bool {
	return other.ID != decided.ID && other.Type == decided.Type && other.Tool == decided.Tool && other.Owner == "" && decided.Owner == ""
}

// RuleLeaves says why a rule that is written with a yes to one question leaves another one
// open that is asked alike, in a word or a few; it is empty where the gates alone decide. The
// run of the yes goes on with all that the rule lets through, so that whoever writes it has to
// see that before; in other runs what is of high risk is approved one by one.
func RuleLeaves(decided, other core.Approval) string {
	switch {
	case other.Once:
		return "asked each time"
	case other.RunID == decided.RunID:
		return ""
	case High(other, false):
		return "high"
	case other.Human && !decided.Human:
		return "wants a person"
	}
	return ""
}
