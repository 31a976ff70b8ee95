package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/dag"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

// abortWait is how long an abort waits for the run's own process to carry it
// out before it says so.
const abortWait = 10 * time.Second

// Abort ends a run: what runs is cancelled, what is done stays.
func (c *execution) Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.State == core.RunAborted {
		return c.waiting.stored(ctx, run, api.StatusComplete)
	}
	below, err := c.below(ctx, run)
	if err != nil {
		return api.Result{}, err
	}
	// The run itself is first: otherwise it goes on with how its runs have ended, and a script
	// fails of that before it is aborted.
	for _, id := range append([]core.ID{id}, below...) {
		_, err := c.o.Store.RequestAbort(ctx, id, core.AbortRequest{By: by, At: c.now(), Reason: c.shownOf(run.Workspace).Text(reason)})
		if err != nil && (id == run.ID || core.CodeOf(err) != core.CodeNotWaiting) {
			return api.Result{}, err
		}
	}
	if run.Remote {
		if err := c.handover.abortGiven(ctx, id); err != nil {
			return api.Result{}, err
		}
	}
	result, err := c.waiting.follow(ctx, id, nil, abortWait, true, api.StatusComplete)
	c.waiting.ended(ctx, below)
	return result, err
}

// ended waits until runs below one that was aborted have ended, too: what they ask about is
// no longer asked then.
func (c *waiting) ended(ctx context.Context, ids []core.ID) {
	ctx, cancel := context.WithTimeout(ctx, abortWait)
	defer cancel()
	for _, id := range ids {
		if _, err := c.follow(ctx, id, nil, abortWait, true, api.StatusComplete); err != nil {
			c.o.Logger.Debug("a run below an aborted one has not been seen to end", "workflow_id", id, "error", err)
		}
	}
}

// Retry runs the failed calls of a failed run again, and what depends on them.
func (c *execution) Retry(ctx context.Context, id core.ID, _ core.Actor, wait time.Duration) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.Imported != nil {
		return api.Result{}, approval.Ended(run)
	}
	if run.State != core.RunFailed {
		return api.Result{}, notFailed(c.history.present(ctx, run))
	}
	if run.Remote {
		return api.Result{}, notHere(run)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	h, _, err := eng.Retry(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	r, err := c.waiting.wait(ctx, h, nil, 0, wait, false, api.StatusComplete)
	return *r, err
}

// notFailed is the error of a retry of a run that has not failed: it names what goes on with
// the run, where something does.
func notFailed(run core.Run) error {
	e := core.Errorf(core.CodeNotWaiting, "the run %s is %s; only a failed run can be retried", run.ID.Short(), run.State).WithRun(run.ID)
	switch {
	case run.Halted != nil:
		return e.WithNext("pml", "resume")
	case run.State == core.RunWaiting:
		return e.WithNext("pml", "approve", run.ID.Short())
	case run.State == core.RunInterrupted:
		return e.WithNext("pml", "continue", run.ID.Short())
	}
	return e
}

// Replan adds tasks to a DAG that waits or was interrupted. The next continue
// runs them; when the run waits to start a layer, it asks that anew.
func (c *execution) Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error) {
	w, err := c.history.Workflow(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if err := c.continuable(w.Run); err != nil {
		return api.Result{}, err
	}
	if w.Remote {
		return api.Result{}, notHere(w.Run)
	}
	if w.Kind != core.KindDAG {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "the run %s runs code; only a DAG can be replanned", id.Short()).WithRun(id)
	}
	if len(tasks) == 0 {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "there are no tasks to add")
	}
	program, err := c.o.Store.Program(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	graph, err := engine.Graph(program)
	if err != nil {
		return api.Result{}, err
	}
	next, err := graph.Extend(tasks, nil, w.CurrentLayer, nil)
	if err != nil {
		return api.Result{}, err
	}
	if err := c.foreseeAdded(ctx, w.Run, next.Plan(), len(program.Tasks)); err != nil {
		return api.Result{}, err
	}
	program.Version++
	program.Added = append(program.Added, core.Addition{From: len(program.Tasks), Floor: w.CurrentLayer})
	program.Tasks, program.Plan = next.Tasks(), next.Plan()
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	event := core.Event{Type: core.EventReplanned, At: c.now(), RunID: id, Message: c.shownOf(w.Workspace).Text(reason)}
	event.Data, err = json.Marshal(map[string]any{"new_task_ids": ids, "dag_version": program.Version})
	if err != nil {
		return api.Result{}, core.Errorf(core.CodeInternal, "cannot encode an event: %w", err)
	}
	if _, err := c.o.Store.Replan(ctx, id, program, by, event); err != nil {
		return api.Result{}, err
	}
	return api.Result{
		Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: len(tasks), NewTaskIDs: ids,
		TotalTasks: len(program.Tasks), TotalLayers: len(next.Layers()),
	}, nil
}

// foreseeAdded refuses added tasks that cannot be called. Those of the plan
// before from are there already.
func (c *execution) foreseeAdded(ctx context.Context, run core.Run, plan *core.Plan, from int) error {
	eng, err := c.engineFor(ctx)
	if err != nil {
		return err
	}
	_, err = eng.Foresee(ctx, run, core.Program{Kind: core.KindDAG, Plan: &core.Plan{Calls: plan.Calls[from:]}})
	return err
}

// parseTime is how long ParseDAG looks for what else is wrong with a DAG.
const parseTime = 5 * time.Second

