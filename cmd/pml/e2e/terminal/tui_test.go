//go:build unix

package terminal_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// confirmation is what a card of high risk wants typed.
var confirmation = regexp.MustCompile(`type ([0-9a-f]{4}) to approve: `)

// approves reads the open card to its end and approves it.
func approves(s *pmltest.Emulator) {
	s.T.Helper()
	s.Types("G")
	s.Does("a", "to approve: ")
	code := confirmation.FindStringSubmatch(s.Shows("to approve: "))[1]
	for i := range code { // what comes at once counts as pasted
		s.Types(code[i : i+1])
		if i+1 < len(code) {
			s.Shows("to approve: " + code[:i+1])
		}
	}
	s.Shows("right. Now approve")
	s.Does("a", " approved") // a second key opens it again at most: "you have approved it"
}

// TestTUI_Decides: start, open the card, read, type, approve, see the run end,
// leave. The process that asked is dead, so the terminal takes the run over.
func TestTUI_Decides(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, pmltest.AsksOnce, "--intent", "order seventy-seven")
	s := startTUI(m, 80, 24)
	s.Shows("order seventy-seven", "waiting", "1 waiting")
	s.Types("2")
	s.Shows("rec:danger", "HIGH")
	s.Types("\r")
	s.Shows("rec:danger", "Deny", "n1")
	s.Types("\r", " ", "\r") // nothing of this decides
	approves(s)
	pmltest.WaitFor(t, "the run to end", func() bool { return m.Latest().State == core.RunComplete })
	s.Types("1")
	s.Shows("complete")
	if m.Count("danger") != 1 || m.Count("inc") != 1 {
		t.Errorf("%d danger, %d inc", m.Count("danger"), m.Count("inc"))
	}
	a := m.Approvals("--all")
	if len(a) != 1 || a[0].DecidedBy == nil || a[0].DecidedBy.Via != core.ViaTUI || a[0].RunID != r.WorkflowID {
		t.Errorf("%+v", a)
	}
	s.Types("q")
	if code := s.End(); code != 0 {
		t.Errorf("exit %d", code)
	}
	s.Restored()
}

// TestTUI_Race: two terminals have the same card open; one decides, the other
// learns at once who it was, and can decide nothing.
func TestTUI_Race(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Execute(8, pmltest.AsksOnce)
	a, b := startTUI(m, 80, 24), startTUI(m, 100, 30)
	for _, s := range []*pmltest.Emulator{a, b} {
		s.Shows("1 waiting")
		s.Types("2", "\r")
		s.Shows("rec:danger", "Deny")
	}
	approves(a)
	b.Shows("already approved by")
	b.Types("d", "a")
	pmltest.WaitFor(t, "the run to end", func() bool { return m.Latest().State == core.RunComplete })
	if m.Count("danger") != 1 {
		t.Errorf("%d danger", m.Count("danger"))
	}
}

// TestTUI_Expires: an approval expires while its card is open: it says so, and the
// same keys decide it.
func TestTUI_Expires(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "1s"}
	m := pmltest.NewMachine(t, c)
	s := startTUI(m, 80, 24)
	s.Shows("1 Runs")
	m.Execute(8, pmltest.AsksOnce)
	s.Types("2")
	s.Shows("rec:danger")
	s.Types("\r")
	s.Shows(" expired ━")
	s.Does("d", "denied") // it is kept quiet for a moment since the card has changed
	pmltest.WaitFor(t, "the run to end", func() bool { return m.Latest().State.Final() })
	if got := m.Approvals("--all"); len(got) != 2 || m.Audited(core.ApprovalDenied) != 1 || m.Count("danger") != 0 {
		t.Errorf("%+v", got)
	}
}

// TestTUI_Killed: what waits survives the terminal.
func TestTUI_Killed(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, pmltest.AsksOnce)
	s := startTUI(m, 80, 24)
	s.Shows("1 waiting")
	s.Types("2", "\r")
	s.Shows("rec:danger", "Deny")
	if err := s.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.End()
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if m.Count("danger") != 1 {
		t.Errorf("%d danger", m.Count("danger"))
	}
}

