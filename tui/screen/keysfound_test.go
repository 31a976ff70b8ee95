package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// TestCard_KeysFound looks at the card that asks for a key, before and after it
// is there.
func TestCard_KeysFound(t *testing.T) {
	t.Parallel()
	for line, found := range map[string][]string{"no, watching .env of /home/ada/src/shop": {}, "yes": {"TAVILY_API_KEY"}} {
		for _, size := range cardSizes {
			t.Run(fmt.Sprintf("%s_%dx%d", line, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				p := atCard(t, apKeys, size[0], size[1])
				if got := p.s.WatchedKeys(p.now); got != apKeys {
					t.Fatalf("watches %q", got)
				}
				p.s.KeysFound(apKeys, found)
				canvas := paint.NewCanvas(size[0], size[1], p.s.o.Theme)
				p.s.overlay[0].draw(canvas.Area(), p.s.env(p.now))
				checkFrame(t, canvas.Plain(), size[0], size[1])
				if size[1] > 10 { // in the smallest, there is no line for it
					wantWords(t, canvas.Plain(), "found  TAVILY_API_KEY: "+line+" ")
				}
				if size == [2]int{80, 24} && len(found) > 0 {
					checkGolden(t, "card/keys_found_80x24.txt", canvas.Plain())
				}
			})
		}
	}
}

// TestKeysFound_Words: of several keys each is told, the row says when all are
// there, and nothing in the names acts on the terminal.
func TestKeysFound_Words(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	a := p.approval(apKeys)
	a.Context, a.Workspace = []byte(`{"missing_keys":["A_KEY","B\u202e_KEY"]}`), "/home/\x1b[2Jada"
	p.st.PutApprovals(a)
	for _, tt := range []struct {
		names []string
		want  string
		all   bool
	}{
		{nil, "", false},
		{[]string{}, `found  A_KEY: no  B\u{202e}_KEY: no, watching .env of /home/\x1b[2Jada`, false},
		{[]string{"A_KEY"}, `found  A_KEY: yes  B\u{202e}_KEY: no, watching .env of /home/\x1b[2Jada`, false},
		{[]string{"A_KEY", "B\u202e_KEY", "C"}, `found  A_KEY: yes  B\u{202e}_KEY: yes`, true},
		{nil, "", false},
	} {
		p.s.KeysFound(apKeys, tt.names)
		if text, _ := p.s.found.of(apKeys); text != tt.want {
			t.Errorf("%q: %q, want %q", tt.names, text, tt.want)
		}
		if text, _ := p.s.found.of(apTool); text != "" {
			t.Errorf("another approval: %q", text)
		}
		if strings.Contains(p.frame(), "(found)") != tt.all {
			t.Errorf("%q: the row:\n%s", tt.names, p.frame())
		}
	}
}

// TestWatchedKeys: keys are looked for while somebody looks at them.
func TestWatchedKeys(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	watches := func(step string, want core.ID) {
		t.Helper()
		p.frame()
		if got := p.s.WatchedKeys(p.now); got != want {
			t.Errorf("%s: watches %q, want %q", step, got, want)
		}
	}
	watches("another row", "")
	p.s.sel.Approval = apKeys
	watches("the row", apKeys)
	p.press("1")
	watches("another panel", "")
	p.s.overlay.open(cardOf(apTool, p.s.env(p.now)))
	watches("another card", "")
	p.s.overlay.open(cardOf(apKeys, p.s.env(p.now)))
	watches("the card", apKeys)
	a := p.approval(apKeys)
	a.Side, a.Context = core.SideServer, []byte(`{"missing_keys":["OTHER"]}`) // the state keeps what is the same
	p.st.PutApprovals(a)
	watches("of this machine's server", apKeys)
	a.Side, a.State = core.SideClient, core.ApprovalApproved
	p.st.PutApprovals(a)
	watches("decided", "")
}

// TestCard_KeysFound_Read: what was read stays read when a key appears.
func TestCard_KeysFound_Read(t *testing.T) {
	t.Parallel()
	p := atCard(t, apKeys, 80, 24)
	p.frame()
	p.s.KeysFound(apKeys, []string{"TAVILY_API_KEY"})
	p.frame()
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apKeys)}, Approve: true})
}
