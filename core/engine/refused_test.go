package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// What a person refuses stays refused for the call that waited for it, also when
// the gates of the process that goes on have nothing to ask any more. A later
// call is none of it.
func TestRefused_WhileNothingIsAskedAnyMore(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.OnCall = func(call engine.Call) { // the server of b changes while the run goes on
				b.Host.Mu.Lock()
				defer b.Host.Mu.Unlock()
				b.Host.Needs["b"] = call.Tool == "a:read"
			}
			p := b.process()
			h := b.code(p, `await mcp.a.read({ n: 1 });
let said = "";
try { await mcp.b.read({ n: 2 }); } catch (e) { said = e.message; }
await mcp.b.read({ n: 3 });
return said`, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			if cold {
				p.close()
			}
			b.Host.Mu.Lock()
			b.Host.Needs["b"] = false
			b.Host.Mu.Unlock()
			if cold {
				p = b.process()
			}
			b.decide(p, h, core.ApproveDependency, false, nil)
			if cold {
				var err error
				if h, err = p.Resume(t.Context(), h.ID); err != nil {
					t.Fatal(err)
				}
			}
			s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
			if s.Run.State != core.RunComplete {
				t.Fatalf("%s: %v", s.Run.State, s.Run.Error)
			}
			if diff := cmp.Diff([]string{`a:read{"n":1}`, `b:read{"n":3}`}, b.Host.Called()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What fails to be carried out is tried once and ends its calls, also when other
// decisions were read while it was under way; it is not asked about again.
func TestApply_FailsWhileOthersDecide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.ApplyErr = core.Errorf(core.CodeInstallFailed, "no network")
	begun, hold, wrote := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	b.Host.OnApply = func() { begun <- struct{}{}; <-hold }
	b.Host.OnCall = func(call engine.Call) {
		if call.Tool == "a:ask" {
			close(wrote)
			return
		}
		b.Host.Mu.Lock()
		defer b.Host.Mu.Unlock()
		b.Host.Needs["b"] = true
	}
	p := b.process()
	h := b.code(p, `const r = await mcp.a.read({ n: 1 }); return await Promise.all([mcp.b.read(r).catch((e) => e.message), mcp.a.ask(r)])`, core.RunOptions{})
	b.Wait(h, enginetest.Pending(2))
	b.decide(p, h, core.ApproveDependency, true, nil)
	<-begun
	b.decide(p, h, core.ApproveTool, true, nil)
	<-wrote // so the approvals were read again
	close(hold)
	s := b.Wait(h, func(s engine.Status) bool {
		return engine.Ended(s) || len(s.Pending) > 0 && s.Pending[0].DecidedBy == nil
	})
	if s.Run.State != core.RunComplete || !strings.Contains(string(s.Run.Result), "no network") {
		t.Errorf("%s %s %+v", s.Run.State, s.Run.Result, s.Pending)
	}
	if n := len(begun); n != 0 {
		t.Errorf("it was tried %d times more", n)
	}
}
