package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// Sends is a host that asks, as every real host does, right before it sends a call.
type Sends struct {
	*Host
	// Before, when set, is called with each call that is about to be asked about.
	Before func()
}

// Call implements engine.Host.
func (s *Sends) Call(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
	if s.Before != nil {
		s.Before()
	}
	if err := call.Before(ctx); err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	return s.Host.Call(ctx, call, progress)
}

// HaltCalls halts all calls, as somebody would from another process.
func HaltCalls(t testing.TB, s Surroundings) {
	t.Helper()
	if _, err := s.Halt(t.Context(), core.Halt{By: core.Actor{Who: "ann", Via: core.ViaCLI}, At: time.Now(), Reason: "wrong"}); err != nil {
		t.Error(err)
	}
}

// LetCallsGo lets calls go on that were halted.
func LetCallsGo(t testing.TB, s Surroundings) {
	t.Helper()
	if was, err := s.LetGo(t.Context(), core.Resumption{By: core.Actor{Who: "ann", Via: core.ViaCLI}, At: time.Now(), Presence: core.PresenceTerminal}); err != nil || was == nil {
		t.Error(was, err)
	}
}

// IsHalted is a Wait condition: the run waits because calls are halted.
func IsHalted(s engine.Status) bool { return s.Run.State == core.RunWaiting && s.Run.Halted != nil }

// testHalt halts calls while runs make them, by another process: once that is said, none
// begins, whether it is journaled before or not, and afterwards every call is made once.
func testHalt(w *World) {
	const runs, calls = 8, 60
	enough, halted := make(chan struct{}, runs*calls+1), make(chan struct{})
	var n atomic.Int64
	w.Host.OnCall = func(engine.Call) {
		enough <- struct{}{}
		if n.Add(1) > 3*runs { // no run ends before calls are halted
			<-halted
		}
	}
	w.As = &Sends{Host: w.Host}
	p, other := w.Process(), w.other()
	var handles []*engine.Handle
	for i := range runs {
		handles = append(handles, w.Code(p, fmt.Sprintf(`for (let i = 0; i < %d; i++) await (i %% 3 ? mcp.a.write : mcp.a.read)({ run: %d, i }); return "done"`, calls, i)))
	}
	for range 2 * runs {
		<-enough
	}
	HaltCalls(w.T, other)
	made := len(w.Host.Called())
	close(halted)
	for _, h := range handles {
		s := w.Wait(h, func(s engine.Status) bool { return engine.Ended(s) || IsHalted(s) })
		if engine.Ended(s) {
			w.T.Fatalf("the run %s ended: %s", h.ID, s.Run.Result)
		}
		if h := s.Run.Halted; h.By.Who != "ann" || h.Reason != "wrong" {
			w.T.Errorf("halted: %+v", h)
		}
	}
	if now := len(w.Host.Called()); now > made+runs { // a call of each run had been admitted
		w.T.Errorf("%d calls were made after %d", now-made, made)
	}
	stopped := len(w.Host.Called())
	late := w.Code(p, `return await mcp.a.write({ late: true })`)
	w.Wait(late, IsHalted)
	if now := w.Host.Called(); len(now) != stopped {
		w.T.Errorf("calls while halted: %v", now[stopped:])
	}
	LetCallsGo(w.T, other)
	for _, h := range append(handles, late) {
		if s := w.Wait(h, engine.Ended); s.Run.State != core.RunComplete || s.Run.Halted != nil {
			w.T.Errorf("%s ended %s: %v", h.ID, s.Run.State, s.Run.Error)
		}
	}
	all := w.Host.Called()
	slices.Sort(all)
	if len(all) != runs*calls+1 || len(slices.Compact(all)) != runs*calls+1 {
		w.T.Errorf("%d calls were made, want %d different ones", len(all), runs*calls+1)
	}
}

// testHaltBeforeSend: a call that is admitted, and not sent yet, is not sent once calls are
// halted. It has begun without harm: nobody is asked what became of it.
func testHaltBeforeSend(w *World) {
	other := w.other()
	as := &Sends{Host: w.Host}
	w.As = as
	for _, tool := range []string{"read", "write"} {
		first, before := true, len(w.Host.Called())
		as.Before = func() {
			if first {
				first = false
				HaltCalls(w.T, other)
			}
		}
		p := w.Process()
		h := w.Code(p, fmt.Sprintf(`return await mcp.a.%s({ n: 1 })`, tool))
		w.Wait(h, IsHalted)
		if got := w.Host.Called(); len(got) != before {
			w.T.Fatalf("called %v", got)
		}
		p.Close() // and it survives the process
		LetCallsGo(w.T, other)
		s := w.Wait(w.Resume(w.Process(), h.ID), engine.Ended)
		if got := w.Host.Called(); s.Run.State != core.RunComplete || len(got) != before+1 {
			w.T.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, got)
		}
	}
}
