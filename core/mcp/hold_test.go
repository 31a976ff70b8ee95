package mcp_test

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// holding is a Backend that holds for people by itself.
type holding struct {
	*fake
	hold func(id core.ID, limit time.Duration) (*api.Result, error)
}

func (h holding) Hold(_ context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	return h.hold(id, limit)
}

// A call that waits for a person does so in Hold, for the time that is left, with
// nothing of the start of its run and nothing of mcp-go under it.
func TestExecute_Holds(t *testing.T) {
	t.Parallel()
	waits := api.Result{Status: api.StatusApprovalRequired, WorkflowID: runID, Pending: []core.Approval{{ID: approvalID}}}
	tests := []struct {
		name, options string
		first         api.Result
		inExecute     bool // it is Execute that holds
		holds         bool
	}{
		{"Waits", `{"wait":60000}`, waits, false, true},
		{"NoWish", `{}`, waits, false, false},
		{"Ends", `{"wait":60000}`, api.Result{Status: api.StatusSuccess, WorkflowID: runID}, false, false},
		{"SameKey", `{"wait":60000,"idempotency_key":"k"}`, waits, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := newClock()
			held := 0
			b := holding{fake: &fake{t: t}, hold: func(id core.ID, limit time.Duration) (*api.Result, error) {
				held++
				if id != runID || limit != 50*time.Second {
					t.Errorf("held %s for %s", id, limit)
				}
				for _, frame := range []string{"HandleMessage", "fake).Execute"} {
					if strings.Contains(string(debug.Stack()), frame) {
						t.Errorf("%s is under a call that waits", frame)
					}
				}
				return &api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
			}}
			b.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
				now.add(10 * time.Second)
				if req.HoldApprovals != tt.inExecute {
					t.Errorf("Execute holds: %v", req.HoldApprovals)
				}
				return tt.first, nil
			}
			w := dial(t, newEdge(t, b, func(o *mcp.Options) { o.Clock = now }))
			w.send(callLine("1", "execute", `{"code":"1","options":`+tt.options+`}`, ""))
			want := tt.first.Status
			if tt.holds {
				want = api.StatusSuccess
			}
			if _, r := w.next().result(t); r.Status != want || held > 0 != tt.holds {
				t.Errorf("%s, held %d times", r.Status, held)
			}
		})
	}
}
