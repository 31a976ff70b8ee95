package approval_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// TestAlike: a group never reaches across runs, tools or risks, nor over what waits no
// more.
func TestAlike(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := now.Add(-time.Second)
	a := core.Approval{ID: "a", RunID: "r", Type: core.ApproveTool, Tool: "fs:write", Risk: core.RiskMedium, State: core.ApprovalOpen}
	other := func(f func(*core.Approval)) core.Approval { b := a; b.ID = "b"; f(&b); return b }
	for name, b := range map[string]core.Approval{
		"Run":     other(func(b *core.Approval) { b.RunID = "s" }),
		"Tool":    other(func(b *core.Approval) { b.Tool = "fs:delete" }),
		"Risk":    other(func(b *core.Approval) { b.Risk = core.RiskHigh }),
		"Type":    other(func(b *core.Approval) { b.Type = core.ApproveInDoubt }),
		"Once":    other(func(b *core.Approval) { b.Once = true }),
		"Decided": other(func(b *core.Approval) { b.State = core.ApprovalApproved }),
		"Expired": other(func(b *core.Approval) { b.ExpiresAt = &past }),
	} {
		if got := approval.Alike([]core.Approval{a, b}, a, now); len(got) != 1 || got[0].ID != "a" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	same := other(func(*core.Approval) {})
	if got := approval.Alike([]core.Approval{a, same}, a, now); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	a.Type, same.Type = core.ApproveIntegrity, core.ApproveIntegrity
	if got := approval.Alike([]core.Approval{a, same}, a, now); len(got) != 1 {
		t.Errorf("integrity is decided one by one: %+v", got)
	}
}
