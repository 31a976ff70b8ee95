package route

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/policy"
)

// Execute runs a program in the half that it belongs to. One that is to outlive
// this process goes to a server. Where no server is named everything else runs
// here. A named server gets the whole of a program whose tools are all the
// server's, and answers what an intent could mean; any other program runs here,
// and calls the server's tools one by one.
func (b *Backend) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	if b.o.Server == "" && !req.Detach {
		return b.o.Local.Execute(ctx, req)
	}
	if b.o.Server != "" && req.Agent != nil && !req.Detach { // it acts with this machine's tools, too
		return b.o.Local.Execute(ctx, req)
	}
	if b.o.Server != "" && (req.Code != "" || len(req.Tasks) > 0) {
		whole, err := b.mayGo(ctx, req)
		if err != nil {
			return api.Result{}, err
		}
		if !whole {
			return b.o.Local.Execute(ctx, req)
		}
	}
	r, err := b.mustServer(ctx)
	if err != nil {
		return api.Result{}, err
	}
	return b.send(ctx, r, req)
}

// send gives a request to a server, and runs here what comes back.
func (b *Backend) send(ctx context.Context, r Remote, req api.ExecuteRequest) (api.Result, error) {
	res, err := b.watched(ctx, r, req.Wait, func(l *live) (api.Result, error) {
		started := req.Started
		req.Started = func(id core.ID) {
			if started != nil {
				started(id)
			}
			l.follow(id, 0)
		}
		return r.Execute(ctx, req)
	})
	if err != nil || res.Status != api.StatusExecuteLocally {
		return res, err
	}
	if req.Detach {
		if _, err := r.Abort(ctx, res.WorkflowID, req.By, "it was to outlive its caller"); err != nil {
			b.warn("the run " + res.WorkflowID.Short() + " could not be ended on the server: " + core.AsError(err).Message)
		}
		return api.Result{}, core.Errorf(core.CodeInvalidConfig, "the server at %s gives the run %s back, as its routing says that %s run on the caller's machine; leave --detach out, or change the routing",
			r.Name(), res.WorkflowID.Short(), strings.Join(res.ClientTools, ", ")).WithRun(res.WorkflowID)
	}
	return b.given(ctx, r, req, res)
}

// given runs what was sent to a server and came back, under the id that the
// server knows it by, and reports the end. The same request again goes on with
// the same run. What comes back must be what was sent: a server decides where a
// program runs, never which one runs here.
func (b *Backend) given(ctx context.Context, r Remote, req api.ExecuteRequest, res api.Result) (api.Result, error) {
	id := res.WorkflowID
	if req.Code == "" && len(req.Tasks) == 0 && req.Accept == nil {
		return b.proposed(ctx, r, req, res)
	}
	req.ID, req.Origin = id, r.Name()
	// The key is the server's: it has led to this id.
	req.IdempotencyKey = ""
	var out api.Result
	err := sameProgram(r, req, res)
	if err == nil {
		out, err = b.o.Local.Execute(ctx, req)
	}
	if err != nil {
		b.refused(ctx, r, id, err)
		return out, err
	}
	if out.Status == api.StatusComplete { // it was begun before
		out.Status = api.StatusSuccess
	}
	b.settled(ctx, id, out)
	return out, nil
}

// sameProgram refuses an answer that holds another program than was sent. What
// was accepted is made into tasks here, as there.
func sameProgram(r Remote, req api.ExecuteRequest, res api.Result) error {
	var tasks []core.TaskSpec
	if res.Workflow != nil {
		tasks = res.Workflow.Tasks
	}
	same := res.Code == req.Code
	if same && req.Accept == nil {
		sent, err1 := core.DigestOf(slices.Concat([]core.TaskSpec{}, req.Tasks))
		back, err2 := core.DigestOf(slices.Concat([]core.TaskSpec{}, tasks))
		same = err1 == nil && err2 == nil && sent == back
	}
	if same {
		return nil
	}
	return core.Errorf(core.CodeDigestMismatch, "the server at %s gives another program back than it was sent; it was not run", r.Name())
}

