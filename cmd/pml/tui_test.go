//go:build unix

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// confirmation is what a card of high risk wants typed.
var confirmation = regexp.MustCompile(`type ([0-9a-f]{4}) to approve: `)

// approves reads the open card to its end and approves it.
func (s *screenful) approves() {
	s.t.Helper()
	s.types("G")
	s.does("a", "to approve: ")
	code := confirmation.FindStringSubmatch(s.shows("to approve: "))[1]
	for i := range code { // what comes at once counts as pasted
		s.types(code[i : i+1])
		if i+1 < len(code) {
			s.shows("to approve: " + code[:i+1])
		}
	}
	s.shows("right. Now approve")
	s.does("a", ": approved")
}

// TestTUI_Decides: start, open the card, read, type, approve, see the run end,
// leave. The process that asked is dead, so the terminal takes the run over.
func TestTUI_Decides(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	r := m.execute(8, asksOnce, "--intent", "order seventy-seven")
	s := m.tui(80, 24)
	s.shows("order seventy-seven", "waiting", "1 waiting")
	s.types("2")
	s.shows("rec:danger", "HIGH")
	s.types("\r")
	s.shows("rec:danger", "Deny", "n1")
	s.types("\r", " ", "\r") // nothing of this decides
	s.approves()
	waitFor(t, "the run to end", func() bool { return m.latest().State == core.RunComplete })
	s.types("1")
	s.shows("complete")
	if m.count("danger") != 1 || m.count("inc") != 1 {
		t.Errorf("%d danger, %d inc", m.count("danger"), m.count("inc"))
	}
	a := m.approvals("--all")
	if len(a) != 1 || a[0].DecidedBy == nil || a[0].DecidedBy.Via != core.ViaTUI || a[0].RunID != r.WorkflowID {
		t.Errorf("%+v", a)
	}
	s.types("q")
	if code := s.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	s.restored()
}

// TestTUI_Race: two terminals have the same card open; one decides, the other
// learns at once who it was, and can decide nothing.
func TestTUI_Race(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.execute(8, asksOnce)
	a, b := m.tui(80, 24), m.tui(100, 30)
	for _, s := range []*screenful{a, b} {
		s.shows("1 waiting")
		s.types("2", "\r")
		s.shows("rec:danger", "Deny")
	}
	a.approves()
	b.shows("already approved by")
	b.types("d", "a")
	waitFor(t, "the run to end", func() bool { return m.latest().State == core.RunComplete })
	if m.count("danger") != 1 {
		t.Errorf("%d danger", m.count("danger"))
	}
}

// TestTUI_Expires: an approval expires while its card is open: it says so, no
// key decides, and it can be asked again.
func TestTUI_Expires(t *testing.T) {
	t.Parallel()
	c := allowRec()
	c.Approvals = map[string]any{"ttl": "4s"}
	m := newMachine(t, c)
	s := m.tui(80, 24)
	s.shows("workflows")
	m.execute(8, asksOnce)
	s.types("2")
	s.shows("rec:danger")
	s.types("\r")
	s.shows("expired at")
	s.types("a", "d")
	if got := m.approvals("--all"); len(got) != 1 || got[0].DecidedBy != nil {
		t.Errorf("%+v", got)
	}
	s.does("R", "asked again")
	waitFor(t, "another question", func() bool { return len(m.approvals("--all")) > 1 })
	if m.count("danger") != 0 {
		t.Error("it ran")
	}
}

// TestTUI_Killed: what waits survives the terminal.
func TestTUI_Killed(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	r := m.execute(8, asksOnce)
	s := m.tui(80, 24)
	s.shows("1 waiting")
	s.types("2", "\r")
	s.shows("rec:danger", "Deny")
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.end()
	m.json(0, "continue", string(r.WorkflowID), "--approve")
	if m.count("danger") != 1 {
		t.Errorf("%d danger", m.count("danger"))
	}
}

// TestTUI_Stops: at SIGTERM the terminal is given back.
func TestTUI_Stops(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	s := m.tui(80, 24, "--demo")
	s.shows("release-notes")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end()
	s.restored()
}

// TestTUI_Resized: a storm of sizes harms nothing, and the last one counts.
func TestTUI_Resized(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	s := m.tui(80, 24, "--demo")
	s.shows("release-notes")
	for i := range 120 {
		s.resize(uint16(1+(i*37)%200), uint16(1+(i*53)%60))
	}
	s.resize(20, 5)
	s.shows("pml")
	s.resize(160, 45)
	s.shows("1 Workflows", "2 Approvals", "3 DAG", "4 Task", "5 Events")
	s.types("\x03")
	if code := s.end(); code != 0 && code != 130 {
		t.Errorf("exit %d", code)
	}
	s.restored()
}

// TestTUI_Pasted: what is pasted is text, never keys.
func TestTUI_Pasted(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.execute(8, asksOnce)
	s := m.tui(80, 24)
	s.shows("1 waiting")
	s.types("2", "\r")
	s.shows("rec:danger", "Deny")
	s.types("\x1b[200~ddddaaaaxxxxyq\x1b[201~")
	s.types("\x1b") // is acted on after the paste
	s.until("closes the card", func(text string) bool { return !strings.Contains(text, "[d] Deny") })
	if got := m.approvals(); len(got) != 1 || got[0].State != core.ApprovalOpen {
		t.Errorf("%+v", got)
	}
}

// TestTUI_ServerAway: the terminal says when the server is lost, keeps what it
// knows as stale, decides nothing meanwhile, and goes on when it is back.
func TestTUI_ServerAway(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.setenv("PML_NO_AUTOSTART", "1")
	n := m.node()
	id := n.begin(api.ExecuteRequest{Code: asksOnce, Detach: true})
	waitFor(t, "the question", func() bool { return len(m.approvals()) == 1 })
	s := m.tui(120, 35)
	s.shows("1 waiting", "● server")
	if err := n.process.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.shows("lost", id.Short())
	s.types("2", "\r")
	s.shows("decisions are off")
	s.types("d")
	n.up()
	s.until("trusts what it shows", func(text string) bool { return !strings.Contains(text, "decisions are off") })
	s.approves()
	waitFor(t, "the run to end", func() bool { return m.workflow(id).State == core.RunComplete })
	if m.count("danger") != 1 {
		t.Errorf("%d danger", m.count("danger"))
	}
}

// Scenario 29, on the full screen: names with escape sequences, bidirectional
// marks and wide characters, without colours, in windows down to 40 x 10. What
// is selected is seen, and no foreign byte acts on the terminal.
func TestTUI_HostileText(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	evil := "\x1b]0;owned\x07\x1b[2J日本語\u202e"
	m.execute(8, `await mcp.rec.danger({x: input})`, "--input", `"\u001b]0;owned\u0007\u001b[2J日本語\u202e"`, "--intent", evil)
	m.setenv("NO_COLOR", "1")
	s := m.tui(80, 24)
	s.shows(`\x1b]0;owned`, "> ")
	s.types("2", "\r")
	s.shows("rec:danger", "Deny", `\x1b`)
	for _, size := range [][2]uint16{{60, 15}, {40, 10}, {30, 8}, {160, 45}} {
		s.resize(size[0], size[1])
	}
	s.shows("1 Workflows", "Deny")
	s.types("\x03")
	s.end()
	s.restored()
	s.mu.Lock()
	raw := s.raw.String()
	s.mu.Unlock()
	for _, bad := range []string{"\x1b]0;owned", "\x07日", "\u202e"} {
		if strings.Contains(raw, bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
	if regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`).MatchString(raw) {
		t.Error("colours in spite of NO_COLOR")
	}
}
