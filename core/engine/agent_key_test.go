package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/model"
)

// A key that is gone by the time the model is asked is asked for, and not an error: nothing
// was sent, so nothing was lost.
func TestAgent_KeyGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var requests atomic.Int32
	b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		if requests.Add(1) == 1 {
			b.Host.Mu.Lock()
			b.Host.Needs[core.ModelTool] = true
			b.Host.Mu.Unlock()
			return model.Answer{}, core.Errorf(core.CodeModelNoKey, "the model has no key").WithNotMade()
		}
		return enginetest.Said("done"), nil
	}
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
	b.decide(p, h, core.ApproveKeys, true, nil)
	s := b.Wait(h, engine.Ended)
	if r := enginetest.AgentResult(t, s); !r.Success || r.Usage.LostAttempts != 0 {
		t.Errorf("%+v", r)
	}
}
