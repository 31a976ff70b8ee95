package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
)

// Foresight is what the gates said of a program's planned calls before there
// was a run. Start takes it over, so that nothing is asked twice.
type Foresight struct {
	verdicts map[string]Verdict // by the id of the planned call
}

// Foresee passes what a program is sure to call through the gates and returns
// all that makes it impossible in one error: then no run is made. It may start
// servers to learn their tools. When the context ends first it returns nil:
// the run will find out by itself.
func (e *Engine) Foresee(ctx context.Context, run core.Run, p core.Program) (*Foresight, error) {
	if p.Plan == nil {
		return nil, nil
	}
	host, err := e.hostOf(run)
	if err != nil {
		return nil, err
	}
	f := &Foresight{verdicts: e.checkPlanned(ctx, host, run, p.Plan.Calls)}
	if ctx.Err() != nil {
		return nil, nil
	}
	if err := Refused(p, f.verdicts); err != nil {
		return nil, err
	}
	return f, nil
}

// Refused is all that makes a program impossible in what the gates said of its planned
// calls, by their ids, in one error.
func Refused(p core.Program, verdicts map[string]Verdict) error {
	var refused []refusal
	for i, pc := range p.Plan.Calls {
		if deny := verdicts[pc.ID].Deny; deny != nil && hopeless(p.Kind, pc, deny.Code) {
			refused = append(refused, refusal{i, pc, deny})
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return refusals(p, refused)
}

// atOnce is how many servers are looked at at the same time.
const atOnce = 4

// checkPlanned passes planned calls through the gates. Servers start side by
// side; the calls of one follow each other, because the first makes it known.
func (e *Engine) checkPlanned(ctx context.Context, host Host, run core.Run, calls []core.PlanCall) map[string]Verdict {
	servers := map[string][]Call{}
	for _, pc := range calls {
		if call, ok := PlannedCall(pc); ok {
			call = call.Of(&run)
			server, _, _ := core.SplitTool(call.Tool)
			servers[server] = append(servers[server], call)
		}
	}
	var mu sync.Mutex
	verdicts := make(map[string]Verdict, len(calls))
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, list := range servers {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			for _, call := range list {
				v := e.foretell(ctx, host, call)
				mu.Lock()
				verdicts[call.ID] = v
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return verdicts
}

// refusal is a planned call that cannot be made.
type refusal struct {
	index int // in the plan; of a DAG also in its tasks
	call  core.PlanCall
	err   *core.Error
}

// hopeless reports whether a refusal that was foreseen stops the program before
// it starts. A script may not get to a call, or mean to catch wrong arguments;
// a DAG that names what does not exist is a mistake whatever its conditions.
func hopeless(kind core.Kind, pc core.PlanCall, code core.Code) bool {
	certain := kind == core.KindDAG || !pc.Conditional && !pc.Repeated
	switch code {
	case core.CodeNoSuchTool, core.CodeNotTrusted, core.CodeInvalidConfig:
		return certain
	case core.CodeInvalidArguments:
		return kind == core.KindDAG
	default:
		return false
	}
}

// refusals makes one error of all that cannot be called.
func refusals(p core.Program, list []refusal) *core.Error {
	first := list[0].err
	code, message := first.Code, first.Message
	for _, r := range list {
		if r.err.Code == core.CodeNoSuchTool {
			code = r.err.Code
		}
	}
	if p.Kind == core.KindDAG && code != core.CodeNotTrusted && code != core.CodeInvalidConfig {
		code = core.CodeDAGInvalid
	}
	if slices.ContainsFunc(list, func(r refusal) bool { return r.err.Message != first.Message }) {
		message = fmt.Sprintf("%d calls cannot be made", len(list))
	}
	e := core.Errorf(code, "%s; nothing was run", message).WithNext(first.Next...)
	e.Warnings = p.Plan.Warnings
	for _, r := range list {
		if r.err.Code == core.CodeInvalidConfig && len(r.err.Faults) > 0 {
			e.Faults = append(e.Faults, once(e.Faults, r.err.Faults)...)
			continue
		}
		f := core.Fault{Message: r.err.Message}
		if r.call.At.Line > 0 {
			at := r.call.At
			f.At, f.File = &at, p.File
			if e.Location == nil {
				e.Location = &at
			}
		} else {
			f.Path = fmt.Sprintf("/tasks/%d/%s", r.index, faulty(r.err.Code))
		}
		e.Faults = append(e.Faults, f)
	}
	if code == core.CodeDAGInvalid && strings.Join(e.Next, " ") == "pml trust" {
		e.Next = nil
	}
	return e
}

// once are the faults that are not in a list already: calls of one server fail
// for the same reasons.
func once(have, more []core.Fault) []core.Fault {
	return slices.DeleteFunc(slices.Clone(more), func(f core.Fault) bool {
		return slices.ContainsFunc(have, func(g core.Fault) bool { return g.File == f.File && g.Path == f.Path && g.Message == f.Message })
	})
}

// faulty is the part of a task that a refusal is about.
func faulty(code core.Code) string {
	if code == core.CodeInvalidArguments {
		return "arguments"
	}
	return "tool"
}
