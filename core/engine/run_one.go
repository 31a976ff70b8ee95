package engine

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/casys-ai/pml/core"
)

// One is a run of a single call, whose caller waits for it.
type One struct {
	Run  core.Run // without runner, state and version
	Task core.TaskSpec
	// Verdict is what the gates have just said of the call: they are not asked
	// again before its first attempt.
	Verdict Verdict
	// Call makes the call, as Host.Call does, for as long as the caller waits; what a
	// person lets go on later is the host's. A value beside an error is kept with it.
	Call func(ctx context.Context, call Call, progress func(string)) (json.RawMessage, error)
}

// RunOne makes a call as a run of its own, and returns when the run has ended, waits
// for a decision, or is left to another process. It takes two commits: that the run
// is there and the call is begun, before it is made; and how the call and the run
// have ended, before RunOne returns. The run is not in the store when the first one
// fails. The call is cancelled when the context ends; its outcome is kept all the
// same.
func (e *Engine) RunOne(ctx context.Context, one One) (Status, error) {
	if err := e.stopping(one.Run.ID); err != nil {
		return Status{}, err
	}
	if reserved(one.Task.Tool) {
		return Status{}, noSuchTool(one.Task.Tool)
	}
	a, err := e.newRun(one.Run, core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{one.Task}})
	if err != nil {
		return Status{}, err
	}
	a.unseen = func() bool { return true } // it is in no store yet
	a.gates.known = &one.Verdict
	a.layers.unmarked = true
	var caller attendance
	a.dispatch.make = func(work context.Context, call Call, progress func(string)) (json.RawMessage, error) {
		if !caller.begin() {
			return a.host.Call(work, call, progress)
		}
		defer caller.end()
		work, cancel := context.WithCancelCause(work)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		return one.Call(work, call, progress)
	}
	h, err := e.launch(a)
	if err != nil {
		return Status{}, err
	}
	for {
		s, err := h.Wait(context.WithoutCancel(ctx), Paused)
		if err == nil {
			err = s.Err
		}
		if caller.leave() || err != nil {
			return s, err
		}
	}
}

// attendance is whether the caller of RunOne still waits. A decision may let the call
// go on in the moment in which the caller sees that the run waits for one: then the
// caller stays until that call has ended, for it is made in the caller's name.
type attendance struct {
	mu     sync.Mutex
	left   bool
	making sync.WaitGroup
	calls  int
}

// begin reports whether a call is made for the caller, who then stays until its end.
func (a *attendance) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left {
		return false
	}
	a.calls++
	a.making.Add(1)
	return true
}

func (a *attendance) end() {
	a.mu.Lock()
	a.calls--
	a.mu.Unlock()
	a.making.Done()
}

// leave reports whether no call was under way; otherwise it waits for that one, and the
// caller looks again.
func (a *attendance) leave() bool {
	a.mu.Lock()
	if a.calls == 0 {
		a.left = true
		a.mu.Unlock()
		return true
	}
	a.mu.Unlock()
	a.making.Wait()
	return false
}
