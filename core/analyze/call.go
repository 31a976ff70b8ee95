package analyze

import (
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
)

// member walks a.b or a[b]; it also returns the value of a and where the name
// stands.
func (a *analyser) member(e ast.Expression) (out, left *value, at file.Idx) {
	var from ast.Expression
	name, known := "", false
	switch e := e.(type) {
	case *ast.DotExpression:
		from, name, known, at = e.Left, e.Identifier.Name.String(), true, e.Identifier.Idx
	case *ast.BracketExpression:
		from, at = e.Left, e.Member.Idx0()
	}
	left = a.receiver(from)
	var by *value
	if b, ok := e.(*ast.BracketExpression); ok {
		by = a.expr(b.Member)
		name, known = text(by.lit)
	}
	if isGlobal(a, from, "globalThis") && name == "mcp" {
		return &value{ref: ref{kind: refRoot}, lit: noLit}, left, at
	}
	w := *property(left, name, known)
	out = &w
	if by != nil {
		out.deps = union(out.deps, by.deps)
	}
	if !a.inArgs && out.literal() && !primitive(out.lit) {
		if r := a.root(e); r != nil {
			r.facts.escaped = true
		}
	}
	if r := a.root(e); r != nil && (r.facts.assigned || r.facts.escaped) {
		out.lit = noLit
	}
	return out, left, at
}

// receiver walks the left side of a member: reading a part of an object does
// not let the object itself out of sight.
func (a *analyser) receiver(e ast.Expression) *value {
	id, ok := e.(*ast.Identifier)
	if !ok {
		return a.expr(e)
	}
	if v := a.env.find(id.Name.String()); v != nil {
		return v.known()
	}
	return a.identifier(id)
}

func isGlobal(a *analyser, e ast.Expression, name string) bool {
	id, ok := e.(*ast.Identifier)
	return ok && id.Name.String() == name && a.env.find(name) == nil
}

// call walks a call of anything: of a tool, which the plan lists; of a function of the
// script, which is walked in the place of its first call; of Promise's functions,
// which gather promises; or of a function that is not in the script, which is judged
// by its name alone (foreign).
func (a *analyser) call(e *ast.CallExpression) *value {
	callee := e.Callee
	for {
		if o, ok := callee.(*ast.Optional); ok {
			callee = o.Expression
		} else if o, ok := callee.(*ast.OptionalChain); ok {
			callee = o.Expression
		} else {
			break
		}
	}
	var fn, recv *value
	at, name := callee.Idx0(), ""
	args := a.inArgs
	a.inArgs = false
	switch c := callee.(type) {
	case *ast.DotExpression:
		name = c.Identifier.Name.String()
		fn, recv, at = a.member(c)
	case *ast.BracketExpression:
		fn, recv, at = a.member(c)
	default:
		fn = a.expr(callee)
		for _, g := range []string{"setTimeout", "queueMicrotask"} {
			if isGlobal(a, callee, g) {
				name = g
			}
		}
	}
	defer func() { a.inArgs = args }()
	if fn.ref.kind == refTool || fn.ref.kind == refAny {
		return a.tool(e, fn, at)
	}
	if r := a.root(callee); r != nil && recv != nil {
		r.facts.escaped = true // a method may change what it is called on
	}
	if isGlobal(a, callee, "eval") || isGlobal(a, callee, "Function") {
		a.note(at, "code is made while running here; calls in it are not seen")
	}
	list := a.arguments(e.ArgumentList)
	if fn.fn != nil {
		return a.invoke(fn.fn, list)
	}
	if d, ok := callee.(*ast.DotExpression); ok && isGlobal(a, d.Left, "Promise") {
		return a.promise(name, list)
	}
	return a.foreign(e, callee, recv, name, list)
}

func (a *analyser) arguments(list []ast.Expression) []*value {
	var out []*value
	for _, x := range list {
		out = append(out, a.expr(x))
	}
	return out
}

