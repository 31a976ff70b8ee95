package approval

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// Loop is OfLoop of a question that stands among others: those that wait at now, the oldest first
// behind it.
func Loop(a core.Approval, among []core.Approval, now time.Time) []core.Approval {
	others := slices.DeleteFunc(slices.Clone(among), func(o core.Approval) bool { return o.ID == a.ID || o.StateAt(now) != core.ApprovalOpen })
	slices.SortStableFunc(others, func(x, y core.Approval) int { return x.CreatedAt.Compare(y.CreatedAt) })
	return OfLoop(append([]core.Approval{a}, others...))
}
