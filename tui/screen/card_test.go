package screen

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// person is somebody at the screen: a frame is drawn before each key, and time
// passes only when they wait.
type person struct {
	t   *testing.T
	st  *state.State
	s   *Screen
	now time.Time
	got []Intent
}

func newPerson(t *testing.T, w, h int) *person {
	t.Helper()
	return newPersonOf(t, fixtureState(), w, h)
}

func newPersonOf(t *testing.T, st *state.State, w, h int) *person {
	t.Helper()
	p := &person{t: t, st: st, s: newScreen(t, st, w, h), now: fixtureNow}
	p.frame()
	return p
}

// atCard is a person who has just seen the card of an approval come up.
func atCard(t *testing.T, id core.ID, w, h int) *person {
	t.Helper()
	p := newPerson(t, w, h)
	p.s.overlay.open(cardOf(id, p.s.env(p.now)))
	p.wait(decide.Quiet)
	return p
}

func (p *person) frame() string {
	p.t.Helper()
	frame := p.s.Plain(p.now)
	checkFrame(p.t, frame, p.s.panes.w, p.s.panes.h)
	return frame
}

func (p *person) wait(d time.Duration) {
	p.frame()
	p.now = p.now.Add(d)
	p.s.Changed(p.now)
	p.frame()
}

// readAll reads what is open page by page.
func (p *person) readAll() {
	for range 20 {
		p.press("space")
	}
}

// press presses keys by name; `"text"` is typed.
func (p *person) press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		text, quoted := strings.CutPrefix(name, `"`)
		if !quoted {
			p.key(keyNamed(name))
			continue
		}
		for _, r := range strings.TrimSuffix(text, `"`) {
			p.key(keys.Key{Name: string(r), Text: string(r)})
		}
	}
}

func keyNamed(name string) keys.Key {
	k := keys.Key{Name: name}
	switch {
	case len([]rune(name)) == 1:
		k.Text = name
	case name == "space":
		k.Text = " "
	}
	return k
}

func (p *person) key(k keys.Key) {
	p.t.Helper()
	p.got = append(p.got, p.s.Key(k, p.now)...)
	p.frame()
}

// change changes an approval behind the person's back.
func (p *person) change(id core.ID, f func(*core.Approval)) {
	a, _ := p.st.Approval(id)
	f(&a)
	p.st.PutApprovals(a)
	p.s.Changed(p.now)
}

func (p *person) wants(want ...Intent) {
	p.t.Helper()
	if diff := cmp.Diff(want, p.got, cmpopts.EquateEmpty()); diff != "" {
		p.t.Errorf("intents (-want +got):\n%s\n%s", diff, p.frame())
	}
}

func (p *person) sees(text string) {
	p.t.Helper()
	if frame := p.frame(); !strings.Contains(frame, text) {
		p.t.Errorf("%q is not on the screen:\n%s", text, frame)
	}
}

func (p *person) open() bool { return len(p.s.overlay) > 0 }

func (p *person) approval(id core.ID) core.Approval {
	a, ok := p.st.Approval(id)
	if !ok {
		p.t.Fatalf("no approval %s", id)
	}
	return a
}

