package flow

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// flow decodes a flow; its faults are those of single values.
func (r *reader) flow(v jsonc.Value, home bool) *Flow {
	f := &Flow{File: r.file, Home: home, Enabled: true, Mode: Enforce, Type: CallTool, text: r.doc.Text()}
	mode := string(Enforce)
	r.mark(v, "")
	r.fields(v, "", map[string]any{
		"id": &f.ID, "name": &f.Name, "description": &f.Description, "workflowType": &f.Type,
		"enabled": &f.Enabled, "createdAt": &f.CreatedAt, "updatedAt": &f.UpdatedAt,
		"priority": &f.Priority, "mode": &mode, "variables": &f.Variables, "uses": &f.Uses,
		"match": func(v jsonc.Value, at string) { r.match(f, v, at) },
		"nodes": func(v jsonc.Value, at string) {
			r.each(v, at, func(v jsonc.Value, at string) { f.Nodes = append(f.Nodes, r.node(v, at)) })
		},
		"edges": func(v jsonc.Value, at string) {
			r.each(v, at, func(v jsonc.Value, at string) { f.Edges = append(f.Edges, r.edge(v, at)) })
		},
	})
	f.Mode = Mode(mode)
	f.Faults, f.positions = r.faults, r.at
	return f
}

// match decodes what a flow matches. A part that cannot be read, or that pml does not
// know, is a fault and makes all of it match everything: a flow for one tool whose key
// is misspelt would meet every call, and nobody would be told why.
func (r *reader) match(f *Flow, v jsonc.Value, at string) {
	had := len(r.faults)
	list := func(names *[]string, to *globs) func(jsonc.Value, string) {
		return func(v jsonc.Value, at string) {
			texts, err := patterns(r.raw(v))
			if err == nil {
				*names = texts
				*to, err = compileGlobs(texts)
			}
			if err != nil {
				r.fault(v, at, "must be a glob, or a list of globs")
			}
		}
	}
	parts := map[string]any{
		"server": list(&f.Match.Server, &f.match.servers), "tool": list(&f.Match.Tool, &f.match.tools),
		"client": list(&f.Match.Client, &f.match.clients), "where": &f.Match.Where,
	}
	r.fields(v, at, parts)
	if obj, ok := v.Value.(*jsonc.Object); ok {
		for _, m := range obj.Members {
			if name := jsonc.Name(m); parts[name] == nil {
				r.fault(m.Name, member(at, name), "a flow matches by server, tool, client and where, not by %s%s", quoted(name), core.Suggest(name, slices.Sorted(maps.Keys(parts))))
			}
		}
	}
	if len(r.faults) > had {
		f.match = matcher{}
	}
}

func (r *reader) node(v jsonc.Value, at string) *Node {
	n := &Node{}
	r.fields(v, at, map[string]any{
		"id": &n.ID, "type": &n.Type, "deletable": &n.Deletable,
		"position": func(v jsonc.Value, at string) {
			r.fields(v, at, map[string]any{"x": &n.Position.X, "y": &n.Position.Y})
		},
		"data": func(v jsonc.Value, at string) { r.data(&n.Data, v, at) },
	})
	return n
}

func (r *reader) data(d *Data, v jsonc.Value, at string) {
	r.fields(v, at, map[string]any{
		"label": &d.Label, "parameters": &d.Parameters, "blocking": &d.Blocking,
		"timeoutMs": &d.TimeoutMS, "scope": &d.Scope, "failOpen": &d.FailOpen,
		"hook": func(v jsonc.Value, at string) {
			d.Hook = &Hook{Blocking: true}
			r.fields(v, at, map[string]any{"id": &d.Hook.ID, "hookModuleId": &d.Hook.Module, "script": &d.Hook.Script, "blocking": &d.Hook.Blocking})
		},
		"condition": func(v jsonc.Value, at string) {
			d.Condition = &Condition{}
			r.fields(v, at, map[string]any{"where": &d.Condition.Where, "expression": &d.Condition.Expression})
		},
		"set": func(v jsonc.Value, at string) {
			d.Set = &Assignment{}
			r.fields(v, at, map[string]any{"name": &d.Set.Name, "scope": &d.Set.Scope, "op": &d.Set.Op, "value": &d.Set.Value, "expression": &d.Set.Expression})
		},
		"approval": func(v jsonc.Value, at string) {
			d.Approval = &Question{}
			r.fields(v, at, map[string]any{"message": &d.Approval.Message})
		},
		"command": func(v jsonc.Value, at string) {
			d.Command = &Command{}
			r.fields(v, at, map[string]any{"command": &d.Command.Command, "args": &d.Command.Args, "env": &d.Command.Env})
		},
		"http": func(v jsonc.Value, at string) {
			d.HTTP = &HTTP{}
			r.fields(v, at, map[string]any{"url": &d.HTTP.URL, "headers": &d.HTTP.Headers})
		},
	})
}

func (r *reader) edge(v jsonc.Value, at string) *Edge {
	e := &Edge{}
	r.fields(v, at, map[string]any{"id": &e.ID, "source": &e.Source, "target": &e.Target, "label": &e.Label})
	return e
}

func (r *reader) module(v jsonc.Value) *Module {
	m := &Module{File: r.file}
	r.fields(v, "", map[string]any{"id": &m.ID, "name": &m.Name, "version": &m.Version, "description": &m.Description, "script": &m.Script})
	if m.ID == "" {
		r.fault(v, "/id", "a module needs an id")
	}
	return m
}

func (r *reader) manifest(v jsonc.Value) *Manifest {
	m := &Manifest{File: r.file, Blocking: true}
	var parameters json.RawMessage
	r.fields(v, "", map[string]any{
		"name": &m.Name, "version": &m.Version, "description": &m.Description,
		"parameters": &parameters, "script": &m.Script, "blocking": &m.Blocking,
	})
	m.Parameters = parameters
	if m.Name == "" {
		r.fault(v, "/name", "a node manifest needs a name")
	}
	return m
}
