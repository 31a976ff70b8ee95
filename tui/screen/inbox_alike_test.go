package screen

import (
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestInbox_Alike: = opens all of the same run, tool and risk as one list, and nothing
// else; one that has no like says so.
func TestInbox_Alike(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 100, 30)
	p.press("g", "=")
	p.sees("nothing else of its run waits")
	a := p.approval(apTool)
	b, c := a, a
	b.ID, b.Digest, b.Risk = "b7000001-0000-4000-8000-000000000000", "sha256:b", a.Risk
	c.ID, c.Digest, c.Risk = "b7000002-0000-4000-8000-000000000000", "sha256:c", core.RiskHigh
	p.st.PutApprovals(b, c)
	p.s.Changed(p.now)
	p.press("g", "j", "=")
	list, ok := p.s.overlay[0].(*bulk)
	if !ok || len(list.shown) != 2 {
		t.Fatalf("%+v\n%s", p.s.overlay, p.frame())
	}
	for _, s := range list.shown {
		if s.Risk != a.Risk || s.RunID != a.RunID || s.Tool != a.Tool {
			t.Errorf("%+v", s)
		}
	}
}
