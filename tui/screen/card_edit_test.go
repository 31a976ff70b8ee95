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
