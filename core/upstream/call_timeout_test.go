package upstream_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// Progress of a call counts as a sign of life, and the errors name the keys.
func TestCall_Silence(t *testing.T) {
	t.Parallel()
	a := newAsker(t, func(a *asker, id json.RawMessage, event func(string)) {
		for i := range 3 {
			event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p1\",\"progress\":%d}}\n\n", i+1))
		}
		<-a.answers // never
	})
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close(); close(a.answers) })
	var alive, told atomic.Int32
	_, err := m.Call(t.Context(), upstream.Request{
		Launch: remote(a.url), Tool: "x", Timeout: 300 * time.Millisecond, Alive: func() { alive.Add(1) },
		Progress: func(string, float64, float64) { told.Add(1) },
	})
	wantCode(t, err, core.CodeToolTimeout, "did not answer within 300ms, nor tell of progress (limits.call_timeout)")
	if told.Load() != alive.Load() || told.Load() != 3 {
		t.Errorf("%d signs, told of %d", alive.Load(), told.Load())
	}
	_, err = m.Call(t.Context(), upstream.Request{Launch: remote(a.url), Tool: "x", Timeout: -1, Total: 300 * time.Millisecond})
	wantCode(t, err, core.CodeToolTimeout, "took longer than 300ms in all (limits.call_total)")
}