// TestTUI_Stops: at SIGTERM the terminal is given back.
func TestTUI_Stops(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	s := startTUI(m, 80, 24, "--demo")
	s.Shows("release-notes")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.End()
	s.Restored()
}

// TestTUI_Resized: a storm of sizes harms nothing, and the last one counts.
func TestTUI_Resized(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	s := startTUI(m, 80, 24, "--demo")
	s.Shows("release-notes")
	for i := range 120 {
		s.Resize(uint16(1+(i*37)%200), uint16(1+(i*53)%60))
	}
	s.Resize(20, 5)
	s.Shows("pml")
	s.Resize(160, 45)
	s.Shows("1 Runs", "2 Approvals", "3 DAG", "4 Task", "5 Events")
	s.Types("\x03")
	if code := s.End(); code != 0 && code != 130 {
		t.Errorf("exit %d", code)
	}
	s.Restored()
}

// TestTUI_Pasted: what is pasted is text, never keys.
func TestTUI_Pasted(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Execute(8, pmltest.AsksOnce)
	s := startTUI(m, 80, 24)
	s.Shows("1 waiting")
	s.Types("2", "\r")
	s.Shows("rec:danger", "Deny")
	s.Types("\x1b[200~ddddaaaaxxxxyq\x1b[201~")
	s.Types("\x1b") // is acted on after the paste
	s.Until("closes the card", func(text string) bool { return !strings.Contains(text, "[d] Deny") })
	if got := m.Approvals(); len(got) != 1 || got[0].State != core.ApprovalOpen {
		t.Errorf("%+v", got)
	}
}

// TestTUI_ServerAway: the terminal says when the server is lost, keeps what it
// knows as stale, decides nothing meanwhile, and goes on when it is back.
func TestTUI_ServerAway(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Setenv("PML_NO_AUTOSTART", "1")
	n := m.Node()
	id := n.Begin(api.ExecuteRequest{Code: pmltest.AsksOnce, Detach: true})
	pmltest.WaitFor(t, "the question", func() bool { return len(m.Approvals()) == 1 })
	s := startTUI(m, 120, 35)
	s.Shows("1 waiting", "● server")
	if err := n.Process.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Shows("lost", id.Short())
	s.Types("2", "\r")
	s.Shows("decisions are off")
	s.Types("d")
	n.Up()
	s.Until("trusts what it shows", func(text string) bool { return !strings.Contains(text, "decisions are off") })
	approves(s)
	pmltest.WaitFor(t, "the run to end", func() bool { return m.Workflow(id).State == core.RunComplete })
	if m.Count("danger") != 1 {
		t.Errorf("%d danger", m.Count("danger"))
	}
}

// Scenario 29, on the full screen: names with escape sequences, bidirectional
// marks and wide characters, without colours, in windows down to 40 x 10. What
// is selected is seen, and no foreign byte acts on the terminal.
func TestTUI_HostileText(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	evil := "\x1b]0;owned\x07\x1b[2J日本語\u202e"
	m.Execute(8, `await mcp.rec.danger({x: input})`, "--input", `"\u001b]0;owned\u0007\u001b[2J日本語\u202e"`, "--intent", evil)
	m.Setenv("NO_COLOR", "1")
	s := startTUI(m, 80, 24)
	s.Shows("1 waiting", `\x1b]0;owned`, "> ")
	s.Types("2", "\r")
	s.Shows("rec:danger", "Deny", `\x1b`)
	for _, size := range [][2]uint16{{60, 15}, {40, 10}, {30, 8}, {160, 45}} {
		s.Resize(size[0], size[1])
	}
	s.Shows("1 Runs", "Deny")
	s.Types("\x03")
	s.End()
	s.Restored()
	s.Mu.Lock()
	raw := s.Raw.String()
	s.Mu.Unlock()
	for _, bad := range []string{"\x1b]0;owned", "\x07日", "\u202e"} {
		if strings.Contains(raw, bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
	if regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`).MatchString(raw) {
		t.Error("colours in spite of NO_COLOR")
	}
}
