package enginetest

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// LoopOf is the shape that is proposed for the loop of one question, for so many calls.
func LoopOf(t testing.TB, ap core.Approval, most int) *core.Shape {
	t.Helper()
	s, ok := approval.Propose(approval.OfLoop([]core.Approval{ap}))
	if !ok {
		t.Fatalf("no shape is proposed for %+v", ap)
	}
	s.Max = most
	return &s
}

// rows checks that each call that bounds have permitted has one row, and none of them more calls
// than they are for.
func (k *crash) rows(p *Process, id core.ID) {
	k.Helper()
	if k.c.shape == 0 {
		return
	}
	log, ok := p.Store.(interface {
		Audit(ctx context.Context, f store.AuditFilter) ([]core.AuditRow, error)
	})
	if !ok { // it has no audit log across runs
		return
	}
	list, err := log.Audit(k.Context(), store.AuditFilter{})
	if err != nil {
		k.Fatal(err)
	}
	calls, of := map[string]int{}, map[core.ID]int{}
	for _, r := range list {
		if r.Shape != "" && r.RunID == id {
			calls[r.CallID]++
			of[r.ApprovalID]++
		}
	}
	for call, n := range calls {
		if n != 1 {
			k.Errorf("the call %s has %d rows", call, n)
		}
	}
	for ap, n := range of {
		if n > k.c.shape {
			k.Errorf("the approval %s has permitted %d calls, and is for %d", ap, n, k.c.shape)
		}
	}
	if len(calls) != 5 {
		k.Errorf("%d calls of the run %s have rows, want 5: %v", len(calls), id, calls)
	}
	open, err := p.Store.Approvals(k.Context(), store.ApprovalFilter{RunID: id})
	if err != nil {
		k.Fatal(err)
	}
	for _, ap := range open {
		if s := ap.Shape(); s != nil && len(ap.CallIDs) != of[ap.ID] {
			k.Errorf("the approval %s has permitted %v, and the audit log has %d", ap.ID, ap.CallIDs, of[ap.ID])
		}
	}
}
