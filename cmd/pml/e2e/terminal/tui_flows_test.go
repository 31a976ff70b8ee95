//go:build unix

package terminal_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// TestTUI_Flows: with what the screen and ? say, somebody makes a flow of a template that
// asks before writes, tests it on a call of before, enables and trusts it, and sees it ask.
func TestTUI_Flows(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Setenv("PAGER", "sed 's/^/paged /'")
	const program = `return await mcp.rec.inc({ key: "k" })`
	m.Execute(0, program)
	s := startTUI(m, 80, 24)
	s.Shows("complete")
	s.Types("4")
	s.Shows("L1 c1 inc k", "allow rec:*") // its calls have been read
	s.Types("9")
	s.Shows("No hook flow is here yet", "+ makes one")
	s.Types("?")
	s.Shows("Here: flows", "new flow from a template")
	s.Types("\x1b")
	s.Until("shows no help", func(text string) bool { return !strings.Contains(text, "type to search") })
	s.Types("+")
	s.Shows("approve-outside")
	s.Types("\r")
	s.Shows("this workspace", "all workspaces")
	s.Types("\r")
	s.Shows("disabled", "t tests it, x enables it")
	s.Types("t")
	s.Shows("rec:inc")
	s.Types("j", "j", "\r") // below what is typed and past days
	s.Shows("test, step 1 of 4, asks")
	s.Types("\r", "\r", "\r")
	s.Shows("step 4 of 4", "asks", "This writes outside of docs.")
	s.Types("\x1b")
	s.Shows("no call has met it yet")
	s.Types("x")
	s.Shows("not trusted", "is enabled") // it stands in the file: what T shows is all of it
	s.Types("T")
	s.Shows("trust this? [y]es / [n]o / show [a]ll:")
	s.Types("a\r")
	s.Until("asks again below what was paged", func(text string) bool {
		return strings.Contains(text, "paged ") && strings.HasSuffix(strings.TrimSpace(text), "show [a]ll:")
	})
	s.Types("yes\r")
	s.Shows("enter goes back")
	s.Types("\r")
	s.Shows("✓ enabled")
	m.Execute(8, program)
	s.Shows("run 1 of 1", "pending")
	if n := m.Count("inc"); n != 1 {
		t.Errorf("%d calls: the test or the flow let one through", n)
	}
	s.Does("L", "4 Task") // to the call that waits
	s.Types("L")
	s.Shows("9 Flows", "run 1 of 1", "! 1 waiting") // because of which leaving asks
	s.Types("q")
	s.Shows("Leave?")
	s.Types("y")
	if code := s.End(); code != 0 {
		t.Errorf("exit %d", code)
	}
	s.Restored()
}
