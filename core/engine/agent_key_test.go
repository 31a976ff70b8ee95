package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
)

// A key that is gone by the time the model is asked is asked for, and not an error: nothing
// was sent, so nothing was lost.
func TestAgent_KeyGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var requests atomic.Int32
	b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		if requests.Add(1) == 1 {
			b.host.mu.Lock()
			b.host.needs[core.ModelTool] = true
			b.host.mu.Unlock()
			return model.Answer{}, core.Errorf(core.CodeModelNoKey, "the model has no key").WithNotMade()
		}
		return said("done"), nil
	}
	p := b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
	b.wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
	b.decide(p, h, core.ApproveKeys, true, nil)
	s := b.wait(h, engine.Ended)
	if r := resultOf(t, s); !r.Success || r.Usage.LostAttempts != 0 {
		t.Errorf("%+v", r)
	}
}
