package service

import (
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

// proxyRunner is this process's id as a runner. A process that only serves clients
// has nobody else who sees that it has lost its standing.
func (c *Service) proxyRunner(ctx context.Context) (string, error) {
	c.mu.Lock()
	if c.runner == nil {
		runner, err := c.base.Store.Register(ctx)
		if err != nil {
			c.mu.Unlock()
			return "", err
		}
		c.runner = runner
	}
	runner := c.runner
	c.mu.Unlock()
	select {
	case <-runner.Lost():
		fresh, err := c.reregister(ctx, runner)
		if err != nil {
			return "", err
		}
		return fresh.ID(), nil
	default:
		return runner.ID(), nil
	}
}

// closeProxy waits for the calls that are under way, and keeps what was read.
func (c *Service) closeProxy(ctx context.Context) {
	c.through.calls.Wait()
	c.flushReads(ctx)
}

// journaled makes the call as a run of its own: it is there before the call is
// made, and its outcome before the result is given to anybody.
func (t *proxyCall) journaled(ctx context.Context, v engine.Verdict) (api.OfferedResult, error) {
	eng, err := t.c.engineFor(ctx)
	if err == nil {
		_, err = t.c.proxyRunner(ctx)
	}
	if err != nil {
		return api.OfferedResult{}, err
	}
	run, err := t.c.newRun(api.ExecuteRequest{ID: t.call.RunID, By: t.by}, core.Program{Kind: core.KindDAG, Tasks: t.tasks()})
	if err != nil {
		return api.OfferedResult{}, err
	}
	// What the server said in the last attempt, as it said it.
	var raw gate.Raw
	var failed error
	begun := false
	s, err := eng.RunOne(ctx, engine.One{
		Run: run, Task: t.tasks()[0], Verdict: v,
		Call: func(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
			begun = true
			if call.Digest == t.call.Digest { // byte by byte; a person may have changed them
				call.Args = t.call.Args
			}
			raw, failed = t.h.Through(ctx, call, func(string) { progress("") })
			return raw.Result, t.failure(raw, failed)
		},
	})
	switch {
	case err != nil && begun:
		e := *core.AsError(err)
		e.Message = "the outcome of the call could not be kept, and so is not given: " + e.Message
		return api.OfferedResult{}, e.WithRun(run.ID)
	case err != nil:
		return api.OfferedResult{}, err
	case s.Run.State == core.RunRunning, s.Run.State == core.RunInterrupted: // whoever goes on with it asks
		return api.OfferedResult{}, core.Errorf(core.CodeCancelled, "pml stopped before %s had answered; it may have had its effect", t.call.Tool).WithRun(run.ID)
	case s.Run.State == core.RunAborted && failed != nil && s.Run.Abort != nil:
		return api.OfferedResult{}, core.Errorf(core.CodeAborted, "aborted by %s; %s was told to stop, and may have had its effect", s.Run.Abort.By.Name(), t.call.Tool).WithRun(run.ID)
	case s.Run.State.Final() && begun && !isNotMade(failed):
		return api.OfferedResult{Raw: raw.Result}, saidOf(s.Run, failed)
	}
	r, err := t.c.standsAt(ctx, &s, nil, 0, false, api.StatusSuccess)
	if err != nil {
		return api.OfferedResult{}, err
	}
	return t.offered(*r)
}

// saidOf is why the call of a run has failed: as its server said it, or as the run
// has it where the engine has ended the call.
func saidOf(run core.Run, failed error) error {
	if failed == nil || asPeer(failed) != nil || run.Error == nil || len(run.Error.Failures) == 0 {
		return failed
	}
	f := run.Error.Failures[0]
	if f.Code == core.CodeOf(failed) {
		return failed
	}
	return core.Errorf(f.Code, "%s", f.Error).WithRun(run.ID)
}

// The bounds of for how many calls that wait for a decision it is remembered who
// has made them. Of the oldest beyond that, servers can ask nobody.
const (
	pausedLook = 16 // from so many on it is looked which of them have ended
	pausedMost = 1024
)

// pausedCalls are calls that wait for a decision, oldest first: once it is there
// they are made for the client that wanted them.
type pausedCalls struct {
	list []pausedCall
	next int // so many are the next occasion to look
}

type pausedCall struct {
	host *gate.Host
	run  core.ID
}

// stays keeps for whom the run of a call that waits is made, until it has ended.
// To look costs as much as there were new ones since the last look.
func (t *proxyCall) stays(ctx context.Context) {
	th := t.c.through
	th.mu.Lock()
	p := &th.paused
	p.list = append(p.list, pausedCall{t.h, t.call.RunID})
	if len(p.list) < max(p.next, pausedLook) {
		th.mu.Unlock()
		return
	}
	all := p.list
	p.list = nil
	th.mu.Unlock()
	var left []pausedCall
	for _, call := range all {
		if t.c.over(ctx, call.run) {
			call.host.Leave(call.run)
		} else {
			left = append(left, call)
		}
	}
	for len(left) > pausedMost {
		left[0].host.Leave(left[0].run)
		left = left[1:]
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	p.list = append(left, p.list...)
	p.next = 2 * len(p.list)
}

// over reports whether a run has ended, or is not there any more.
func (c *Service) over(ctx context.Context, id core.ID) bool {
	run, err := c.base.Store.Run(ctx, id)
	if err != nil {
		return core.CodeOf(err) == core.CodeNotFound
	}
	return run.State.Final() || run.State != core.RunRunning && run.ExpiresAt != nil && !c.now().Before(*run.ExpiresAt)
}
