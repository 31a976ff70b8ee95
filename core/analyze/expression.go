package analyze

import (
	"maps"
	"math"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// expr walks an expression and says what is known of its value.
func (a *analyser) expr(e ast.Expression) *value {
	defer func() { a.depth-- }()
	if !a.deeper() {
		return unknown()
	}
	switch e := e.(type) {
	case nil:
		return unknown()
	case *ast.Identifier:
		return a.identifier(e)
	case *ast.DotExpression, *ast.BracketExpression:
		v, _, _ := a.member(e)
		return v
	case *ast.OptionalChain:
		return a.expr(e.Expression)
	case *ast.Optional:
		return a.expr(e.Expression)
	case *ast.CallExpression:
		return a.call(e)
	case *ast.AwaitExpression:
		return a.await(a.expr(e.Argument))
	case *ast.ArrayLiteral:
		return a.array(e)
	case *ast.ObjectLiteral:
		return a.object(e)
	case *ast.ArrowFunctionLiteral:
		return &value{fn: a.function(e.ParameterList, e.Body, e.Async), lit: noLit}
	case *ast.FunctionLiteral:
		return &value{fn: a.function(e.ParameterList, e.Body, e.Async), lit: noLit}
	case *ast.AssignExpression:
		return a.assign(e)
	case *ast.SequenceExpression:
		v := unknown()
		for _, x := range e.Sequence {
			v = a.expr(x)
		}
		return v
	case *ast.ClassLiteral:
		return a.class(e)
	default:
		return a.operation(e)
	}
}

// operation walks what makes a new value out of others. Whatever it does not know,
// such as a regular expression, has no facts: it can hold neither results of calls
// nor mcp.
func (a *analyser) operation(e ast.Expression) *value {
	switch e := e.(type) {
	case *ast.NullLiteral:
		return &value{lit: nil}
	case *ast.BooleanLiteral:
		return &value{lit: e.Value}
	case *ast.NumberLiteral:
		return &value{lit: numberOf(e.Value)}
	case *ast.StringLiteral:
		if s := e.Value.String(); sound(s) {
			return &value{lit: s}
		}
	case *ast.TemplateLiteral:
		return a.template(e)
	case *ast.BinaryExpression:
		return a.binary(e)
	case *ast.ConditionalExpression:
		by := a.expr(e.Test).deps // which side it is depends on these calls, so the result does
		var x, y *value
		a.either(by, func() { x = a.expr(e.Consequent) }, func() { y = a.expr(e.Alternate) })
		out := merge(x, y)
		out.deps = union(out.deps, by)
		return out
	case *ast.UnaryExpression:
		return a.unary(e)
	case *ast.SpreadElement:
		return part(a.expr(e.Expression))
	case *ast.YieldExpression:
		if e.Argument != nil {
			v := a.expr(e.Argument)
			if a.ret == nil {
				a.ret = v
			} else {
				a.ret = merge(a.ret, v)
			}
		}
	case *ast.NewExpression:
		return a.construct(e)
	case *ast.PrivateDotExpression:
		return part(a.expr(e.Left))
	}
	return unknown()
}

// numberOf is a number as JSON has it; what JSON has no number for is not known.
func numberOf(v any) any {
	var f float64
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case float64:
		f = v
	default:
		return noLit
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return noLit
	}
	return f
}

// identifier reads a variable, or a global name that no variable hides: mcp is the
// root of all tools, undefined is itself, and any other global has nothing to do with
// calls. An object that is read as a whole, and not as an argument of a tool, may be
// handed to code that changes it: it has escaped, and its literal is not known any
// more.
func (a *analyser) identifier(id *ast.Identifier) *value {
	name := id.Name.String()
	v := a.env.find(name)
	if v == nil {
		switch name {
		case "mcp":
			return &value{ref: ref{kind: refRoot}, lit: noLit}
		case "undefined":
			return &value{lit: undefined{}}
		}
		return unknown()
	}
	if !a.inArgs && !primitive(v.val.lit) {
		v.facts.escaped = true
	}
	return v.known()
}

// known is the variable's value without what a later change could make wrong.
func (v *variable) known() *value {
	out := *v.val
	if v.facts.assigned || v.facts.escaped && !primitive(out.lit) {
		out.lit = noLit
	}
	if v.facts.assigned {
		if out.ref.kind != refNone {
			out.ref = anyRef
		}
		out.fn = nil
	}
	return &out
}

// template joins a template literal, which is known if all that it puts in is. One
// with a tag calls the tag: a tool as a tag is a call whose arguments are not known.
func (a *analyser) template(e *ast.TemplateLiteral) *value {
	out := &value{}
	s, ok := "", e.Tag == nil
	if e.Tag != nil {
		out = a.expr(e.Tag)
		if out.ref.kind >= refTool {
			return a.record(out.ref, e.Tag.Idx0(), unknown())
		}
	}
	for i, el := range e.Elements {
		s += el.Parsed.String()
		if i < len(e.Expressions) {
			v := a.expr(e.Expressions[i])
			out.deps = union(out.deps, v.deps)
			t, plain := text(v.lit)
			s, ok = s+t, ok && plain
		}
	}
	if ok && sound(s) {
		return &value{deps: out.deps, lit: s}
	}
	return &value{deps: out.deps, lit: noLit}
}

