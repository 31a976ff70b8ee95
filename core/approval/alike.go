package approval

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// Alike are the approvals of a list that can be decided as one with a given one: they
// wait as well, are of the same run and type, about the same tool, and of the same risk.
// A decision on them never reaches across runs or risks. What is decided one by one is
// alike with itself only.
func Alike(list []core.Approval, a core.Approval, now time.Time) []core.Approval {
	if TypeOf(a.Type).Single {
		return []core.Approval{a}
	}
	return slices.DeleteFunc(slices.Clone(list), func(o core.Approval) bool {
		return o.RunID != a.RunID || o.Type != a.Type || o.Tool != a.Tool || o.Risk != a.Risk || o.Once != a.Once || o.StateAt(now) != core.ApprovalOpen
	})
}