// ParseDAG reads a DAG file in JSON. Of one that is not valid it also says which
// of its tools do not exist, for which it may start servers.
func (c *programs) ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error) {
	doc, err := dag.Parse(data)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), parseTime)
		defer cancel()
		return nil, nil, c.allFaults(ctx, doc.Tasks, core.Actor{}, err)
	}
	if len(doc.Tasks) == 0 {
		_, err = dag.Build(nil, nil)
	}
	return doc.Tasks, doc.Input, err
}

// Plan says what a program would do: its calls, layers and the gates that they
// would meet now. A DAG whose tasks can never be called is refused, as it is when it
// is to be run, and so is a script that is sure to call a tool that does not exist. It may start servers that may run anyway, to learn their tools; it
// calls none.
func (c *programs) Plan(ctx context.Context, req api.ExecuteRequest) (core.Plan, error) {
	h, err := c.own()
	if err != nil {
		return core.Plan{}, err
	}
	program, err := c.program(ctx, req)
	if err != nil {
		return core.Plan{}, c.allFaults(ctx, req.Tasks, req.By, err)
	}
	if program.Plan == nil {
		return core.Plan{}, core.Errorf(core.CodeInternal, "the program has no plan")
	}
	plan := *program.Plan
	plan.Calls = slices.Clone(plan.Calls)
	if len(plan.Unknown) > 0 {
		if plan.Gates, err = lookedAt(h, "*", nil); err != nil {
			return core.Plan{}, err
		}
	}
	mistakes := map[string]engine.Verdict{}
	for i := range plan.Calls {
		pc := &plan.Calls[i]
		if pc.Tool != core.CodeTool && pc.Tool != core.SleepTool {
			if pc.Gates, err = lookedAt(h, pc.Tool, pc.Gates); err != nil {
				return core.Plan{}, err
			}
		}
		call, ok := engine.PlannedCall(*pc)
		if !ok {
			continue
		}
		call = call.Of(&core.Run{RequestedBy: req.By, Owner: c.scope.Owner, Name: req.Name, Kind: program.Kind})
		v := h.Check(ctx, call)
		if ctx.Err() != nil {
			// A check that was cut short says nothing about the call.
			return core.Plan{}, core.Errorf(core.CodeCancelled, "stopped before every call was checked: %w", context.Cause(ctx))
		}
		if _, ok := faultOf(i, v.Deny); ok && (program.Kind == core.KindDAG || v.Deny.Code == core.CodeNoSuchTool) {
			mistakes[pc.ID] = v
		}
		pc.Gates = append(pc.Gates, gatesOf(v)...)
	}
	err = c.withMisfits(ctx, program, engine.Refused(program, mistakes))
	plan.Warnings = program.Plan.Warnings
	return plan, err
}

// gatesOf are the gates that a verdict tells of.
func gatesOf(v engine.Verdict) (list []core.PlanGate) {
	if v.Deny != nil {
		list = append(list, core.PlanGate{Message: fmt.Sprintf("%s: %s", v.Deny.Code, v.Deny.Message)})
	}
	for _, ask := range v.Ask {
		list = append(list, core.PlanGate{Type: ask.Type, Message: ask.Description})
	}
	return list
}

// lookedAt adds the flows that may look at calls of a tool to the gates of such a call.
func lookedAt(h *gate.Host, tool string, gates []core.PlanGate) ([]core.PlanGate, error) {
	flows, err := h.FlowsOf(tool)
	if err != nil || len(flows) == 0 {
		return gates, err
	}
	return append(gates, core.PlanGate{Type: core.ApproveHook, Message: "the flow " + strings.Join(flows, ", ") + " looks at it"}), nil
}

// CallTool makes one call as a run of its own, through all gates.
func (c *execution) CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (api.Result, error) {
	id := taskID(core.CalledTask, args)
	r, err := c.Execute(ctx, api.ExecuteRequest{
		By: by, Wait: wait,
		Tasks: []core.TaskSpec{{ID: id, Tool: tool, Arguments: literal(args)}},
	})
	if err != nil {
		return r, notDAG(err)
	}
	if r.Status != api.StatusSuccess {
		return r, nil
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(r.Result, &out); err != nil {
		return r, core.Errorf(core.CodeInternal, "cannot read the result of the call: %w", err)
	}
	r.Result = out[id]
	return r, nil
}

// notDAG gives the error of a call that cannot be made its own code: the caller
// knows of no DAG.
func notDAG(err error) error {
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeDAGInvalid || len(e.Faults) != 1 {
		return err
	}
	code, message := core.CodeNoSuchTool, e.Faults[0].Message
	if strings.HasSuffix(e.Faults[0].Path, "/arguments") {
		code = core.CodeInvalidArguments
	}
	return core.Errorf(code, "%s; nothing was run", message).WithNext(e.Next...)
}

// taskID is an id for the only task of a run that no text of its arguments looks like a
// reference to.
func taskID(id string, args json.RawMessage) string {
	for bytes.Contains(args, []byte(id)) {
		id += "_"
	}
	return id
}

// literal is an argument object as given: the only task of a DAG can refer to
// no other, so nothing in it is a reference.
func literal(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// Tools lists the tools of every server that needs no decision first; problems
// names the others and why.
func (c *execution) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	h, err := c.own()
	if err != nil {
		return nil, nil, err
	}
	return h.Tools(ctx)
}