// proposed shows what a server would have this machine run for an intent. Nobody
// here has seen it, so that it does not run by itself.
func (b *Backend) proposed(ctx context.Context, r Remote, req api.ExecuteRequest, res api.Result) (api.Result, error) {
	if _, err := r.Abort(ctx, res.WorkflowID, req.By, "its tools are the client's, where it must be accepted first"); err != nil {
		b.warn("the run " + res.WorkflowID.Short() + " could not be ended on the server: " + core.AsError(err).Message)
	}
	if res.Suggestions == nil && res.Workflow != nil {
		res.Suggestions = &api.Suggestions{SuggestedDAG: &api.SuggestedDAG{Tasks: res.Workflow.Tasks}, Tools: []api.SuggestedTool{}}
	}
	if res.Suggestions == nil {
		return api.Result{}, core.Errorf(core.CodeInvalidConfig, "the server at %s proposes code that this machine is to run; nothing was run", r.Name())
	}
	return api.Result{Status: api.StatusSuggestions, Suggestions: res.Suggestions, Faults: res.Faults}, nil
}

// refused tells a server that a run that it gave to this machine did not even
// begin here; one that did is reported when it ends.
func (b *Backend) refused(ctx context.Context, r Remote, id core.ID, why error) {
	ctx = context.WithoutCancel(ctx)
	if _, _, err := b.o.Local.Resolve(ctx, string(id)); !unknown(err) {
		return
	}
	t := api.Trace{State: core.RunFailed, Error: core.AsError(why), Records: []core.Record{}}
	if err := r.Trace(ctx, id, t); err != nil {
		b.warn("the server does not know that the run " + id.Short() + " did not begin: " + core.AsError(err).Message)
	}
}

// settled reports a run of this machine that has ended, where a server waits to
// hear of it.
func (b *Backend) settled(ctx context.Context, id core.ID, res api.Result) {
	if b.o.Server == "" || id == "" || res.Totals == nil {
		return // it has not ended, or no server has given anything
	}
	if w, err := b.o.Local.Workflow(ctx, id); err == nil {
		b.report(ctx, w.Run)
	}
}

// report tells the server how a run ended that it gave to this machine. A report
// that does not arrive is a warning, and is sent again with the next look at
// the run.
func (b *Backend) report(ctx context.Context, run core.Run) {
	b.mu.Lock()
	done := b.reported[run.ID]
	b.mu.Unlock()
	if run.Origin == "" || !run.State.Final() || done {
		return
	}
	err := b.trace(ctx, run)
	if err != nil && core.CodeOf(err) != core.CodeAlreadyDecided && !unknown(err) {
		b.warn("the server " + run.Origin + " does not know yet how the run " + run.ID.Short() + " ended; it is told with the next look at the run: " +
			core.AsError(err).Message)
		return
	}
	b.mu.Lock()
	b.reported[run.ID] = true
	b.mu.Unlock()
}

func (b *Backend) trace(ctx context.Context, run core.Run) error {
	r, err := b.server(ctx, false)
	if err != nil {
		return err
	}
	if r == nil || r.Name() != run.Origin {
		return core.Errorf(core.CodeServerUnreachable, "another server, or none, is named now; name it with --server %s", run.Origin)
	}
	t, err := b.o.Local.TraceOf(ctx, run.ID)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = r.Trace(ctx, run.ID, t)
	if core.CodeOf(err) != core.CodeTooLarge {
		return err
	}
	// How it ended matters more than what it did.
	t.Records = []core.Record{}
	if err = r.Trace(ctx, run.ID, t); core.CodeOf(err) != core.CodeTooLarge {
		return err
	}
	t.Result = nil
	return r.Trace(ctx, run.ID, t)
}

// Continue decides, if a decision is given, and goes on with a run in its half.
func (b *Backend) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	return b.move(ctx, req.ID, func(h Half) (api.Result, error) {
		return b.watched(ctx, h, req.Wait, func(l *live) (api.Result, error) {
			l.follow(req.ID, fromNow)
			return h.Continue(ctx, req)
		})
	})
}

// Retry runs the failed calls of a failed run again.
func (b *Backend) Retry(ctx context.Context, id core.ID, by core.Actor, wait time.Duration) (api.Result, error) {
	return b.move(ctx, id, func(h Half) (api.Result, error) {
		return b.watched(ctx, h, wait, func(l *live) (api.Result, error) {
			l.follow(id, fromNow)
			return h.Retry(ctx, id, by, wait)
		})
	})
}

// Abort ends a run.
func (b *Backend) Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	return b.move(ctx, id, func(h Half) (api.Result, error) { return h.Abort(ctx, id, by, reason) })
}

// Replan adds tasks to a DAG.
func (b *Backend) Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error) {
	return b.move(ctx, id, func(h Half) (api.Result, error) { return h.Replan(ctx, id, tasks, by, reason) })
}

