package analyze

import (
	"strconv"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// declare makes a variable in the innermost scope.
func (a *analyser) declare(id *ast.Identifier, v *value) {
	f := a.facts[id.Idx]
	if f == nil {
		f = &facts{}
		a.facts[id.Idx] = f
	}
	name := id.Name.String()
	if old := a.env.vars[name]; old != nil && old.facts != f { // var twice
		old.facts.assigned, f.assigned = true, true
	}
	a.env.vars[name] = &variable{val: v, facts: f, depth: a.branches}
}

// bind gives a value to a pattern: a declaration, or an assignment.
func (a *analyser) bind(target ast.Expression, v *value, declare bool) {
	defer func() { a.depth-- }()
	if !a.deeper() {
		return
	}
	switch t := target.(type) {
	case *ast.Identifier:
		if declare {
			a.declare(t, v)
			return
		}
		if old := a.env.find(t.Name.String()); old != nil {
			old.facts.assigned = true
			if old.depth == a.branches {
				old.val = v
			} else {
				old.val = merge(old.val, v)
			}
		} else if v.ref.kind != refNone || v.holds {
			a.note(t.Idx, "mcp is handed on here; calls made through it are not seen")
		}
	case *ast.AssignExpression: // a default
		a.bind(t.Left, withDefault(v, a.maybe(t.Right)), declare)
	case *ast.Binding:
		if t.Initializer != nil {
			v = withDefault(v, a.maybe(t.Initializer))
		}
		a.bind(t.Target, v, declare)
	case *ast.ObjectPattern:
		a.bindObject(t, v, declare)
	case *ast.ArrayPattern:
		for i, el := range t.Elements {
			if el != nil {
				a.bind(el, property(v, strconv.Itoa(i), true), declare)
			}
		}
		if t.Rest != nil {
			a.bind(t.Rest, rest(v), declare)
		}
	case *ast.DotExpression, *ast.BracketExpression:
		a.member(t)
		a.changed(t, v)
	}
}

func (a *analyser) bindObject(t *ast.ObjectPattern, v *value, declare bool) {
	for _, p := range t.Properties {
		switch p := p.(type) {
		case *ast.PropertyShort:
			w := property(v, p.Name.Name.String(), true)
			if p.Initializer != nil {
				w = withDefault(w, a.maybe(p.Initializer))
			}
			a.bind(&p.Name, w, declare)
		case *ast.PropertyKeyed:
			name, known := a.key(p.Key, p.Computed)
			a.bind(p.Value, property(v, name, known), declare)
		}
	}
	if t.Rest != nil {
		a.bind(t.Rest, rest(v), declare)
	}
}

// maybe walks a default, which is used or not.
func (a *analyser) maybe(e ast.Expression) *value {
	var v *value
	a.either(nil, func() { v = a.expr(e) }, func() {})
	return v
}

// withDefault is a value that is replaced by a default where it is undefined; nobody
// knows which of the two it is.
func withDefault(v, def *value) *value {
	if v.ref.kind != refNone { // tools are always there
		return v
	}
	return merge(v, def)
}

// rest is what is left of a value after some parts were taken.
func rest(v *value) *value {
	w := part(v)
	w.pend = nil
	w.ref, w.holds = ref{}, v.holds || v.ref.kind != refNone
	if v.ref.kind == refServer {
		w.ref = v.ref
	}
	return w
}

// assign walks an assignment, whose value is what was assigned. An object has two
// names from then on, and a change by one would not be seen by the other, so its
// literal is given up.
func (a *analyser) assign(e *ast.AssignExpression) *value {
	v := a.expr(e.Right)
	if e.Operator != token.ASSIGN {
		old := a.expr(e.Left)
		v = merge(old, v)
	}
	a.bind(e.Left, v, false)
	out := *v
	if !primitive(out.lit) {
		out.lit = noLit // two names for one object
	}
	return &out
}

// changed notes that something inside a variable's value is replaced.
func (a *analyser) changed(target ast.Expression, v *value) {
	root := a.root(target)
	if root == nil {
		if v.ref.kind != refNone || v.holds {
			a.note(target.Idx0(), "mcp is handed on here; calls made through it are not seen")
		}
		return
	}
	root.facts.escaped = true
	old := root.val
	w := merge(old, &value{deps: v.deps, inner: v.all(), lit: noLit, holds: v.holds || v.ref.kind != refNone, ref: old.ref, fn: old.fn})
	w.lit = old.lit
	root.val = w
}

// maxChain bounds a.b.c…, each part of which asks for the root.
const maxChain = 200

// root is the variable at the start of a chain of members.
func (a *analyser) root(e ast.Expression) *variable {
	for range maxChain {
		switch t := e.(type) {
		case *ast.Identifier:
			return a.env.find(t.Name.String())
		case *ast.DotExpression:
			e = t.Left
		case *ast.BracketExpression:
			e = t.Left
		case *ast.OptionalChain:
			e = t.Expression
		case *ast.Optional:
			e = t.Expression
		default:
			return nil
		}
	}
	a.tooDeep = true
	return nil
}

// property is a member of a value. Of mcp it is a server, of a server a tool, and a
// name that is not known is "*". Of an array or object whose members are known it is
// that member; the length of an array holds no promise of its own. Otherwise it is any
// part of the value.
func property(v *value, name string, known bool) *value {
	if !known {
		name = "*"
	}
	switch v.ref.kind {
	case refRoot:
		return &value{ref: ref{refServer, name, ""}, lit: noLit}
	case refServer:
		return &value{ref: ref{refTool, v.ref.server, name}, lit: noLit}
	case refAny:
		return &value{deps: v.deps, ref: anyRef, lit: noLit}
	case refNone, refTool:
	}
	if known {
		if p := v.props[name]; p != nil {
			return p
		}
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(v.elems) {
			return v.elems[n]
		}
		if name == "length" {
			return &value{deps: v.deps, lit: noLit}
		}
	}
	return part(v)
}