// tool records a call of a tool. The first argument is what the tool gets; the others
// are walked for the calls in them only. Within the arguments an object does not
// escape (inArgs): a tool gets a copy and cannot change it. Arguments that a spread or
// a function makes cannot be said beforehand.
func (a *analyser) tool(e *ast.CallExpression, fn *value, at file.Idx) *value {
	args := &value{lit: &object{vals: map[string]any{}}}
	for i, x := range e.ArgumentList {
		a.inArgs = true
		v := a.expr(x)
		a.inArgs = false
		_, spread := x.(*ast.SpreadElement)
		switch {
		case spread:
			args = &value{deps: union(args.deps, v.deps), lit: noLit}
		case i == 0:
			args = v
			if _, none := v.lit.(undefined); none {
				args = &value{lit: &object{vals: map[string]any{}}}
			}
		}
		if v.fn != nil {
			args = &value{deps: args.deps, lit: noLit}
		}
	}
	with := *args
	with.deps = union(args.deps, fn.deps)
	return a.record(fn.ref, at, &with)
}

// promise walks Promise.all and its like: an await of the result waits for every
// promise in the list. all also keeps the elements apart, so that in
// `const [a, b] = await Promise.all([…])` each variable depends on its own call only.
// race and any could do with fewer; the plan waits for all, which is safe.
func (a *analyser) promise(name string, list []*value) *value {
	out := unknown()
	for _, v := range list {
		out.deps = union(out.deps, v.deps)
		if name == "resolve" || name == "reject" {
			out.pend = union(out.pend, v.pend)
			continue
		}
		out.pend = union(out.pend, inside(v))
		if name == "all" {
			for _, el := range v.elems {
				w := *el
				w.pend = nil
				out.elems = append(out.elems, &w)
			}
		}
	}
	return out
}

// How methods treat their callbacks.
var (
	iterating = map[string]bool{"map": true, "forEach": true, "filter": true, "flatMap": true, "some": true, "every": true, "find": true, "findIndex": true, "findLast": true, "reduce": true, "reduceRight": true, "sort": true, "from": true, "replace": true, "replaceAll": true}
	storing   = map[string]bool{"push": true, "unshift": true, "set": true, "add": true, "splice": true, "fill": true}
)

// foreign walks a call of something that is not in the script, such as a method of an
// array. Its name decides what becomes of callbacks (iterating: repeated for each
// element; then, catch and finally: once, when the receiver is settled) and of other
// arguments (storing: they are in the receiver from then on). The result may be made
// of everything that went in. mcp as an argument leaves what the analysis can see, and
// the plan says so.
func (a *analyser) foreign(e *ast.CallExpression, callee ast.Expression, recv *value, name string, list []*value) *value {
	if recv == nil {
		recv = unknown()
	}
	out := &value{deps: recv.deps, lit: noLit, holds: recv.holds || recv.ref.kind != refNone}
	if out.holds && !iterating[name] {
		out.ref = anyRef
	}
	item := part(recv)
	for _, v := range list {
		if v.fn == nil && v.ref.kind < refTool {
			out.deps = union(out.deps, v.deps)
			item.deps = union(item.deps, v.deps)
			if name == "from" {
				item = merge(item, part(v))
			}
		}
	}
	out.inner = item.inner
	promise := name == "then" || name == "catch" || name == "finally"
	if promise {
		out.pend, item = recv.pend, &value{deps: recv.deps, lit: noLit}
	}
	for i, v := range list {
		if v.fn == nil && v.ref.kind < refTool {
			if v.ref.kind != refNone || v.holds && !storing[name] {
				a.note(e.ArgumentList[i].Idx0(), "mcp is handed on here; calls made through it are not seen")
			}
			out.inner = union(out.inner, v.all())
			continue
		}
		r := a.callback(e.ArgumentList[i], v, name, i, item, recv)
		out.deps = union(out.deps, r.deps)
		if promise {
			out.pend = union(out.pend, r.all())
		} else {
			out.inner = union(out.inner, r.all())
		}
	}
	if r := a.root(callee); r != nil && storing[name] {
		for _, v := range list {
			a.changed(callee, v)
		}
	}
	return out
}

// callback walks a function given to a method, or records a tool given as one, such as
// in paths.map(mcp.fs.read). What the callback awaits is awaited by its own promise,
// not by the code behind the call, so the frontier is put back.
func (a *analyser) callback(at ast.Expression, v *value, name string, i int, item, recv *value) *value {
	var r *value
	walk := func() {
		if v.fn != nil {
			r = a.invoke(v.fn, []*value{item, item, item})
		} else {
			r = a.record(v.ref, nameOf(at), &value{deps: item.deps, lit: noLit})
		}
	}
	before := a.frontier
	switch {
	case name == "then" && i == 0, name == "finally":
		a.await(recv)
		walk()
	case name == "then" || name == "catch":
		a.branch(item.deps, walk)
	case iterating[name]:
		a.repeat(nil, walk)
	case name == "setTimeout" || name == "queueMicrotask":
		walk()
	default:
		a.branch(nil, func() { a.repeat(nil, walk) })
	}
	a.frontier = before
	return r
}

