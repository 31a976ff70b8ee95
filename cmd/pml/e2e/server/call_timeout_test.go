//go:build unix

package server_test

import (
	"sync"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// What a call waits for its place at a server, behind calls of other runs, is no
// part of its time limit.
func TestLimits_CallTimeoutBehindOthers(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits for a call that waits for others")
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Limits: map[string]any{"per_server": 1, "call_timeout": "6s"}})
	m.Serving()
	var wg sync.WaitGroup
	for range 8 { // the last one waits for longer than the limit of a call
		wg.Go(func() {
			r := m.Caller("").Execute(api.ExecuteBody{Code: `return await mcp.rec.slow({value: "done", ms: 900})`})
			if r.Status != api.StatusSuccess {
				t.Errorf("%s %v", r.Status, r.Error)
			}
		})
	}
	wg.Wait()
	if n := m.Count("slow"); n != 8 {
		t.Errorf("%d calls", n)
	}
}
