package engine

import "github.com/casys-ai/pml/core"

// The plan of a DAG says nothing that its tasks do not: it is computed when it is
// needed, and not kept a second time with each run.

// kept is a program as the store gets it.
func kept(p core.Program) core.Program {
	if p.Kind == core.KindDAG && len(p.Tasks) > 0 {
		p.Plan = nil
	}
	return p
}

// Planned is a program that was read from a store, with its plan. The error is
// that of a DAG that cannot be built any more, a *core.Error.
func Planned(p core.Program) (core.Program, error) {
	if p.Plan != nil || p.Kind != core.KindDAG || len(p.Tasks) == 0 {
		return p, nil
	}
	g, err := Graph(p)
	if err != nil {
		return p, err
	}
	p.Plan = g.Plan()
	return p, nil
}