// nameOf is where the last name of a chain stands.
func nameOf(e ast.Expression) file.Idx {
	switch e := e.(type) {
	case *ast.DotExpression:
		return e.Identifier.Idx
	case *ast.BracketExpression:
		return e.Member.Idx0()
	}
	return e.Idx0()
}

// construct walks new. The first function among the arguments is called at once, as
// the executor of a Promise is; what is constructed may hold whatever was passed.
func (a *analyser) construct(e *ast.NewExpression) *value {
	args := a.inArgs
	a.inArgs = false
	defer func() { a.inArgs = args }()
	if isGlobal(a, e.Callee, "Function") {
		a.note(e.Callee.Idx0(), "code is made while running here; calls in it are not seen")
	}
	a.expr(e.Callee)
	out := unknown()
	for i, v := range a.arguments(e.ArgumentList) {
		out.deps, out.inner = union(out.deps, v.deps), union(out.inner, v.all())
		if v.ref.kind != refNone || v.holds {
			out.holds = true
		}
		if v.fn != nil && i == 0 {
			r := a.invoke(v.fn, nil)
			out.deps, out.pend = union(out.deps, r.deps), union(out.pend, r.all())
		}
	}
	return out
}

// function makes a function value and remembers it, so that its body is seen
// even if nothing calls it.
func (a *analyser) function(params *ast.ParameterList, body ast.Node, async bool) *function {
	f := &function{params: params, body: body, async: async, env: a.env}
	a.functions = append(a.functions, f)
	return f
}

// invoke walks a function's body where it is first called; later calls of it repeat
// the calls that it makes. One walk for each function keeps the analysis linear; what
// it costs is that parameters are known only as far as any call could have passed
// them (bindParams). A function that calls itself is not walked again. A call of an
// async function is pending on all that its body awaits; the caller's own frontier,
// control flow and exits are put back behind it.
func (a *analyser) invoke(f *function, args []*value) *value {
	if f.active {
		return unknown()
	}
	if f.done {
		for n := f.first; n < f.last; n++ {
			a.calls[n].plan.Repeated = true
		}
		return f.returns
	}
	f.active = true
	env, frontier, ret, exits, exitBy, tries, inArgs := a.env, a.frontier, a.ret, a.exits, a.exitBy, a.tries, a.inArgs
	a.env = &scope{up: f.env, function: true, vars: map[string]*variable{}}
	a.ret, a.tries, a.inArgs = nil, 0, false
	f.first = len(a.calls)
	a.bindParams(f, args)
	switch b := f.body.(type) {
	case *ast.BlockStatement:
		a.block(b.List)
	case *ast.ExpressionBody:
		a.ret = a.expr(b.Expression)
	}
	f.last = len(a.calls)
	out := unknown()
	if a.ret != nil {
		v := *a.ret
		v.lit = noLit
		out = &v
	}
	if f.async {
		out.pend = union(out.pend, a.frontier.without(frontier))
	}
	a.env, a.frontier, a.ret, a.exits, a.exitBy, a.tries, a.inArgs = env, frontier, ret, exits, exitBy, tries, inArgs
	f.active, f.done, f.returns = false, true, out
	return out
}

// bindParams gives the parameters what is known of the arguments. A function
// can be called again with others, so literals and tools are not taken over.
func (a *analyser) bindParams(f *function, args []*value) {
	if f.params == nil {
		return
	}
	for i, p := range f.params.List {
		v := unknown()
		if i < len(args) {
			w := *args[i]
			w.lit, w.fn, w.props, w.elems = noLit, nil, nil, nil
			w.inner = inside(args[i])
			if w.ref.kind != refNone {
				w.ref = anyRef
			}
			v = &w
		}
		a.bind(p, v, true)
	}
	if f.params.Rest != nil {
		v := unknown()
		for _, w := range args {
			v = merge(v, &value{deps: w.deps, inner: w.all(), holds: w.holds || w.ref.kind != refNone, lit: noLit})
		}
		a.bind(f.params.Rest, v, true)
	}
}
