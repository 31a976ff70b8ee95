//go:build unix

package approvals_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
)

// The page of a run is verified by the log that its decisions are in, on a store as it
// is; another machine's log does not know them.
func TestRunPage(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `await mcp.rec.danger({x: "<b>one</b>"}); return (await mcp.rec.danger({x: "two"})).done`)
	r = m.JSON(8, "continue", string(r.WorkflowID), "--approve")
	if r = m.JSON(0, "continue", string(r.WorkflowID), "--approve"); r.Status != api.StatusComplete {
		t.Fatalf("status %s", r.Status)
	}
	file := filepath.Join(m.Dir, "run.html")
	m.OK("workflows", "export", string(r.WorkflowID), file, "--html")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pmltest.Wants(t, string(text), "approved", "rec:danger", "&lt;b&gt;one&lt;/b&gt;", "via</dt><dd>cli", "nobody</dd>", "sha256:")
	if o := m.Exit(0, "audit", "verify", "--export", file); !strings.HasPrefix(o.Stdout, "ok: run "+r.WorkflowID.Short()+", 2 lines") {
		t.Error(o.Stdout)
	}
	m.Write("changed.html", strings.Replace(string(text), `"tool":"rec:danger"`, `"tool":"rec:dangers"`, 1))
	if o := m.Exit(1, "audit", "verify", "--export", "changed.html"); !strings.HasPrefix(o.Stdout, "not verified: ") {
		t.Error(o.Stdout)
	}
	another := pmltest.NewMachine(t, pmltest.AllowRec())
	if o := another.Exit(1, "audit", "verify", "--export", file); !strings.Contains(o.Stdout, "no such line") {
		t.Error(o.Stdout)
	}
}
