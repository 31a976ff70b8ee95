package temporal

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// past is what the copy of a run of another store has beside a step.
type past struct {
	Approvals   []*question
	Checkpoints []core.Checkpoint
}

// preparePast is the past as a workflow takes it. A copy comes as a whole, which may be much more than a
// step: so the contexts of its approvals lie in the blobs.
func (s *Store) preparePast(run core.Run, in *store.Past) (*past, error) {
	out := &past{Checkpoints: in.Checkpoints}
	for _, a := range in.Approvals {
		q := &question{Approval: a}
		q.Approval.Context, q.RunID, q.Owner = nil, run.ID, run.Owner
		if len(a.Context) > 0 {
			var err error
			if q.Context.Blob, err = s.opts.Blobs.Put(string(run.ID), a.Context); err != nil {
				return nil, err
			}
		}
		out.Approvals = append(out.Approvals, q)
	}
	return out, nil
}

// mustBeNew refuses a copy that has an approval of another run, as far as the index knows: it
// would be decided about where it is not asked.
func (s *Store) mustBeNew(ctx context.Context, in *store.Step) error {
	approvals := in.Past.Approvals
	return each(len(approvals), func(i int) error {
		id := approvals[i].ID
		var of []core.ID
		if run, met := s.recent.asking(id); met {
			of = []core.ID{run}
		} else {
			var err error
			if of, err = s.asking(ctx, id); err != nil {
				return err
			}
		}
		for _, run := range of {
			if run != in.Run.ID {
				return core.Errorf(core.CodeInternal, "the approval %s exists already", id.Short()).WithRun(in.Run.ID)
			}
		}
		return nil
	})
}

// beginning is what the workflow of a run starts with. That of a copy has its journal and its events in the
// blobs from the start: Temporal takes 2 MB. If pml dies before the start, they belong to nobody.
func (s *Store) beginning(ctx context.Context, first *step, st *state) (begin, error) {
	if first.past == nil {
		return begin{Step: first}, nil
	}
	st.Approvals = append(st.Approvals, first.past.Approvals...)
	marks := first.past.Checkpoints
	st.Marks = append(st.Marks, marks[max(0, len(marks)-keptCheckpoints):]...)
	for len(st.Records)+len(st.Events) > 0 {
		body := st.firstPage()
		blob, err := s.sealPage(ctx, st.Run.ID, body)
		if err != nil {
			return begin{}, err
		}
		st.sealed(body, blob)
	}
	return begin{State: st}, nil
}
