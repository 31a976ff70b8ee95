package mcp_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/mcp"
)

// Runs begin by turns, a few at a time. One that waits for a person, or that has
// made a call, keeps no place; one that only computes keeps it for a while.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		event       core.EventType
		least, most time.Duration // that each keeps its place
	}{
		"waits for a person": {core.EventApprovalRequested, 0, 100 * time.Millisecond},
		"has made a call":    {core.EventTaskStart, 0, 100 * time.Millisecond},
		"computes":           {core.EventLayerStart, time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, begun, let := begins(t, tt.event)
				w := dial(t, newEdge(t, f, func(o *mcp.Options) { o.Beginning = 2 }))
				const calls = 20
				at := time.Now()
				for i := range calls {
					w.send(callLine(strconv.Itoa(i), "execute", `{"code":"1","options":{"wait":3600000}}`, ""))
				}
				synctest.Wait()
				if n := len(begun); n != 2 {
					t.Errorf("%d have begun at once, want 2", n)
				}
				for range calls {
					<-begun
				}
				took := time.Since(at) // of a clock that stands while anything moves
				if took < tt.least*(calls/2-1) || took > tt.most*calls/2 {
					t.Errorf("all have begun after %s", took)
				}
				close(let)
				for range calls {
					w.next()
				}
			})
		})
	}
}

// A call that is given up before its turn begins nothing, and takes nobody's
// place.
func TestTurns_GivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, begun, let := begins(t, core.EventLayerStart)
		w := dial(t, newEdge(t, f, func(o *mcp.Options) { o.Beginning = 1 }))
		for _, id := range []string{"1", "2", "3"} {
			w.send(callLine(id, "execute", `{"code":"1"}`, ""))
			synctest.Wait()
		}
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		<-begun
		<-begun
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := len(begun); n != 0 {
			t.Errorf("what was given up has begun")
		}
		close(let)
		for range 2 {
			if _, r := w.next().result(t); r.WorkflowID != runID {
				t.Errorf("%+v", r)
			}
		}
	})
}
