package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// A run is a page for people, which the audit log verifies until either is changed.
func TestWorkflowsExport_HTML(t *testing.T) {
	t.Parallel()
	row, err := approval.Chain(core.AuditRow{}, core.AuditRow{At: at, RunID: runA, Tool: "fs:delete", Outcome: core.ApprovalDenied, By: core.Actor{Who: "ann", Via: core.ViaCLI}})
	if err != nil {
		t.Fatal(err)
	}
	row.Side = core.SideClient
	f := &fake{audit: []core.AuditRow{row}, report: &api.AuditReport{OK: true, Rows: 1}}
	f.workflow = core.Workflow{Run: core.Run{ID: runA, Side: core.SideClient, Kind: core.KindCode, Name: "clean up", State: core.RunComplete, CreatedAt: at}}
	file := filepath.Join(t.TempDir(), "run.html")
	(&shell{fake: f}).run("workflows", "export", "7f3a91c2", file, "--html").want(t, 0).has(t, "out", "exported 7f3a91c2 (complete)")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info, err)
	}
	s := (&shell{fake: f}).run("workflows", "export", "7f3a91c2", "--html").want(t, 0).has(t, "out", "<h1>clean up</h1>", "ann via cli", "denied")
	(&shell{fake: f}).run("audit", "verify", "--export", file).want(t, 0).has(t, "out", "ok: run 7f3a91c2, 1 line as in the audit log")

	changed := filepath.Join(t.TempDir(), "changed.html")
	if err := os.WriteFile(changed, []byte(strings.ReplaceAll(s.out, "denied", "approved")), 0o600); err != nil {
		t.Fatal(err)
	}
	s = (&shell{fake: f}).run("audit", "verify", "--export", changed, "--json").want(t, 1)
	s.has(t, "out", `"ok": false`, "it shows something else than its data say")
	f.report = &api.AuditReport{Bad: 1, Reason: "the row was changed"}
	(&shell{fake: f}).run("audit", "verify", "--export", file).want(t, 1).has(t, "out", "does not hold")
	(&shell{fake: f}).run("audit", "verify", "--export", file+"x").want(t, 2)
}
