//go:build unix

package stdio_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestClients_Elicitation: clients by others that can be asked are asked, in the
// way of their revision: within the call, or by input_required. A yes and a no
// count; an answer that nobody can have read does not.
func TestClients_Elicitation(t *testing.T) {
	t.Parallel()
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		askAll(t, goPeers()[:2]) // go-sdk
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		askAll(t, peers(clientPackages(t)))
	})
}

func askAll(t *testing.T, all []peer) {
	for _, p := range all {
		for _, over := range []string{"stdio", "TCP"} {
			for name, el := range map[string]elicits{
				"accept":           {Action: "accept", After: seen.Milliseconds()},
				"decline":          {Action: "decline", After: seen.Milliseconds()},
				"declines at once": {Action: "decline"},
			} {
				t.Run(p.name+" over "+over+" "+name, func(t *testing.T) {
					t.Parallel()
					if over == "TCP" {
						skiptest.Long(t, "does over TCP what it does over stdio")
					}
					m := &meeting{Machine: pmltest.NewMachine(t, pmltest.AllowRec()), peer: p, elicits: &el}
					if over == "TCP" {
						m.key = strings.TrimSpace(m.OK("server", "key", "add", "agent").Stdout)
					}
					m.begin()
					m.asked(el)
				})
			}
		}
	}
}

// asked runs a script that asks, and wants what the client's answer makes of it.
func (m *meeting) asked(el elicits) {
	m.T.Helper()
	r := m.call("execute", map[string]any{"code": pmltest.AsksOnce})
	for tries := 1; el.After == 0 && r.Status == api.StatusError && tries < 5; tries++ { // so busy a machine that a program took as long as a person
		r = m.call("execute", map[string]any{"code": pmltest.AsksOnce})
	}
	open, danger := len(m.Approvals()), m.Count("danger")
	switch {
	case el.After == 0:
		if r.Status != api.StatusApprovalRequired || open != 1 || danger != 0 || !strings.Contains(r.Reason, "without showing") {
			m.T.Fatalf("%+v; %d open, %d danger", r, open, danger)
		}
		m.elicits = nil
		m.JSON(0, "continue", string(r.WorkflowID), "--approve")
		if m.Count("danger") != 1 {
			m.T.Error("it cannot be approved any more")
		}
	case el.Action == "accept":
		if r.Status != api.StatusSuccess || open != 0 || danger != 1 || !strings.Contains(m.OK("audit", "ls", "--json").Stdout, "elicitation") {
			m.T.Errorf("%+v; %d open, %d danger\n%s", r, open, danger, m.OK("audit", "ls").Stdout)
		}
	default:
		if r.Status == api.StatusSuccess || r.Status == api.StatusApprovalRequired || open != 0 || danger != 0 {
			m.T.Errorf("%+v; %d open, %d danger", r, open, danger)
		}
	}
}