// binary walks an operator with two sides. The right side of && || ?? runs under a
// condition, so calls in it are calls that may not be made. Of the others only + is
// computed, and only where one side is a text: that is how scripts put paths and
// names together. Arithmetic is not worth the risk of computing it otherwise than
// the engine that runs the script.
func (a *analyser) binary(e *ast.BinaryExpression) *value {
	x := a.expr(e.Left)
	switch e.Operator {
	case token.LOGICAL_AND, token.LOGICAL_OR, token.COALESCE:
		var y *value
		a.either(x.deps, func() { y = a.expr(e.Right) }, func() {})
		return merge(x, y)
	}
	y := a.expr(e.Right)
	out := &value{deps: union(x.deps, y.deps), lit: noLit}
	if e.Operator == token.PLUS {
		s, ok1 := text(x.lit)
		t, ok2 := text(y.lit)
		_, str1 := x.lit.(string)
		_, str2 := y.lit.(string)
		if ok1 && ok2 && (str1 || str2) {
			out.lit = s + t
		}
	}
	return out
}

// unary walks an operator with one side. ++, -- and delete change what they stand
// before, which costs that variable its literal.
func (a *analyser) unary(e *ast.UnaryExpression) *value {
	v := a.expr(e.Operand)
	out := &value{deps: v.deps, lit: noLit}
	switch e.Operator {
	case token.MINUS:
		if f, ok := v.lit.(float64); ok {
			out.lit = -f
		}
	case token.NOT:
		if b, ok := v.lit.(bool); ok {
			out.lit = !b
		} else if f, ok := v.lit.(float64); ok {
			out.lit = f == 0
		}
	case token.VOID:
		out.lit = undefined{}
	case token.INCREMENT, token.DECREMENT:
		a.bind(e.Operand, out, false)
	case token.DELETE:
		a.changed(e.Operand, unknown())
	}
	return out
}

// array walks an array. Its elements are known one by one up to the first spread:
// nobody knows how many elements that brings, so those before it lose their places
// too and all of them go to inner, the set of what may be anywhere in it.
func (a *analyser) array(e *ast.ArrayLiteral) *value {
	out := &value{elems: []*value{}}
	list, plain := []any{}, true
	for _, x := range e.Value {
		if x == nil {
			list, plain = nil, false
			out.elems = append(out.elems, unknown())
			continue
		}
		v := a.expr(x)
		if _, spread := x.(*ast.SpreadElement); spread {
			plain = false
			out.inner = union(out.inner, v.all(), inside(&value{elems: out.elems}))
			out.elems = nil
		} else if out.elems != nil {
			out.elems = append(out.elems, v)
		} else {
			out.inner = union(out.inner, v.all())
		}
		out.deps = union(out.deps, v.deps)
		out.holds = out.holds || v.holds || v.ref.kind != refNone
		plain = plain && v.literal()
		list = append(list, v.lit)
	}
	out.lit = noLit
	if plain {
		out.lit = list
	}
	return out
}

// object walks an object. A later property replaces an earlier one of its name, as it
// does at run time, and a spread brings those of a known object. An accessor, a name
// that is computed and not known, or __proto__, which is no property of its own, costs
// the literal of the whole; what such a property holds goes to inner.
func (a *analyser) object(e *ast.ObjectLiteral) *value {
	out := &value{props: map[string]*value{}}
	obj, plain := &object{vals: map[string]any{}}, true
	for _, p := range e.Value {
		var v *value
		name, known := "", false
		switch p := p.(type) {
		case *ast.PropertyShort:
			name, known = p.Name.Name.String(), true
			v = a.identifier(&p.Name)
		case *ast.PropertyKeyed:
			name, known = a.key(p.Key, p.Computed)
			v = a.expr(p.Value)
			if p.Kind == ast.PropertyKindGet || p.Kind == ast.PropertyKindSet {
				v, plain = unknown(), false
			}
		case *ast.SpreadElement:
			v = a.expr(p.Expression)
			if from, ok := v.lit.(*object); ok {
				for _, k := range from.keys {
					obj.put(k, from.vals[k])
				}
			} else {
				plain = false
			}
			out.deps, out.inner = union(out.deps, v.deps), union(out.inner, v.all())
			out.holds = out.holds || v.holds || v.ref.kind != refNone
			maps.Copy(out.props, v.props)
			continue
		}
		out.deps = union(out.deps, v.deps)
		out.holds = out.holds || v.holds || v.ref.kind != refNone
		plain = plain && known && v.literal() && name != "__proto__"
		if known {
			obj.put(name, v.lit)
			out.props[name] = v
		} else {
			out.inner = union(out.inner, v.all())
		}
	}
	out.lit = noLit
	if plain {
		out.lit = obj
	}
	return out
}

// key is the name of a property, when it is known.
func (a *analyser) key(e ast.Expression, computed bool) (string, bool) {
	if id, ok := e.(*ast.Identifier); ok && !computed {
		return id.Name.String(), true
	}
	return text(a.expr(e).lit)
}

// class walks a class: its methods are functions that may be called or not.
func (a *analyser) class(c *ast.ClassLiteral) *value {
	if c.SuperClass != nil {
		a.expr(c.SuperClass)
	}
	for _, el := range c.Body {
		switch el := el.(type) {
		case *ast.MethodDefinition:
			if el.Computed {
				a.expr(el.Key)
			}
			a.function(el.Body.ParameterList, el.Body.Body, el.Body.Async)
		case *ast.FieldDefinition:
			if el.Initializer != nil {
				a.branch(nil, func() { a.expr(el.Initializer) })
			}
		case *ast.ClassStaticBlock:
			a.scoped(func() { a.block(el.Block.List) })
		}
	}
	return unknown()
}
