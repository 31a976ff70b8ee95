package screen

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// TestCard_Edit: changed arguments are shown like a new question, and approved under
// what was shown; a no is about what was asked.
func TestCard_Edit(t *testing.T) {
	t.Parallel()
	args := json.RawMessage(`{"tag_name":"v3"}`)
	edited := func(p *person) (of, now core.Approval) {
		of = p.approval(apTool)
		now = of
		now.Context, now.Digest, now.Risk = json.RawMessage(`{"arguments":{"tag_name":"v3"}}`), "sha256:edited", core.RiskMedium
		p.s.Edited(of, now, args, nil, p.now)
		return of, now
	}
	p := atCard(t, apTool, 160, 45)
	p.wait(decide.Quiet)
	p.press("e")
	if len(p.got) != 1 {
		t.Fatalf("%+v", p.got)
	}
	if i, ok := p.got[0].(EditArguments); !ok || i.Approval.ID != apTool || !json.Valid([]byte(i.Arguments)) {
		t.Fatalf("%+v", p.got)
	}
	p.got = nil
	of, now := edited(p)
	p.press("a")
	p.wants() // not read yet, and too early
	p.sees("what you have changed")
	p.sees("tag_name  v3")
	p.wait(decide.Quiet)
	p.press("A")
	p.wants()
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{now}, Approve: true, Answer: &core.Answer{Arguments: args}})

	p = atCard(t, apKeys, 80, 24)
	p.sees("e view")
	p = atCard(t, apTool, 80, 24)
	p.sees("e change arguments")
	p = atCard(t, apTool, 160, 45)
	p.wait(decide.Quiet)
	edited(p)
	p.sees("what you have changed")
	p.wait(decide.Quiet)
	p.press("d")
	p.wants(Decide{Approvals: []core.Approval{of}})

	p = atCard(t, apTool, 160, 45)
	p.s.Edited(of, of, nil, errors.New("no such argument"), p.now)
	p.sees("not changed: no such argument")

	// Another question in its place takes the change with it.
	p = atCard(t, apTool, 160, 45)
	edited(p)
	p.sees("what you have changed")
	p.change(apTool, func(a *core.Approval) { a.Context = json.RawMessage(`{"arguments":{"tag_name":"v9"}}`) })
	p.sees("your change is gone")
	p.sees("tag_name  v9")
}

// TestInbox_Edit: the key on a row does what it does on the card, which shows what was changed.
func TestInbox_Edit(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 160, 45)
	p.wait(decide.Quiet)
	p.press("2", "j", "e")
	if len(p.got) != 1 {
		t.Fatalf("%+v", p.got)
	}
	i, ok := p.got[0].(EditArguments)
	if !ok {
		t.Fatalf("%+v", p.got)
	}
	now := i.Approval
	now.Context, now.Digest = json.RawMessage(`{"arguments":{"tag_name":"v3"}}`), "sha256:edited"
	p.s.Edited(i.Approval, now, json.RawMessage(`{"tag_name":"v3"}`), nil, p.now)
	p.sees("what you have changed")
}

// TestCard_TypedOn: a key that decides nothing works at once on a card that has just come up, and what
// is typed behind it, or behind a key that came too early, decides nothing until there was a pause.
func TestCard_TypedOn(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 100, 30)
	p.wait(decide.Quiet)
	p.press("2", "j", "enter", "e")
	if len(p.got) != 1 {
		t.Fatalf("e just after the card came up: %+v", p.got)
	}
	if _, ok := p.got[0].(EditArguments); !ok {
		t.Fatalf("%+v", p.got)
	}
	p.got = nil
	slowly := func(names ...string) {
		for _, name := range names {
			p.now = p.now.Add(decide.Quiet / 2)
			p.press(name)
		}
	}
	slowly("c", "w", "m", "n", "o", "enter", "d", "a")
	p.wants()
	hidden(t, p, "deny, because")
	p.wait(decide.Quiet)
	p.press("m")
	p.sees("deny, because")

	p = newPerson(t, 100, 30)
	p.wait(decide.Quiet)
	p.press("2", "j", "enter", "i")
	p.sees("Audit trail")
	p.press("esc", "d")
	p.sees("too early")
	slowly("m", "n", "o", "enter", "x", "y")
	p.wants(LoadAudit{})
	p.got = nil
	hidden(t, p, "deny, because")
	hidden(t, p, "end the whole run?")
	p.wait(decide.Quiet)
	p.press("d")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}})
}
