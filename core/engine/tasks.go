package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
)

// dagProgram runs the tasks of a DAG in topological order.
type dagProgram struct {
	graph   *dag.Graph
	waits   map[string]int // dependencies that have not settled
	settled map[string]delivery
	failed  []core.Failure
}

func newDAGProgram(p core.Program) (*dagProgram, error) {
	g, err := Graph(p)
	if err != nil {
		return nil, err
	}
	return &dagProgram{graph: g}, nil
}

// Graph builds the DAG of a program with its replans, each at its place.
func Graph(p core.Program) (*dag.Graph, error) {
	first := len(p.Tasks)
	if len(p.Added) > 0 {
		first = p.Added[0].From
	}
	g, err := dag.Build(p.Tasks[:first], nil)
	for i, add := range p.Added {
		end := len(p.Tasks)
		if i+1 < len(p.Added) {
			end = p.Added[i+1].From
		}
		if err == nil {
			g, err = g.Extend(p.Tasks[add.From:end], nil, add.Floor, nil)
		}
	}
	return g, err
}

func (d *dagProgram) start(context.Context) (turn, error) {
	tasks := d.graph.Tasks()
	d.waits = make(map[string]int, len(tasks))
	d.settled = make(map[string]delivery, len(tasks))
	d.failed = nil
	var t turn
	for i := range tasks {
		n := len(d.graph.DependsOn(tasks[i].ID))
		d.waits[tasks[i].ID] = n
		if n == 0 {
			t.calls = append(t.calls, d.issue(&tasks[i]))
		}
	}
	return d.finish(t), nil
}

func (d *dagProgram) deliver(_ context.Context, list []delivery) (turn, error) {
	var t turn
	for _, del := range list {
		id := del.call.id
		d.settled[id] = del
		switch del.outcome {
		case core.OutcomeError, core.OutcomeDenied, core.OutcomeCancelled:
			d.failed = append(d.failed, failure(id, del.call.tool, del.err))
		case core.OutcomeSuccess, core.OutcomeFailedSafe, core.OutcomeSkipped:
		}
		for _, next := range d.graph.Dependants(id) {
			if d.waits[next]--; d.waits[next] == 0 {
				spec, _ := d.graph.Task(next)
				t.calls = append(t.calls, d.issue(&spec))
			}
		}
	}
	return d.finish(t), nil
}

func (d *dagProgram) rest() {}

func (d *dagProgram) close() {}

// issue makes the call of a task whose dependencies have all settled.
func (d *dagProgram) issue(spec *core.TaskSpec) issued {
	is := issued{id: spec.ID, tool: spec.Tool, layer: d.graph.Layer(spec.ID), spec: spec}
	if spec.Type == core.TypeCode {
		is.tool = core.CodeTool
	}
	for _, dep := range d.graph.DependsOn(spec.ID) {
		s := d.settled[dep]
		switch s.outcome {
		case core.OutcomeError, core.OutcomeDenied, core.OutcomeCancelled:
			is.skip, is.reason = true, core.Errorf(core.CodeToolFailed, "not run: %s failed", dep)
		case core.OutcomeSkipped:
			if s.err != nil || spec.When == "" {
				is.skip, is.reason = true, s.err
			}
		case core.OutcomeSuccess, core.OutcomeFailedSafe:
		}
		if is.skip {
			is.args = spec.Arguments
			return is
		}
	}
	args, err := d.graph.Resolve(spec.ID, d.output)
	if err != nil {
		is.args, is.reason = spec.Arguments, core.AsError(err)
		return is
	}
	is.args = args
	if spec.Type == core.TypeCode {
		// What a code task computes from is part of what it is.
		is.args = d.scope(spec.ID)
	}
	return is
}

func (d *dagProgram) output(task string) (json.RawMessage, bool) {
	s, ok := d.settled[task]
	if !ok || s.outcome != core.OutcomeSuccess {
		return nil, false
	}
	return orNull(s.value), true
}

// scope is what a `when` expression or a code task sees as deps.
func (d *dagProgram) scope(id string) json.RawMessage {
	type dep struct {
		Status core.TaskState  `json:"status"`
		Output json.RawMessage `json:"output,omitempty"`
		Error  string          `json:"error,omitempty"`
	}
	deps := map[string]dep{}
	for _, name := range d.graph.DependsOn(id) {
		s := d.settled[name]
		v := dep{Status: s.outcome.State(), Output: s.value}
		if s.err != nil {
			v.Error = s.err.Message
		}
		deps[name] = v
	}
	raw, err := json.Marshal(deps)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// finish completes a turn: the program is done when every task has settled.
// Its result holds the outputs of the tasks that no other depends on.
func (d *dagProgram) finish(t turn) turn {
	if len(d.settled) < len(d.waits) {
		return t
	}
	t.done = true
	if len(d.failed) > 0 {
		t.err = failedTasks(d.failed, len(d.waits))
		return t
	}
	out := map[string]json.RawMessage{}
	for _, task := range d.graph.Tasks() {
		if len(d.graph.Dependants(task.ID)) == 0 && d.settled[task.ID].outcome == core.OutcomeSuccess {
			out[task.ID] = orNull(d.settled[task.ID].value)
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.err = core.Errorf(core.CodeInternal, "cannot encode the result of the DAG: %w", err)
		return t
	}
	t.result = raw
	return t
}

func failure(id, tool string, err *core.Error) core.Failure {
	f := core.Failure{TaskID: id, Tool: tool}
	if err != nil {
		f.Code, f.Error, f.Retryable = err.Code, err.Message, err.Retryable
	}
	return f
}

func failedTasks(failed []core.Failure, total int) *core.Error {
	code := failed[0].Code
	for _, f := range failed {
		if f.Code != code {
			code = core.CodeToolFailed
		}
	}
	if code == "" {
		code = core.CodeToolFailed
	}
	e := core.Errorf(code, "%d of %d tasks failed; first %s (%s): %s", len(failed), total, failed[0].TaskID, failed[0].Tool, failed[0].Error)
	e.Failures = failed
	e.Retryable = !slices.ContainsFunc(failed, func(f core.Failure) bool { return !f.Retryable })
	return e
}

func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return core.Null
	}
	return v
}
