package service_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// To continue a run passes the pause after a layer, for an agent as well where
// people decide, and each time one; a layer that the hil option asks about waits
// for its decision.
func TestContinue_Pauses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hil    core.HIL
		passes bool
		pin    bool
	}{
		"PerLayer":        {"", true, false},
		"Never":           {core.HILNever, true, false},
		"SideEffectsNone": {core.HILSideEffects, true, false}, // of calls that only read
		"Always":          {core.HILAlways, false, false},
		"PerLayerPin":     {"", true, true}, // which only decisions need
		"AlwaysPin":       {core.HILAlways, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", `{"version": 1, "approvals": {"decider": "human"}}`)
			m.write("a.txt", "x")
			if tt.pin {
				m.setPin(rightPin)
			}
			c := m.client()
			stat := `await mcp.workspace.stat({path: "a.txt"});`
			r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: stat + stat + stat + "return 1", By: agent, Wait: -1, RunOptions: core.RunOptions{PerLayer: true, HIL: tt.hil}})
			if err != nil {
				t.Fatal(err)
			}
			yes := api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1, Decision: &api.Decision{Approve: true}}
			if !tt.passes {
				if r.Pause {
					t.Error("it is called a pause")
				}
				if _, err := c.Continue(c.ctx(), yes); core.CodeOf(err) != core.CodeAwaitingHuman {
					t.Errorf("%v: anybody approves it", err)
				}
				if ap, err := c.Approval(c.ctx(), r.CheckpointID); err != nil || !ap.Human {
					t.Errorf("%v: anybody may decide it: %+v", err, ap)
				}
				again, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1})
				if err != nil || again.CheckpointID != r.CheckpointID {
					t.Errorf("%v: %s at %s, want it to wait at %s", err, again.Status, again.CheckpointID, r.CheckpointID)
				}
				return
			}
			for layer := range 2 {
				if r.Status != api.StatusLayerComplete || !r.Pause || r.LayerIndex == nil || *r.LayerIndex != layer || r.NextLayer.Index != layer+1 {
					t.Fatalf("after layer %d: %+v", layer, r)
				}
				waits, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1, Follow: true})
				if err != nil || waits.CheckpointID != r.CheckpointID {
					t.Fatalf("who only waits for the run: %s at %s, %v", waits.Status, waits.CheckpointID, err)
				}
				again := api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1}
				if layer == 1 { // a yes is the same word for it
					again = yes
				}
				if r, err = c.Continue(c.ctx(), again); err != nil {
					t.Fatal(err)
				}
			}
			if r.Status != api.StatusComplete {
				t.Errorf("%+v", r)
			}
		})
	}
}