// TestCard_Decide: each way to decide, and what it takes.
func TestCard_Decide(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	of := func(id core.ID) core.Approval { a, _ := st.Approval(id); return a }
	yes := func(id core.ID, answer *core.Answer) Intent {
		return Decide{Approvals: []core.Approval{of(id)}, Approve: true, Answer: answer}
	}
	no := func(id core.ID, reason string, abort bool) Intent {
		return Decide{Approvals: []core.Approval{of(id)}, Reason: reason, Abort: abort}
	}
	for name, c := range map[string]struct {
		id   core.ID
		keys []string
		want []Intent
		sees string
	}{
		"Unread":          {apTool, []string{"a"}, nil, "not read to its end yet (space pages on): it unlocks page by page"},
		"Read":            {apTool, []string{"G", "a"}, []Intent{yes(apTool, nil)}, ""},
		"ShortIsRead":     {apHook, []string{"a"}, []Intent{yes(apHook, nil)}, ""},
		"Deny":            {apTool, []string{"d"}, []Intent{no(apTool, "", false)}, ""},
		"DenyWithMessage": {apTool, []string{"m", `"wrong: x d a"`, "enter"}, []Intent{no(apTool, "wrong: x d a", false)}, ""},
		"MessageLeft":     {apTool, []string{"m", `"no"`, "esc"}, nil, "[d] Deny"},
		"Abort":           {apTool, []string{"x", "y"}, []Intent{no(apTool, "", true)}, ""},
		"AbortOneKey":     {apTool, []string{"x"}, nil, "end the whole run?"},
		"AbortTwice":      {apTool, []string{"x", "x", "enter", "space"}, nil, "y aborts the run"},
		"AbortLeft": {apTool, []string{"x", "esc", "y"}, []Intent{Copy{What: "the command that approves",
			Text: "pml continue 7f3a77e1 --approve --approval a1000002 --expect-digest " + of(apTool).Digest}}, ""},
		"EnterDecidesNothing": {apHook, []string{"enter", "space", "tab", "enter", "space", "tab", "enter", "tab", "enter", "tab", "enter"}, nil, "decides nothing"},
		"HighAsks":            {apIntegrity, []string{"G", "a"}, nil, "type 9f04 to approve: ____"},
		"HighTyped":           {apIntegrity, []string{"G", "a", `"9f04"`}, nil, "right. Now approve"},
		"HighApproved":        {apIntegrity, []string{"G", "a", `"9f04"`, "a"}, []Intent{yes(apIntegrity, nil)}, ""},
		"HighWrong":           {apIntegrity, []string{"G", "a", `"9f05"`}, nil, "that was not 9f04"},
		"HighWrongThenRight":  {apIntegrity, []string{"G", "a", `"8"`, `"9f04"`, "a"}, []Intent{yes(apIntegrity, nil)}, ""},
		"HighErased":          {apIntegrity, []string{"G", "a", `"9f0"`, "backspace", "backspace"}, nil, "type 9f04 to approve: 9___"},
		"HighEnter":           {apIntegrity, []string{"G", "a", `"9f0"`, "enter", "space", "enter"}, nil, "type 9f04 to approve: 9f0_"},
		"HighUnread":          {apIntegrity, []string{"a", `"9f04"`}, nil, "more lines not shown: space"},
		"HighLeft":            {apIntegrity, []string{"G", "a", "esc", `"904"`, "a"}, nil, "type 9f04 to approve"},
		"ScriptsStayOff":      {apDependency, []string{"G", "a", `"7f3a"`, "a"}, nil, "7f3a is right; that key came too soon behind it: a approves"},
		"RememberRun":         {apTool, []string{"G", "A", "r"}, []Intent{yes(apTool, &core.Answer{Remember: core.RememberRun})}, ""},
		"RememberSession":     {apTool, []string{"G", "A", "s"}, []Intent{yes(apTool, &core.Answer{Remember: core.RememberSession})}, ""},
		"RememberRule":        {apTool, []string{"G", "A", "w"}, []Intent{AskRule{Approval: of(apTool)}}, "being worked out"},
		"RememberUnread":      {apTool, []string{"A", "r"}, nil, "Approve unlocks page by page"},
		"RememberNoTool":      {apHook, []string{"A"}, nil, "only the permission of a tool"},
		"RememberEnter":       {apTool, []string{"G", "A", "enter", "space"}, nil, "remember for:"},
		"InDoubtNoWay":        {apInDoubt, []string{"G", "a"}, nil, "first say how"},
		"MoreTime":            {apTool, []string{"+"}, []Intent{Extend{ID: apTool, By: 5 * time.Minute}}, ""},
		"NoLimit":             {apLayer, []string{"+"}, nil, "it has no limit"},
		"Replan":              {apTool, []string{"p"}, []Intent{Replan{Run: runNotes}}, ""},
		"AgainTooSoon":        {apTool, []string{"R"}, nil, "only what has expired"},
		"OpenURL":             {apOAuth, []string{"o"}, []Intent{OpenURL{URL: authURL(of(apOAuth))}}, ""},
		"CopyDeny":            {apHook, []string{"tab", "shift+tab", "y"}, []Intent{Copy{What: "the command that denies", Text: decide.Shell(decide.Command(of(apHook), decide.Choice{Verb: decide.Deny}))}}, ""},
		"Esc":                 {apTool, []string{"esc"}, nil, "2 Approve"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := 24
			if strings.HasSuffix(name, "Unread") {
				h = 17
			}
			p := atCard(t, c.id, 80, h)
			p.press(c.keys...)
			p.wants(c.want...)
			if c.sees != "" {
				p.sees(c.sees)
			}
		})
	}
}

func TestCard_Scripts(t *testing.T) {
	t.Parallel()
	p := atCard(t, apDependency, 80, 24)
	a := p.approval(apDependency)
	p.press("G", "s", "a")
	p.sees("type 7f3a to approve")
	p.sees("Allow scripts: YES")
	p.press(`"7f3a"`)
	p.wait(decide.Quiet) // its last character is the key that approves
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{a}, Approve: true, Answer: &core.Answer{Scripts: true}})
}

