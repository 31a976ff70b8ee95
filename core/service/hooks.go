package service

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/store"
)

// newHooks runs the hook flows of a process, for all of its workspaces.
func newHooks(o Options, s *process) *hook.Runner {
	return hook.New(hook.Options{
		Store: o.Store, Sandbox: o.Hooks, Clock: o.Clock, NewID: o.NewID, Logger: o.Logger, Environ: o.Environ, Home: o.Home.Dir,
		Secrets: func(workspace string) func(string) string {
			h, err := s.host(workspace)
			if err != nil { // no call of it has passed its gates
				return func(string) string { return "(" + err.Error() + ")" }
			}
			return h.Redact
		},
		Tool: s.effect,
		MayStart: func(f *flow.Flow, n *flow.Node, workspace string) error {
			c, err := s.configOf(workspace)
			if err != nil {
				return err
			}
			return c.CheckProgram(f, n)
		},
		Expand: func(f *flow.Flow, workspace, text string) (string, map[string]string, error) {
			c, err := s.configOf(workspace)
			if err != nil {
				return "", nil, err
			}
			return c.ExpandFlow(f, text)
		},
	})
}

// effect makes the call of a tool that a hook has among its effects, as a run of its
// own below that of the call which the flow looks at. It passes the gates and meets no
// flows. One that a person would have to decide waits as any run does; the flow goes on.
func (c *process) effect(ctx context.Context, tc hook.ToolCall) (waits core.ID, err error) {
	eng, err := c.engineFor(ctx)
	if err != nil {
		return "", err
	}
	h, err := c.host(tc.Request.Workspace)
	if err != nil {
		return "", err
	}
	digest, err := core.Digest(tc.Args)
	if err != nil {
		return "", err
	}
	now := c.base.Clock.Now().UTC()
	run := core.Run{
		ID: c.base.NewID(), Side: c.base.Side, Workspace: tc.Request.Workspace, Owner: tc.Request.Owner, Kind: core.KindDAG, ParentID: tc.Request.RunID,
		Name: "effect of the flow " + core.Visible(tc.Flow, 60, false), CreatedAt: now, UpdatedAt: now, RequestedBy: core.Actor{Who: "flow:" + core.Visible(tc.Flow, 60, false), Via: core.ViaRule},
	}
	task := core.TaskSpec{ID: taskID("effect", tc.Args), Tool: tc.Tool, Arguments: literal(tc.Args)}
	passage := &core.Passage{} // no flow looks at it
	v := h.Check(ctx, engine.Call{
		RunID: run.ID, RunName: run.Name, Kind: run.Kind, Requester: run.RequestedBy, Owner: run.Owner,
		ID: task.ID, Tool: tc.Tool, Args: tc.Args, Digest: digest, ArgsKnown: true, Passage: passage,
	})
	v.Passage = passage
	s, err := eng.RunOne(ctx, engine.One{Run: run, Task: task, Verdict: v, Call: func(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
		return h.Call(ctx, call, progress)
	}})
	switch {
	case err != nil:
		return "", err
	case s.Run.Error != nil:
		return "", s.Run.Error
	case !s.Run.State.Final():
		return run.ID, nil
	}
	return "", nil
}

// unkept is how long a call may take that has no run in the store: reads have one only
// when they have ended.
const unkept = time.Hour

// FlowRuns lists what flows did, newest first. A process that dies right after the end of a
// call cannot write what its flows did: of such a call the journal of its run says how it
// ended.
func (c *view) FlowRuns(ctx context.Context, f store.FlowRunFilter) ([]core.FlowRun, error) {
	runs, err := c.o.Store.FlowRuns(ctx, f)
	if err != nil {
		return nil, err
	}
	read := map[core.ID]callEnds{}
	for i, r := range runs {
		if r.State != core.FlowPending {
			continue
		}
		ends, ok := read[r.RunID]
		if !ok {
			if ends, err = c.endsOf(ctx, r.RunID); err != nil {
				return nil, err
			}
			read[r.RunID] = ends
		}
		runs[i] = ends.settled(r, c.now())
	}
	return runs, nil
}

// callEnds are how the calls of a run ended, as far as they have.
type callEnds struct {
	run   *core.Run // nil: there is none in the store
	calls map[string]core.Record
}

func (c *view) endsOf(ctx context.Context, id core.ID) (callEnds, error) {
	run, err := c.o.Store.Run(ctx, id)
	if core.CodeOf(err) == core.CodeNotFound {
		return callEnds{}, nil
	}
	ends := callEnds{run: &run, calls: map[string]core.Record{}}
	if err != nil || !run.State.Final() && run.State != core.RunInterrupted {
		return ends, err // somebody runs it, and writes what its flows do
	}
	records, err := c.o.Store.Journal(ctx, id, 0)
	for _, r := range records {
		switch r.Kind {
		case core.RecordSettled:
			ends.calls[r.CallID] = r
		case core.RecordVoid:
			delete(ends.calls, r.CallID)
		case core.RecordStarted, core.RecordParked, core.RecordLayer:
		}
	}
	return ends, err
}

// settled is a flow run that waits for an answer, if it still can.
func (e callEnds) settled(r core.FlowRun, now time.Time) core.FlowRun {
	gone := core.Errorf(core.CodeCancelled, "pml ended before the call was answered")
	if e.run == nil {
		if now.Sub(r.StartedAt) < unkept {
			return r
		}
		return hook.Unanswered(r, gone)
	}
	end, ok := e.calls[r.CallID]
	switch {
	case ok && end.Passage != nil && !slices.ContainsFunc(end.Passage.Flows, func(p core.PassedFlow) bool { return p.RunID == r.ID }):
		return hook.Unanswered(r, core.Errorf(core.CodeCancelled, "pml ended before the call was answered, and the call met the flow again"))
	case ok && end.Outcome == core.OutcomeSuccess:
		return hook.Answered(r)
	case ok && end.Error != nil:
		return hook.Unanswered(r, end.Error)
	case ok || e.run.State.Final():
		return hook.Unanswered(r, gone)
	}
	return r
}
