package analyze

import (
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"

	"github.com/casys-ai/pml/core"
)

// deeper guards the recursion over the tree; it reports false at the limit.
func (a *analyser) deeper() bool {
	a.depth++
	if a.depth > maxDepth {
		a.tooDeep = true
	}
	return !a.tooDeep
}

// branch walks what happens only under a condition that depends on some calls.
func (a *analyser) branch(by set, walk func()) {
	control := a.control
	a.control = union(control, by)
	a.cond++
	a.branches++
	walk()
	a.branches--
	a.cond--
	a.control = control
}

// either walks alternatives of which one happens; what was awaited before the
// place behind them is what any of them awaited.
func (a *analyser) either(by set, walks ...func()) {
	before, after := a.frontier, set(nil)
	for _, w := range walks {
		a.frontier = before
		a.branch(by, w)
		after = union(after, a.frontier)
	}
	a.frontier = after
}

// repeat walks the body of a loop once, for any number of rounds: a call in it is
// marked as repeated, and what a later round could change is in the facts that the
// second walk over the script knows. A body may not run at all, so it is a branch,
// too, but not a condition that a plan shows: a loop says that itself.
func (a *analyser) repeat(by set, walk func()) {
	control := a.control
	a.control = union(control, by)
	a.loops++
	a.branches++
	walk()
	a.branches--
	a.loops--
	a.control = control
}

// scoped walks with a fresh scope.
func (a *analyser) scoped(walk func()) {
	up := a.env
	a.env = &scope{up: up, vars: map[string]*variable{}}
	walk()
	a.env = up
}

// block walks statements in their order. Function declarations are hoisted, as in the
// language: a call may stand above the function that it calls.
func (a *analyser) block(list []ast.Statement) {
	for _, s := range list { // functions are there before their line
		if d, ok := s.(*ast.FunctionDeclaration); ok && d.Function.Name != nil {
			f := a.function(d.Function.ParameterList, d.Function.Body, d.Function.Async)
			a.declare(d.Function.Name, &value{fn: f, lit: noLit})
		}
	}
	for _, s := range list {
		a.statement(s)
	}
}

// statement walks one statement. break and continue are not followed: what they leave
// out is walked as if it could happen, which adds calls to a plan and takes none away.
func (a *analyser) statement(s ast.Statement) {
	defer func() { a.depth-- }()
	if !a.deeper() {
		return
	}
	switch s := s.(type) {
	case *ast.BlockStatement:
		a.scoped(func() { a.block(s.List) })
	case *ast.ExpressionStatement:
		a.discard(s.Expression)
	case *ast.VariableStatement:
		a.hoisted(s.List)
	case *ast.LexicalDeclaration:
		a.bindings(s.List)
	case *ast.ReturnStatement:
		a.leave(s.Argument, true)
	case *ast.ThrowStatement:
		a.leave(s.Argument, false)
	case *ast.IfStatement:
		by := a.expr(s.Test).deps
		a.either(by, func() { a.statement(s.Consequent) }, func() {
			if s.Alternate != nil {
				a.statement(s.Alternate)
			}
		})
	case *ast.SwitchStatement:
		a.switching(s)
	case *ast.TryStatement:
		a.try(s)
	case *ast.LabelledStatement:
		a.statement(s.Statement)
	case *ast.ClassDeclaration:
		v := a.class(s.Class)
		if s.Class.Name != nil {
			a.declare(s.Class.Name, v)
		}
	case *ast.WithStatement:
		a.expr(s.Object)
		a.statement(s.Body)
	default:
		a.loop(s)
	}
}

// loop walks the loops. Their test runs before the first round and after each, so it
// belongs to what is repeated, and the body depends on the calls that the test reads.
func (a *analyser) loop(s ast.Statement) {
	switch s := s.(type) {
	case *ast.WhileStatement:
		a.repeat(nil, func() {
			by := a.expr(s.Test).deps
			a.repeat(by, func() { a.statement(s.Body) })
		})
	case *ast.DoWhileStatement:
		a.repeat(nil, func() {
			a.statement(s.Body)
			a.expr(s.Test)
		})
	case *ast.ForStatement:
		a.scoped(func() { a.counting(s) })
	case *ast.ForOfStatement:
		a.each(s.Into, s.Source, s.Body)
	case *ast.ForInStatement:
		a.each(s.Into, s.Source, s.Body)
	}
}

// counting walks for (init; test; update): init once, the rest with the body.
func (a *analyser) counting(s *ast.ForStatement) {
	switch in := s.Initializer.(type) {
	case *ast.ForLoopInitializerExpression:
		a.expr(in.Expression)
	case *ast.ForLoopInitializerVarDeclList:
		a.hoisted(in.List)
	case *ast.ForLoopInitializerLexicalDecl:
		a.bindings(in.LexicalDeclaration.List)
	}
	a.repeat(nil, func() {
		var by set
		if s.Test != nil {
			by = a.expr(s.Test).deps
		}
		a.repeat(by, func() {
			a.statement(s.Body)
			if s.Update != nil {
				a.expr(s.Update)
			}
		})
	})
}