// TestCard_InDoubtHead: the head of the arguments follows what is chosen, and what was read counts.
func TestCard_InDoubtHead(t *testing.T) {
	t.Parallel()
	p := atCard(t, apInDoubt, 80, 24)
	p.change(apInDoubt, func(a *core.Approval) {
		a.Context = raw(map[string]any{"tool": "mail:send", "arguments": map[string]any{"body": strings.Repeat("line\n", 60)}})
	})
	p.press("J", "J")
	p.readAll()
	p.wait(decide.Quiet)
	p.press("g")
	p.sees("what may have been sent")
	p.press("r")
	p.sees("what will be sent again")
	p.press("s", `"null"`, "enter")
	p.sees("what is skipped, and not sent again")
	hidden(t, p, "will be sent")
	p.wait(decide.Quiet)
	p.press("a")
	p.sees("type ")
}

// TestCard_InDoubt: it runs again or is skipped only when somebody said so, and
// typed the characters.
func TestCard_InDoubt(t *testing.T) {
	t.Parallel()
	p := atCard(t, apInDoubt, 80, 24)
	a := p.approval(apInDoubt)
	p.press("G", "s", `"{"`, "enter")
	p.sees("the result is JSON")
	p.press("backspace", `"{"sent":true}"`, "enter", "a", `"7f38"`, "r", "s")
	p.press("esc", "r", "a", `"7f38"`, "a")
	p.wants(Decide{Approvals: []core.Approval{a}, Approve: true, Answer: &core.Answer{InDoubt: core.RunAgain}})

	p = atCard(t, apInDoubt, 80, 24)
	p.press("G", "s")
	p.key(keys.Key{Name: `{"sent":true}`, Text: `{"sent":true}`, Paste: true})
	p.press("enter", "a", `"7f38"`, "a")
	p.wants(Decide{Approvals: []core.Approval{a}, Approve: true, Answer: &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"sent":true}`)}})
}

// TestCard_Quiet: a decision key does nothing just after the card came up, the
// terminal got the focus, or what is asked changed.
func TestCard_Quiet(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	p.press("2", "j", "a", "a", "d")
	p.wants()
	if !p.open() {
		t.Fatal("the card is not open")
	}
	p.wait(decide.Quiet)
	p.s.Focused(true, p.now)
	p.press("d")
	p.sees("too early")
	p.wait(decide.Quiet)
	p.change(apTool, func(a *core.Approval) { a.Digest = "sha256:other" })
	p.press("d")
	p.sees("too early")
	p.wants()
	p.wait(decide.Quiet)
	p.press("d")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}})
}

// TestCard_Paste: pasted text never decides and never confirms.
func TestCard_Paste(t *testing.T) {
	t.Parallel()
	paste := func(s string) keys.Key { return keys.Key{Name: s, Text: s, Paste: true} }
	p := atCard(t, apIntegrity, 80, 24)
	p.press("G")
	for _, s := range []string{"a", "d", "9f04", "y"} {
		p.key(paste(s))
	}
	p.press("a")
	p.key(paste("9f04"))
	p.key(keys.Key{Name: "9f04", Text: "9f04"}) // of a terminal that does not mark it
	p.press("a")
	p.sees("to approve: ____")
	p.press("esc", "x")
	p.key(paste("y"))
	p.wants()
	p.press("esc", "m")
	p.key(paste("because\nenter"))
	p.wants()
	p.press("enter")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apIntegrity)}, Reason: `because\nenter`})
}

// TestCard_Burst: the characters asked for may come at once, as over a slow line,
// where the terminal does not call it a paste. Nothing more may, and they approve
// nothing.
func TestCard_Burst(t *testing.T) {
	t.Parallel()
	burst := func(s string) keys.Key { return keys.Key{Text: s, Paste: true, Burst: true} }
	p := atCard(t, apIntegrity, 80, 24)
	p.press("G")
	p.key(burst("9f04"))
	p.sees("one key at a time")
	p.press("a")
	for _, s := range []string{"9f04a", "9f04 ", "9f0", "9f05", "a9f0", "aaaa", " 9f04", ""} {
		p.key(burst(s))
		p.sees("one character at a time")
		p.sees("to approve: ____")
		p.wants()
	}
	p.key(keys.Key{Text: "9f04", Paste: true})
	p.sees("pasted text decides nothing")
	p.press("9")
	p.key(burst("9f04"))
	p.sees("to approve: 9___")
	p.press("esc", "a")
	p.key(burst("F04"))
	p.sees("right. Now approve")
	p.press("a")
	p.wants()
	p.wait(decide.Quiet)
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apIntegrity)}, Approve: true})
}

// TestCard_Raced: somebody else decides while the card is open, also while
// something is being typed.
func TestCard_Raced(t *testing.T) {
	t.Parallel()
	for _, begun := range [][]string{nil, {"G"}, {"m", `"no"`}, {"x"}, {"G", "A"}, {"G", "A", "w"}} {
		p := atCard(t, apTool, 80, 24)
		p.press(begun...)
		p.got = nil
		p.change(apTool, func(a *core.Approval) {
			a.State, a.DecidedBy = core.ApprovalDenied, &core.DecidedBy{Actor: core.Actor{Who: "eve\x1b", Via: core.ViaCLI}, At: p.now}
		})
		p.sees(`already denied by eve\x1b via cli at 14:02:31`)
		p.wait(decide.Quiet)
		p.press("d", "x", "y", "m", "enter", "a", "A", "r", "s", "w", "enter", "+")
		for _, i := range p.got {
			if _, copied := i.(Copy); !copied {
				t.Errorf("%v: %#v", begun, i)
			}
		}
	}
}

// TestCard_Expiry: it expires while it is open, and is decided all the same, or asked
// again.
func TestCard_Expiry(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("G", "m", `"no"`)
	p.wait(4 * time.Minute)
	p.sees("expired at 14:05:37")
	p.sees("pml checks it again first")
	p.press("esc", "+")
	p.wants()
	p.sees("it has expired: decide it all the same")
	expired := p.approval(apTool)
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{expired}, Approve: true})
	p = atCard(t, apTool, 80, 24)
	p.wait(4 * time.Minute)
	p.press("R")
	p.wants(Renew{ID: apTool})
}

// TestCard_Lost: without the link nothing is decided and nothing is queued.
func TestCard_Lost(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("G")
	p.st.Links.Client.State = state.LinkLost
	p.press("a", "A", "d", "m", "x", "y", "+", "R")
	p.sees("nothing is queued")
	p.st.Links.Client.State = state.LinkLive
	p.got = nil
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Approve: true})
}

// TestCard_Changed: what is asked changes under the person; all that was read
// and typed was for something else.
func TestCard_Changed(t *testing.T) {
	t.Parallel()
	p := atCard(t, apIntegrity, 80, 24)
	p.press("G", "a", `"9f04"`)
	p.change(apIntegrity, func(a *core.Approval) {
		a.Context = json.RawMessage(strings.ReplaceAll(string(a.Context), "9f04e77b", "1111e77b"))
	})
	p.sees("what is asked has changed: read it again")
	p.wait(decide.Quiet)
	p.press("a")
	p.wants()
	p.press("G", "a")
	p.sees("type 1111")
}

// TestCard_Grown: the arguments of the next tasks arrive after the card was
// read; then they have to be read, too.
func TestCard_Grown(t *testing.T) {
	t.Parallel()
	p := atCard(t, apLayer, 80, 24)
	p.press("G")
	p.sees("all was shown")
	run, _ := p.st.Run(p.approval(apLayer).RunID)
	long := raw(map[string]any{"sql": make([]int, 40)})
	p.st.PutWorkflow(core.Workflow{Run: run, Layers: []core.Layer{{Index: 1, Tasks: []core.Task{{ID: "migrate", Tool: "db:migrate", Arguments: long}}}}})
	p.s.Changed(p.now)
	p.press("a")
	p.wants()
	p.press("G")
	p.sees("space goes back there") // what G jumps over was not read
	p.press("a")
	p.wants()
	p.readAll()
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apLayer)}, Approve: true})
}

// TestCard_Mouse: the first click selects, the second presses; the first click
// after the focus came back does neither.
func TestCard_Mouse(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	click := func(label string) {
		for y, l := range strings.Split(p.frame(), "\n") {
			if before, _, ok := strings.Cut(l, label); ok {
				p.got = append(p.got, p.s.Mouse(paint.Width(before), y, Click, p.now)...)
				return
			}
		}
		t.Fatalf("no %s:\n%s", label, p.frame())
	}
	click("[a] Approve once")
	p.wants()
	p.sees(">[a] Approve once")
	p.s.Focused(true, p.now)
	click("[a] Approve once")
	p.wants()
	p.wait(decide.Quiet)
	p.s.Mouse(40, 6, Click, p.now)
	p.wants()
	click("[a] Approve once")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apHook)}, Approve: true})

	p = atCard(t, apIntegrity, 80, 24)
	p.press("G")
	click("[a] Approve from now on")
	click("[a] Approve from now on")
	p.wants()
	p.sees("type 9f04 to approve")
}

// TestCard_Small: in a small window what is of high risk can be denied only.
func TestCard_Small(t *testing.T) {
	t.Parallel()
	p := atCard(t, apIntegrity, 40, 10)
	p.press("G", "a", `"9f04"`, "a")
	p.sees("approve needs 60x15 (HIGH)")
	p.wants()
	p.press("d")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apIntegrity)}})

	p = atCard(t, apHook, 40, 10)
	p.press("G", "a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apHook)}, Approve: true})
}
