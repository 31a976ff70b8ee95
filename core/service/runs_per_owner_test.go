package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestLimitRuns: an owner whose runs wait has as many of them as limits.runs says.
// One more is refused before there is anything of it, with what counts and what to
// do; what was asked for before is answered as before, and others are not concerned.
func TestLimitRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", `{"limits": {"runs": 2}}`)
	p := m.server()
	alice, bob := p.in(api.Scope{Owner: "alice"}), p.in(api.Scope{Owner: "bob"})
	const writes = `await mcp.workspace.write_file({path: "x.txt", content: "x"}); return 1`
	ask := func(c *client, key string) (api.Result, error) {
		return c.Execute(c.ctx(), api.ExecuteRequest{Code: writes, IdempotencyKey: key, By: me, Wait: -1})
	}
	var first api.Result
	for _, key := range []string{"a", "b"} {
		r, err := ask(alice, key)
		if err != nil || r.Status != api.StatusApprovalRequired {
			t.Fatalf("%v %+v", err, r)
		}
		first = r
	}
	_, err := ask(alice, "c")
	e := code(t, err, core.CodeRunLimit)
	for _, words := range []string{"nothing was run", "2 runs", "2 of them wait", "limits.runs is 2", "abort"} {
		if !strings.Contains(e.Message, words) {
			t.Errorf("%q does not say %q", e.Message, words)
		}
	}
	if n := len(alice.runs()); n != 2 {
		t.Errorf("%d runs are kept, want 2", n)
	}
	if r, err := ask(alice, "b"); err != nil || r.WorkflowID != first.WorkflowID {
		t.Errorf("what was asked for before: %v %+v", err, r)
	}
	if _, err := ask(bob, "c"); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if _, err := alice.decide(first.WorkflowID, api.Decision{Abort: true}); err != nil {
		t.Fatal(err)
	}
	if r, err := ask(alice, "c"); err != nil || r.Status != api.StatusApprovalRequired {
		t.Errorf("after one has ended: %v %+v", err, r)
	}
}
