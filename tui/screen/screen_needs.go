package screen

import (
	"slices"

	"github.com/casys-ai/pml/core"
)

// evident is an overlay that shows what a decision binds: it needs the layers of
// runs for that.
type evident interface{ runs() []core.ID }

// deciding reports whether something is open on which a decision can be taken.
func (s *Screen) deciding() bool {
	return slices.ContainsFunc(s.overlay, func(o overlay) bool {
		_, ok := o.(evident)
		return ok
	})
}

// Wants are the runs whose layers and tasks should be loaded, most wanted first:
// those of what is being decided, the selected one, that of the layer that is
// selected among the approvals (before it while they have the focus), and those
// in view.
func (s *Screen) Wants() []core.ID {
	var out []core.ID
	want := func(ids ...core.ID) {
		for _, id := range ids {
			if id != "" && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	for _, o := range slices.Backward(s.overlay) {
		if o, ok := o.(evident); ok {
			want(o.runs()...)
		}
	}
	var layer core.ID
	if a, ok := s.o.State.Approval(s.sel.Approval); ok && a.Type == core.ApproveLayer {
		layer = a.RunID
	}
	if s.acting() == PanelApprovals {
		want(layer)
	}
	want(s.sel.Run, layer)
	if w, ok := s.panels[PanelWorkflows].(interface{ inView() []core.ID }); ok {
		want(w.inView()...)
	}
	return out
}