// each walks for…of and for…in. What the variable is given is a part of the source, of
// which nobody knows which: if the source holds promises, an await in the body waits
// for all of them, as far as the plan is concerned.
func (a *analyser) each(into ast.ForInto, source ast.Expression, body ast.Statement) {
	v := a.expr(source)
	a.repeat(v.deps, func() {
		a.scoped(func() {
			item := part(v)
			switch in := into.(type) {
			case *ast.ForIntoVar:
				a.bind(in.Binding.Target, item, true)
			case *ast.ForDeclaration:
				a.bind(in.Target, item, true)
			case *ast.ForIntoExpression:
				a.bind(in.Expression, item, false)
			}
			// `for await` looks like `for` by now: awaiting what it may hold
			// is right for both, since a body that awaits does so first.
			a.statement(body)
		})
	})
}

// switching walks the cases as alternatives. Falling through to the next case is not
// followed: what was awaited before the place behind the switch is the union of all
// cases either way. Without a default there is one more alternative, in which nothing
// happens.
func (a *analyser) switching(s *ast.SwitchStatement) {
	by := a.expr(s.Discriminant).deps
	var walks []func()
	for _, c := range s.Body {
		walks = append(walks, func() {
			if c.Test != nil {
				a.expr(c.Test)
			}
			a.block(c.Consequent)
		})
	}
	if s.Default < 0 {
		walks = append(walks, func() {})
	}
	a.scoped(func() { a.either(by, walks...) })
}

// try walks a try statement. Whether the catch block runs depends on the outcome of
// every call in the body; a body with many calls is represented by its last 16, which
// come after the others anyway. A throw in the body ends the body only, so leave does
// not count it as an exit of the function (tries). The place behind the statement is
// reached by either way.
func (a *analyser) try(s *ast.TryStatement) {
	first := len(a.calls)
	if s.Catch != nil {
		a.tries++
	}
	a.statement(s.Body)
	if s.Catch != nil {
		a.tries--
		var by set
		for n := first; n < len(a.calls); n++ {
			by = append(by, n)
		}
		if len(by) > 16 { // the last ones stand for all
			by = by[len(by)-16:]
		}
		after := a.frontier
		a.branch(by, func() {
			a.scoped(func() {
				if s.Catch.Parameter != nil {
					a.bind(s.Catch.Parameter, &value{deps: by, lit: noLit}, true)
				}
				a.statement(s.Catch.Body)
			})
		})
		a.frontier = union(after, a.frontier)
	}
	if s.Finally != nil {
		a.statement(s.Finally)
	}
}

// leave walks a return or a throw: what follows in the function may not happen.
func (a *analyser) leave(arg ast.Expression, returns bool) {
	v := unknown()
	if arg != nil {
		v = a.expr(arg)
	}
	if returns {
		if a.ret == nil {
			a.ret = v
		} else {
			a.ret = merge(a.ret, v)
		}
	}
	if returns || a.tries == 0 {
		a.exits = true
		a.exitBy = union(a.exitBy, a.control)
	}
}

// bindings walks let and const; a let without a value is undefined, for certain.
func (a *analyser) bindings(list []*ast.Binding) {
	for _, b := range list {
		v := &value{lit: undefined{}}
		if b.Initializer != nil {
			v = a.expr(b.Initializer)
		}
		a.bind(b.Target, v, true)
	}
}

// hoisted walks a `var`, which belongs to the whole function. One inside a
// block may be read where the block has not run, so its value is not certain.
func (a *analyser) hoisted(list []*ast.Binding) {
	inner, outer := a.env, a.env
	for !outer.function && outer.up != nil {
		outer = outer.up
	}
	for _, b := range list {
		v := &value{lit: undefined{}}
		if b.Initializer != nil {
			v = a.expr(b.Initializer)
		}
		if inner != outer || a.branches > 0 {
			w := *v
			w.lit = noLit
			v = &w
		}
		a.env = outer
		a.bind(b.Target, v, true)
		a.env = inner
	}
}

// discard walks an expression whose value nobody uses. A call of a tool that stands
// there by itself, without await, is most often a mistake, so the plan warns of it,
// unless void in front of it says that it is meant.
func (a *analyser) discard(e ast.Expression) {
	if u, ok := e.(*ast.UnaryExpression); ok && u.Operator == token.VOID {
		a.expr(u.Operand)
		return // said to be on purpose
	}
	before := len(a.calls)
	v := a.expr(e)
	if _, ok := e.(*ast.CallExpression); !ok || len(a.calls) == before || len(v.pend) != 1 || v.pend[0] != len(a.calls)-1 {
		return
	}
	c := a.calls[len(a.calls)-1]
	if c.at < e.Idx0() || c.at > e.Idx1() {
		return
	}
	a.warned = append(a.warned, core.PlanNote{At: c.plan.At,
		Message: c.plan.Tool + " is not awaited and its result is not used; the run waits for it all the same"})
}
