//go:build unix

package server_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// loopOf4 makes four calls at one place, one after the other.
const loopOf4 = `for (let i = 0; i < 4; i++) { await mcp.rec.inc({key: "k" + i}); } return 1`

func asksInc() pmltest.Config {
	c := pmltest.AllowRec().AgentsDecide()
	c.Permissions["ask"] = []string{"rec:inc", "rec:danger"}
	return c
}

// proposed are the bounds that are proposed for the one call that waits.
func proposed(t testing.TB, ap core.Approval) core.Shape {
	t.Helper()
	s, ok := approval.Propose(approval.OfLoop([]core.Approval{ap}))
	if !ok {
		t.Fatalf("no bounds are proposed for %+v", ap)
	}
	return s
}

// shaped is a yes within bounds.
func shaped(s any) map[string]any {
	return map[string]any{"approved": true, "answer": map[string]any{"shape": s}, "wait": pmltest.Patience.Milliseconds()}
}

// TestShape_HTTP: a decision has bounds; those that are wider than the question, or not
// well-formed, are refused with what is wrong, and decide nothing.
func TestShape_HTTP(t *testing.T) {
	t.Parallel()
	onStores(t, asksInc(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		c := m.Caller("")
		r := c.Execute(api.ExecuteBody{Code: loopOf4})
		at := "/workflows/" + string(r.WorkflowID) + "/approvals/" + string(r.CheckpointID)
		ok := proposed(t, r.Pending[0])
		over := time.Now().Add(-time.Minute)
		for name, change := range map[string]func(s *core.Shape){
			"of another tool":      func(s *core.Shape) { s.Tool = "rec:danger" },
			"of another place":     func(s *core.Shape) { s.Place.Column++ },
			"of a higher risk":     func(s *core.Shape) { s.Risk = core.RiskHigh },
			"of a lower risk":      func(s *core.Shape) { s.Risk = core.RiskLow },
			"beyond the workspace": func(s *core.Shape) { s.Leaves = true },
			"for no call":          func(s *core.Shape) { s.Max = 0 },
			"for too many":         func(s *core.Shape) { s.Max = approval.MaxShapeCalls + 1 },
			"that are over":        func(s *core.Shape) { s.Until = &over },
			"of another value":     func(s *core.Shape) { s.Fields = []core.Bound{{Name: "key", Is: json.RawMessage(`"other"`)}} },
			"without an argument":  func(s *core.Shape) { s.Fields = []core.Bound{} },
			"with one more": func(s *core.Shape) {
				s.Fields = append(s.Fields, core.Bound{Name: "z", Types: []string{"text"}, Size: 9})
			},
			"of no kind":     func(s *core.Shape) { s.Fields = []core.Bound{{Name: "key", Size: 9}} },
			"without an end": func(s *core.Shape) { s.Fields = []core.Bound{{Name: "key", Types: []string{"text"}}} },
		} {
			s := ok
			change(&s)
			p := c.Post(at, shaped(s)).Problem(http.StatusBadRequest, core.CodeInvalidArguments)
			if p.Detail == "" {
				t.Errorf("%s: it does not say why", name)
			}
		}
		no := shaped(ok)
		no["approved"] = false
		c.Post(at, no).Problem(http.StatusBadRequest, core.CodeInvalidArguments)
		more := shaped(ok)
		more["answer"].(map[string]any)["remember"] = core.RememberRun
		c.Post(at, more).Problem(http.StatusBadRequest, core.CodeInvalidArguments)
		if w := c.Workflow(r.WorkflowID); m.Count("inc") != 0 || w.Approvals[0].State != core.ApprovalOpen {
			t.Fatalf("%d calls, the question is %s", m.Count("inc"), w.Approvals[0].State)
		}

		ok.Max = 3
		next := c.Post(at, shaped(ok)).Want(http.StatusOK).Result()
		if next.Status != api.StatusApprovalRequired || next.CheckpointID == r.CheckpointID || m.Count("inc") != 3 {
			t.Errorf("%d calls: %+v", m.Count("inc"), next)
		}
		var within []string
		var log api.Page[core.AuditRow]
		c.Get("/audit?args=true").Want(http.StatusOK).Decode(&log)
		for _, row := range log.Items {
			if row.CallID != "" {
				within = append(within, string(row.Arguments))
			}
		}
		if want := []string{`{"key":"k0"}`, `{"key":"k1"}`, `{"key":"k2"}`}; !slices.Equal(within, want) {
			t.Errorf("the arguments of the calls within the bounds: %q", within)
		}
		// The same again is what was decided; other bounds are not.
		c.Post(at, shaped(ok)).Want(http.StatusOK)
		ok.Max = 4
		c.Post(at, shaped(ok)).Problem(http.StatusConflict, core.CodeAlreadyDecided)
		if n := m.Count("inc"); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}

// TestShape_Agents: an agent gives no bounds, whatever it may approve by itself, on none of
// its ways; what it has tried is in the audit log.
func TestShape_Agents(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, asksInc())
	m.Serving()
	c := m.Caller("")
	r := c.Execute(api.ExecuteBody{Code: loopOf4})
	s := proposed(t, r.Pending[0])
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
	defer cancel()
	id, cp := r.WorkflowID, r.CheckpointID
	for _, answer := range []map[string]any{{"answer": map[string]any{"shape": s}}, {"shape": s}} {
		args := map[string]any{"workflow_id": id, "checkpoint_id": cp, "approved": true}
		maps.Copy(args, answer)
		for tool, args := range map[string]any{"approval_response": args, "execute": map[string]any{"continue_workflow": args}} {
			if got, _, code := c.Tool(ctx, tool, args); code != -32602 {
				t.Errorf("%s with %v: %d %+v", tool, answer, code, got)
			}
		}
	}
	at := "/workflows/" + string(id) + "/approvals/" + string(cp)
	m.Caller("mcp").Post(at, shaped(s)).Problem(http.StatusForbidden, core.CodePermissionDenied)
	if w := c.Workflow(id); m.Count("inc") != 0 || w.Approvals[0].State != core.ApprovalOpen {
		t.Fatalf("%d calls, the question is %s", m.Count("inc"), w.Approvals[0].State)
	}
	pmltest.Wants(t, m.OK("audit", "ls", "--json").Stdout, `"outcome": "refused"`, "an agent does not approve the calls of a loop as one")

	// A plain yes of it is one to this call.
	if next := c.Agent("approval_response", map[string]any{"workflow_id": id, "checkpoint_id": cp, "approved": true}); next.Status == api.StatusError {
		t.Errorf("%+v", next)
	}
	pmltest.WaitFor(t, "the next question", func() bool { return len(c.Approvals("")) == 1 && m.Count("inc") == 1 })
}
