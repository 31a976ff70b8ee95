package store

import (
	"slices"

	"github.com/casys-ai/pml/core"
)

// use marks an approval as acted upon. What it permits by its bounds (core.Shape) has to be
// approved with these, before they end, and not more calls than they are for: else
// core.CodeAlreadyDecided, the same in every store. a is changed in place.
func (s *Step) use(u Use, a *core.Approval) error {
	a.Used = true
	if u.CallID == "" || slices.Contains(a.CallIDs, u.CallID) {
		return nil
	}
	shape := a.Shape()
	refused := func(why string) error {
		return core.Errorf(core.CodeAlreadyDecided, "the approval %s does not permit the call %s: %s", a.ID.Short(), core.Visible(u.CallID, 60, false), why).WithRun(s.Run.ID)
	}
	switch {
	case shape == nil && u.Shape != "":
		return refused("it was not given for several calls")
	case shape == nil:
	case len(a.CallIDs) >= shape.Max:
		return refused("it has permitted as many calls as its bounds are for")
	case u.Shape != "":
		digest, err := shape.Digest()
		if err != nil {
			return err
		}
		if digest != u.Shape {
			return refused("it has other bounds")
		}
		if shape.Until != nil && !s.Run.UpdatedAt.Before(*shape.Until) {
			return refused("its time is over")
		}
	}
	a.CallIDs = append(slices.Clone(a.CallIDs), u.CallID)
	return nil
}
