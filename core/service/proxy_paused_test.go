package service_test

import (
	"encoding/json"
	"runtime"
	"testing"
	"weak"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Who made calls that waited, and have ended, is not remembered for ever; who
// made one that still waits is.
func TestThrough_PausedAreForgotten(t *testing.T) {
	t.Parallel()
	m, _ := exposing(t, exposeAll)
	c := m.client().trusting()
	call := func() (weak.Pointer[api.Peer], core.ID) {
		p := &api.Peer{ID: "p", Notify: func(string, json.RawMessage) {}}
		r, err := c.CallExposed(c.ctx(), "up:ask", api.OfferedCall{Args: json.RawMessage(`{}`), By: core.Actor{Who: "agent", Via: core.ViaMCP}, Peer: p})
		if err != nil || r.Paused == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		return weak.Make(p), r.Paused.WorkflowID
	}
	waiting, _ := call()
	var ended []weak.Pointer[api.Peer]
	for range 40 {
		p, run := call()
		if _, err := c.decide(run, api.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, p)
	}
	runtime.GC()
	held := 0
	for _, p := range ended {
		if p.Value() != nil {
			held++
		}
	}
	if held > 20 || waiting.Value() == nil {
		t.Errorf("%d of those that have ended are remembered, the one that waits: %v", held, waiting.Value() != nil)
	}
	runtime.KeepAlive(c)
}
