//go:build unix

package pmltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Integrity is what a person is shown of something that changed.
type Integrity struct {
	Tool    string
	OldHash string `json:"old_hash"`
	NewHash string `json:"new_hash"`
	Changed []string
}

// WantChanged wants a result that waits for one integrity approval, with whole
// hashes and the parts of what changed, and returns it.
func WantChanged(t testing.TB, r api.Result, tool string, parts ...string) Integrity {
	t.Helper()
	if r.ApprovalType != core.ApproveIntegrity || len(r.Pending) != 1 || r.Pending[0].Risk != core.RiskHigh {
		t.Fatalf("waits for %s (%d), want one for integrity: %s", r.ApprovalType, len(r.Pending), r.Context)
	}
	var c Integrity
	if err := json.Unmarshal(r.Context, &c); err != nil {
		t.Fatal(err)
	}
	whole := func(h string) bool { return strings.HasPrefix(h, "sha256:") && len(h) == len("sha256:")+64 }
	if c.Tool != tool || !whole(c.OldHash) || !whole(c.NewHash) || c.OldHash == c.NewHash {
		t.Errorf("asked about %q, %s → %s; want %q and two whole hashes", c.Tool, c.OldHash, c.NewHash, tool)
	}
	all := strings.Join(append([]string{r.Pending[0].Description}, c.Changed...), "\n")
	for _, p := range parts {
		if !strings.Contains(all, p) {
			t.Errorf("what changed does not say %q:\n%s", p, all)
		}
	}
	return c
}

// MachinePIN is the PIN of tests that set one.
const MachinePIN = "tr0ub4dor"

// AsksOnce is code with a side effect before and after what is asked about.
const AsksOnce = `const a = await mcp.rec.inc({key: "a"}); return (await mcp.rec.danger({x: "n" + a.count})).done`
