package screen

import (
	"slices"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// TestKeystrokes: how many keys it takes from the start to a decision about the one
// approval that waits, where its card fits on the screen: medium 3, high 7, deny 3.
func TestKeystrokes(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {100, 30}, {160, 45}} {
		for _, tt := range []struct {
			what    string
			typ     core.ApprovalType
			keys    []string
			want    int
			approve bool
		}{
			{"medium", core.ApproveTool, []string{"2", "a", "a"}, 3, true},
			{"deny", core.ApproveTool, []string{"2", "d", "d"}, 3, false},
			{"high", core.ApproveInDoubt, nil, 7, true},
		} {
			t.Run(tt.what, func(t *testing.T) {
				t.Parallel()
				st := emptyState()
				st.PutRuns(fixtureRuns()...)
				all := fixtureApprovals()
				a := all[slices.IndexFunc(all, func(a core.Approval) bool { return a.Type == tt.typ })]
				a.Risk = map[bool]core.Risk{true: core.RiskHigh, false: core.RiskMedium}[tt.what == "high"]
				a.Type = core.ApproveTool
				st.PutApprovals(a)
				p := newPersonOf(t, st, size[0], size[1])
				p.wait(decide.Quiet)
				pressed := 0
				press := func(names ...string) {
					for _, name := range names {
						p.press(name)
						p.wait(decide.Quiet)
						pressed++
					}
				}
				press(tt.keys...)
				if tt.keys == nil {
					press("2", "a")
					for _, c := range a.RunID.Short()[:4] {
						press(string(c))
					}
					press("a")
				}
				if len(p.got) != 1 || pressed != tt.want {
					t.Fatalf("%d keys at %v: %+v\n%s", pressed, size, p.got, p.frame())
				}
				if d, ok := p.got[0].(Decide); !ok || d.Approve != tt.approve || d.Approvals[0].ID != a.ID {
					t.Errorf("%+v", p.got[0])
				}
			})
		}
	}
}
