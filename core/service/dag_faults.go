package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

// allFaults completes the error of a DAG that is not valid with what the gates
// refuse of its tasks, so that a person mends all at once. It may start servers
// to learn their tools; what is not known when the context ends is left out.
func (c *programs) allFaults(ctx context.Context, tasks []core.TaskSpec, by core.Actor, err error) error {
	var invalid *core.Error
	if !errors.As(err, &invalid) || invalid.Code != core.CodeDAGInvalid || len(tasks) == 0 {
		return err
	}
	h, herr := c.own()
	if herr != nil {
		return err
	}
	out := *invalid
	out.Faults = slices.Clone(invalid.Faults)
	for i, pc := range dag.Sketch(tasks).Calls {
		call, ok := engine.PlannedCall(pc)
		if !ok {
			continue
		}
		call = call.Of(&core.Run{RequestedBy: by, Owner: c.scope.Owner, Kind: core.KindDAG})
		deny := h.Check(ctx, call).Deny
		if ctx.Err() != nil {
			break
		}
		if f, ok := faultOf(i, deny); ok && !(f.Path == argumentsOf(i) && len(tasks[i].Arguments) == 0 && malformed(invalid.Faults, i)) && !slices.ContainsFunc(out.Faults, func(g core.Fault) bool { return g.Path == f.Path }) {
			out.Faults = append(out.Faults, f)
		}
	}
	if len(out.Faults) > max(1, len(invalid.Faults)) {
		out.Message = fmt.Sprintf("the DAG is not valid: %d faults; nothing has run", len(out.Faults))
	}
	return &out
}

// withMisfits adds to the error of a DAG that cannot run, if there is one, the references
// that the schemas of tools speak against; those that may be right all the same become
// warnings of its plan. Tools that are not known when the context ends say nothing.
func (c *programs) withMisfits(ctx context.Context, p core.Program, err error) error {
	if p.Kind != core.KindDAG || err != nil && core.CodeOf(err) != core.CodeDAGInvalid {
		return err
	}
	g, gerr := engine.Graph(p)
	h, herr := c.own()
	if gerr != nil || herr != nil {
		return err
	}
	faults, warnings := g.Misfits(func(tool string) (core.Tool, bool) { return gate.Definition(ctx, h, tool) })
	p.Plan.Warnings = append(p.Plan.Warnings, warnings...)
	if len(faults) == 0 {
		return err
	}
	out := core.Error{Code: core.CodeDAGInvalid}
	if err != nil {
		out = *core.AsError(err)
	}
	out.Faults, out.Warnings = append(slices.Clone(out.Faults), faults...), p.Plan.Warnings
	out.Message = fmt.Sprintf("the DAG is not valid: %d faults; nothing was run", len(out.Faults))
	if len(out.Faults) == 1 {
		out.Message = "the DAG is not valid; nothing was run"
	}
	return &out
}

func argumentsOf(task int) string { return fmt.Sprintf("/tasks/%d/arguments", task) }

// malformed reports whether a task could not be read as it was meant: then arguments that
// it lacks may stand there by another name.
func malformed(faults []core.Fault, task int) bool {
	return slices.ContainsFunc(faults, func(f core.Fault) bool {
		return strings.HasPrefix(f.Path, fmt.Sprintf("/tasks/%d/", task)) || strings.HasPrefix(f.Path, fmt.Sprintf("/%d/", task))
	})
}

// faultOf places what makes a task of a DAG impossible whatever is decided.
func faultOf(task int, deny *core.Error) (core.Fault, bool) {
	if deny == nil {
		return core.Fault{}, false
	}
	switch deny.Code {
	case core.CodeNoSuchTool:
		return core.Fault{Path: fmt.Sprintf("/tasks/%d/tool", task), Message: deny.Message}, true
	case core.CodeInvalidArguments:
		return core.Fault{Path: argumentsOf(task), Message: deny.Message}, true
	default:
		return core.Fault{}, false
	}
}
