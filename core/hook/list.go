package hook

import (
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// listed is a tool as flows about lists see it, and give it back.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Annotations *listedHints    `json:"annotations,omitempty"`
}

type listedHints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// List runs the flows of tools/list on the tools of a server (req.Tool): in their order
// before, in reverse order on the list. They may leave tools out, change titles and
// descriptions, and make annotations stricter; all else is an error, and then there is
// no list. The tools that are given are not changed.
func (r *Runner) List(ctx context.Context, set *flow.Set, req flow.Request, tools []core.Tool) ([]core.Tool, error) {
	flows, err := set.ForList(req)
	if err != nil || len(flows) == 0 {
		return tools, err
	}
	p := &core.Passage{}
	answer := flow.Answer{}
	for _, f := range flows {
		half := r.first(ctx, f, req, p)
		if half.Err != nil {
			err := r.named(half.Err, f)
			r.second(ctx, set, req, p, flow.Answer{Err: err}, false)
			return nil, err
		}
		if len(half.Response) > 0 {
			answer.Result = half.Response
			break
		}
	}
	if len(answer.Result) == 0 {
		if answer.Result, err = json.Marshal(map[string][]listed{"tools": listedOf(tools)}); err != nil {
			return nil, core.Errorf(core.CodeHookFailed, "the tools of %s cannot be given to a flow: %w", core.Visible(req.Tool, 80, false), err)
		}
	}
	if answer = r.second(ctx, set, req, p, answer, false); answer.Err != nil {
		return nil, answer.Err
	}
	return relisted(tools, answer.Result)
}

func listedOf(tools []core.Tool) []listed {
	out := make([]listed, 0, len(tools))
	for _, t := range tools {
		l := listed{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema}
		if t.Annotations != (core.Annotations{}) {
			hints := listedHints(t.Annotations)
			l.Annotations = &hints
		}
		out = append(out, l)
	}
	return out
}

// relisted are the tools that are left of a list, as flows have changed them.
func relisted(tools []core.Tool, result json.RawMessage) ([]core.Tool, error) {
	var list struct {
		Tools []listed `json:"tools"`
	}
	fault := func(format string, args ...any) ([]core.Tool, error) {
		return nil, core.Errorf(core.CodeHookFailed, "the list of tools that a flow has made is refused: "+format, args...)
	}
	if err := strict(result, &list); err != nil || list.Tools == nil {
		return fault("it must be {tools: [{name, title, description, inputSchema, annotations}]}")
	}
	known := map[string]core.Tool{}
	for _, t := range tools {
		known[t.Name] = t
	}
	out := make([]core.Tool, 0, len(list.Tools))
	for _, l := range list.Tools {
		t, ok := known[l.Name]
		if !ok {
			return fault("its server has no tool %s, or it is there twice", core.Visible(l.Name, 80, false))
		}
		delete(known, l.Name)
		if len(l.InputSchema) > 0 && !same(l.InputSchema, t.InputSchema) {
			return fault("a flow cannot change the input schema of %s", core.Visible(l.Name, 80, false))
		}
		t.Title, t.Description = l.Title, l.Description
		if l.Annotations != nil {
			now := core.Annotations(*l.Annotations)
			if !stricter(t.Annotations, now) {
				return fault("the annotations of %s can only become stricter", core.Visible(l.Name, 80, false))
			}
			t.Annotations = tightened(t.Annotations, now)
		}
		out = append(out, t)
	}
	return out, nil
}

// stricter reports whether no hint promises more than it did. A hint that is left away
// stays as it was.
func stricter(was, now core.Annotations) bool {
	promises := func(was, now *bool, promise bool) bool {
		return now == nil || *now != promise || was != nil && *was == promise
	}
	return promises(was.ReadOnly, now.ReadOnly, true) && promises(was.Idempotent, now.Idempotent, true) &&
		promises(was.Destructive, now.Destructive, false) && promises(was.OpenWorld, now.OpenWorld, false)
}

func tightened(was, now core.Annotations) core.Annotations {
	either := func(was, now *bool) *bool {
		if now != nil {
			return now
		}
		return was
	}
	return core.Annotations{
		ReadOnly: either(was.ReadOnly, now.ReadOnly), Destructive: either(was.Destructive, now.Destructive),
		Idempotent: either(was.Idempotent, now.Idempotent), OpenWorld: either(was.OpenWorld, now.OpenWorld),
	}
}
