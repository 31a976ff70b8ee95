package hook

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// tries is how often a node may be run because somebody else has changed the flow's
// variables that it has read.
const tries = 3

// maxRaces bounds how often a change that depends on nothing is tried again.
const maxRaces = 50

// writer is the member of kept variables that names who has written them, so that two
// writers never take the other's values, which may be equal, for their own.
const writer = ""

func keyOf(in flow.Input) core.FlowKey {
	key := core.FlowKey{Flow: in.Flow.ID}
	if !in.Flow.Home {
		key.Workspace = in.Request.Workspace
	}
	return key
}

// keeps reports whether a flow has variables that outlive its runs: those that it
// declares, and those that its set nodes give the scope flow.
func keepsVariables(f *flow.Flow) bool {
	for _, n := range f.Nodes {
		if n.Type == flow.TypeSet && n.Data.Set != nil && n.Data.Set.Scope == "flow" {
			return true
		}
	}
	return len(f.Variables) > 0
}

// load gives a flow run its first variables.
func (r *Runner) load(ctx context.Context, in *flow.Input) error {
	in.Variables = maps.Clone(in.Flow.Variables)
	if !keepsVariables(in.Flow) {
		return nil
	}
	_, kept, err := r.kept(ctx, *in)
	in.Variables = kept
	return err
}

// kept reads a flow's variables: those that were never set have their first values.
func (r *Runner) kept(ctx context.Context, in flow.Input) (version int64, values map[string]json.RawMessage, err error) {
	if r.o.Store == nil {
		return 0, nil, core.Errorf(core.CodeHookFailed, "there is no store for the variables of the flow")
	}
	v, err := r.o.Store.FlowVariables(ctx, keyOf(in))
	values = map[string]json.RawMessage{}
	maps.Copy(values, in.Flow.Variables)
	maps.Copy(values, v.Values)
	delete(values, writer)
	return v.Version, values, err
}

// change changes kept variables: by is given their values and changes them; false: it
// does not want to any more. Somebody else's change in between is waited for.
func (r *Runner) change(ctx context.Context, in flow.Input, key core.FlowKey, by func(map[string]json.RawMessage) (bool, error)) error {
	if r.o.Store == nil {
		return core.Errorf(core.CodeHookFailed, "there is no store for the variables of the flow")
	}
	for range maxRaces {
		v, err := r.o.Store.FlowVariables(ctx, key)
		if err != nil {
			return err
		}
		values := map[string]json.RawMessage{}
		if key == keyOf(in) {
			maps.Copy(values, in.Flow.Variables)
		}
		maps.Copy(values, v.Values)
		if goOn, err := by(values); err != nil || !goOn {
			return err
		}
		size := 0
		for name, value := range values {
			size += len(name) + len(value)
		}
		if size > maxVariables {
			return core.Errorf(core.CodeHookFailed, "the variables of the flow would take %d bytes, more than %d", size, maxVariables)
		}
		values[writer], _ = json.Marshal(r.o.NewID())
		err = r.o.Store.SetFlowVariables(ctx, key, core.FlowVariables{Version: v.Version + 1, Values: values})
		if core.CodeOf(err) != core.CodeNotWaiting {
			return err
		}
	}
	return faster(in)
}

func faster(in flow.Input) error {
	return core.Errorf(core.CodeHookFailed, "other calls kept changing the variables of the flow %s that it has read", core.Visible(in.Flow.ID, 80, false))
}

// keep writes those of some variables that belong to the flow. Where one of the flow's
// variables is not what the node has read any more, nothing is written, and fresh are
// the variables to run it with again. A flow in audit mode changes nothing.
func (e *execution) keep(ctx context.Context, in flow.Input, vars map[string]json.RawMessage, declared bool) (fresh map[string]json.RawMessage, err error) {
	ours := map[string]json.RawMessage{}
	for name, value := range vars {
		if _, is := in.Flow.Variables[name]; is || !declared {
			ours[name] = value
		}
	}
	if len(ours) == 0 || in.Flow.Mode == flow.Audit {
		return nil, nil
	}
	err = e.r.change(ctx, in, keyOf(in), func(values map[string]json.RawMessage) (bool, error) {
		for name := range ours {
			if !sameValue(values[name], in.Variables[name]) {
				fresh = maps.Clone(in.Variables)
				maps.Copy(fresh, values)
				delete(fresh, writer)
				return false, nil
			}
		}
		maps.Copy(values, ours)
		return true, nil
	})
	return fresh, err
}

func sameValue(a, b json.RawMessage) bool { return len(a) == 0 && len(b) == 0 || same(a, b) }

// set gives a variable its value.
func (e *execution) set(ctx context.Context, in flow.Input) (out flow.Output, err error) {
	a := in.Node.Data.Set
	for range tries {
		value := a.Value
		if a.Expression != "" {
			done, err := e.eval(ctx, in, a.Expression, true)
			out.Console = linesOf(done.Logs)
			if err != nil {
				return out, err
			}
			value = done.Value
		}
		lines := out.Console
		if a.Scope != "flow" || in.Flow.Mode == flow.Audit {
			out, err = a.Assign(in.Variables, value)
			out.Console = lines
			return out, err
		}
		if a.Expression == "" || a.Op == "add" || a.Op == "append" {
			err = e.r.change(ctx, in, keyOf(in), func(values map[string]json.RawMessage) (bool, error) {
				var err error
				out, err = a.Assign(values, value)
				maps.Copy(values, out.Variables)
				return true, err
			})
			out.Console = lines
			return out, err
		}
		out.Variables = map[string]json.RawMessage{a.Name: value}
		fresh, err := e.keep(ctx, in, out.Variables, false)
		if err != nil || fresh == nil {
			return out, err
		}
		in.Variables = fresh
	}
	return out, faster(in)
}
