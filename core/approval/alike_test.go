package approval_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// TestKinOf: what is decided as one never reaches across runs, tools or risks, unless it is
// the same question about a provider, and some types are always decided one by one.
func TestKinOf(t *testing.T) {
	t.Parallel()
	a := core.Approval{ID: "a", RunID: "r", Type: core.ApproveTool, Tool: "fs:write", Risk: core.RiskMedium, State: core.ApprovalOpen}
	of, ok := approval.KinOf(a)
	if !ok {
		t.Fatal("calls of one tool can be decided as one")
	}
	same := a
	same.ID, same.Digest = "b", "sha256:b"
	if got, ok := approval.KinOf(same); !ok || got != of {
		t.Errorf("%+v", got)
	}
	for name, change := range map[string]func(*core.Approval){
		"Run":  func(b *core.Approval) { b.RunID = "s" },
		"Tool": func(b *core.Approval) { b.Tool = "fs:delete" },
		"Risk": func(b *core.Approval) { b.Risk = core.RiskHigh },
		"Type": func(b *core.Approval) { b.Type = core.ApproveDependency },
		"Once": func(b *core.Approval) { b.Once = true },
	} {
		b := a
		change(&b)
		if got, _ := approval.KinOf(b); got == of {
			t.Errorf("%s: another, and yet %+v", name, got)
		}
	}
	p := a
	p.Tool, p.Digest, p.Workspace, p.Owner = "pml:model/example.org", "sha256:a", "/w", "ann"
	of, _ = approval.KinOf(p)
	for name, tt := range map[string]struct {
		change func(*core.Approval)
		same   bool
	}{
		"Run":       {func(b *core.Approval) { b.RunID = "s" }, true},
		"URL":       {func(b *core.Approval) { b.Digest = "sha256:b" }, false},
		"Workspace": {func(b *core.Approval) { b.Workspace = "/v" }, false},
		"Owner":     {func(b *core.Approval) { b.Owner = "bob" }, false},
		"Type":      {func(b *core.Approval) { b.Type = core.ApproveKeys }, false},
		"NoDigest":  {func(b *core.Approval) { b.Digest = "" }, false},
	} {
		b := p
		tt.change(&b)
		if got, _ := approval.KinOf(b); (got == of) != tt.same {
			t.Errorf("a provider, %s: %+v", name, got)
		}
	}
	for _, typ := range []core.ApprovalType{core.ApproveIntegrity, core.ApproveInDoubt} {
		b := a
		b.Type = typ
		if _, ok := approval.KinOf(b); ok {
			t.Errorf("%s is decided one by one", typ)
		}
	}
}

// TestAlike: the first takes along what can be decided with it, wherever that stands.
func TestAlike(t *testing.T) {
	t.Parallel()
	a := core.Approval{ID: "a", RunID: "r", Type: core.ApproveTool, Tool: "fs:write", Risk: core.RiskMedium, State: core.ApprovalOpen}
	high, b := a, a
	high.ID, high.Risk, b.ID = "high", core.RiskHigh, "b"
	if got := approval.Alike([]core.Approval{a, high, b}); len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
		t.Errorf("%+v", got)
	}
	a.Type, b.Type = core.ApproveIntegrity, core.ApproveIntegrity
	if got := approval.Alike([]core.Approval{a, b}); len(got) != 1 {
		t.Errorf("decided one by one: %+v", got)
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]string{
		"write_file docs/*.md (fs)":  {"write_file docs/one.md (fs)", "write_file docs/once.md (fs)"},
		"write_file */one.md (fs)":   {"write_file docs/one.md (fs)", "write_file src/one.md (fs)"},
		"write_file docs/one.* (fs)": {"write_file docs/one.md (fs)", "write_file docs/one.txt (fs)"},
		"query (db)":                 {"query (db)", "query (db)"},
		"delete src/*/index.ts (fs)": {"delete src/a/index.ts (fs)", "delete src/bb/index.ts (fs)"},
		"*":                          {"get", "get it"},
	} {
		if got := approval.Pattern(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
