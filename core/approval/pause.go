package approval

import "github.com/casys-ai/pml/core"

// IsPause reports whether an approval is only the pause between two layers that
// per_layer_validation asks for: to continue the run passes it. Where the hil
// option asks about the layer as well, it is a decision.
func IsPause(o core.RunOptions, a core.Approval) bool {
	if a.Type != core.ApproveLayer || !o.PerLayer {
		return false
	}
	switch o.HIL {
	case core.HILNever, "":
		return true
	case core.HILSideEffects: // asks about layers with a call that may change something
		return a.Risk == core.RiskLow
	case core.HILAlways:
		return false
	}
	return false
}