// ReplanFor adds tasks that are suggested for a requirement.
func (b *Backend) ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error) {
	return b.move(ctx, id, func(h Half) (api.Result, error) { return h.ReplanFor(ctx, id, requirement, available, by, reason) })
}

// move does something with a run in its half.
func (b *Backend) move(ctx context.Context, id core.ID, do func(Half) (api.Result, error)) (api.Result, error) {
	h, local, err := b.half(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	res, err := do(h)
	if err == nil && local {
		b.settled(ctx, id, res)
	}
	return res, err
}

// mayGo reports whether a program may go to the named server as a whole. One
// that is to outlive this process must, unless the rules here deny it.
func (b *Backend) mayGo(ctx context.Context, req api.ExecuteRequest) (bool, error) {
	plan, err := b.o.Local.Plan(ctx, req)
	if err != nil {
		return false, err
	}
	if !req.Detach {
		return b.whole(ctx, plan)
	}
	unseen := core.PlanCall{Tool: "a call that is known only when it is made", Gates: plan.Gates}
	for _, call := range append(plan.Calls, unseen) {
		for _, g := range call.Gates {
			switch g.Type { //nolint:exhaustive // the server asks about the others
			case "":
				return false, core.Errorf(core.CodePermissionDenied, "%s may not be called: %s; nothing was sent", call.Tool, g.Message)
			case core.ApproveHook:
				return false, core.Errorf(core.CodePermissionDenied, "%s is not sent to the server: on this machine %s, and a run of the server's would not meet it; leave --detach out", call.Tool, g.Message)
			}
		}
	}
	return true, nil
}

// whole reports whether a named server may have the whole of a program: no tool
// of it is this machine's, none is unknown before it runs, the rules here
// neither deny one nor ask about one, and no flow here looks at one.
func (b *Backend) whole(ctx context.Context, plan core.Plan) (bool, error) {
	if len(plan.Unknown) > 0 {
		return false, nil
	}
	var known map[string]bool
	for _, call := range plan.Calls {
		if call.Tool == core.CodeTool || call.Tool == core.SleepTool || call.Tool == "" {
			continue
		}
		name, tool, ok := core.SplitTool(call.Tool)
		if !ok || len(call.Gates) > 0 || strings.Contains(name, "*") || strings.Contains(tool, "*") {
			return false, nil
		}
		side, explicit, err := b.side(call.Tool)
		if err != nil {
			return false, err
		}
		if known == nil {
			if known, err = b.servers(ctx); err != nil {
				return false, err
			}
		}
		if side != core.SideServer && (explicit || known[name]) {
			return false, nil
		}
	}
	return true, nil
}

// servers are the names of the MCP servers that this machine has.
func (b *Backend) servers(ctx context.Context) (map[string]bool, error) {
	list, err := b.o.Servers(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{builtin: true, core.AgentServer: true}
	for _, s := range list {
		known[s.Name] = true
	}
	return known, nil
}

// builtin is the MCP server that every pml has inside: its files are those of
// this machine.
const builtin = "workspace"

// side is the half that the routing gives a tool to; explicit is set where a
// pattern says so.
func (b *Backend) side(tool string) (side core.Side, explicit bool, err error) {
	routing, err := b.o.Routing()
	if err != nil {
		return "", false, err
	}
	b.mu.Lock()
	p := b.patterns
	b.mu.Unlock()
	if p == nil {
		if p, err = policy.Compile(policy.Rules{Allow: policy.Patterns(routing.Server...), Ask: policy.Patterns(routing.Client...)}); err != nil {
			return "", false, core.Errorf(core.CodeInvalidConfig, "the routing is not valid; correct it in .pml.json or config.json: %w", err)
		}
		b.mu.Lock()
		b.patterns = p
		b.mu.Unlock()
	}
	switch v := p.Decide(tool, false); {
	case v.Rule == "":
		return routing.Default, false, nil
	case v.Effect == policy.Allow:
		return core.SideServer, true, nil
	}
	return core.SideClient, true, nil
}

// Plan says what a program would do, as this machine sees it.
func (b *Backend) Plan(ctx context.Context, req api.ExecuteRequest) (core.Plan, error) {
	return b.o.Local.Plan(ctx, req)
}

// ParseDAG reads a DAG file in JSON.
func (b *Backend) ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error) {
	return b.o.Local.ParseDAG(data)
}
