package where

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/casys-ai/pml/core"
)

// node evaluates a part of an expression.
type node func(m *machine) (any, error)

// typed is a compiled part and what is known of its value beforehand.
type typed struct {
	kind  kind
	run   node
	value any // of a constant
	fixed bool
}

// constant is a part whose value stands in the condition.
func constant(v any) typed {
	return typed{kind: kindOf(v), run: func(*machine) (any, error) { return v, nil }, value: v, fixed: true}
}

// compiler turns a syntax tree into nodes. It takes what it knows and names all else
// as a fault, so that nothing of the parser's language comes in by itself.
type compiler struct {
	text   string
	phase  Phase
	faults []core.Fault
	// annotations is set when the expression speaks of them.
	annotations bool
}

// parseFault is what the parser says, without the picture that it draws.
func parseFault(err error) core.Fault {
	f, ok := errors.AsType[*file.Error](err)
	if !ok {
		return core.Fault{Message: core.OneLine(err.Error(), 200)}
	}
	return core.Fault{At: &core.Position{Line: f.Line, Column: f.Column + 1}, Message: core.OneLine(f.Message, 200)}
}

// place is where a node stands in the text.
func (c *compiler) place(n ast.Node) core.Position {
	before := []rune(c.text)
	before = before[:min(max(n.Location().From, 0), len(before))]
	p := core.Position{Line: 1, Column: 1}
	for _, r := range before {
		p.Column++
		if r == '\n' {
			p = core.Position{Line: p.Line + 1, Column: 1}
		}
	}
	return p
}

// fault notes what is wrong at a node and returns a part of any kind, so that compiling
// goes on and finds the other faults. It never runs: Compile fails if there is a fault.
func (c *compiler) fault(n ast.Node, format string, args ...any) typed {
	at := c.place(n)
	c.faults = append(c.faults, core.Fault{At: &at, Message: fmt.Sprintf(format, args...)})
	return typed{kind: kindAny}
}

// want names a fault where a part can never be of a kind.
func (c *compiler) want(t typed, k kind, n ast.Node, what string) {
	if t.kind != kindAny && t.kind != k {
		c.fault(n, "%s must be %s, not %s", what, k, t.kind)
	}
}

// compile turns a node into a function that evaluates it. Nodes that are not listed here
// are parts of Expr's language that conditions do not have, future ones included.
func (c *compiler) compile(n ast.Node) typed {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(nil)
	case *ast.BoolNode:
		return constant(n.Value)
	case *ast.IntegerNode:
		return constant(int64(n.Value))
	case *ast.FloatNode:
		return constant(n.Value)
	case *ast.StringNode:
		return constant(n.Value)
	case *ast.ArrayNode:
		return c.list(n)
	case *ast.IdentifierNode:
		return c.variable(n)
	case *ast.PointerNode:
		if n.Name != "" {
			return c.fault(n, "there is no #%s; # is the element", n.Name)
		}
		return typed{run: func(m *machine) (any, error) { return m.item, nil }}
	case *ast.ChainNode:
		return c.compile(n.Node)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		return c.callNode(n)
	default:
		return c.fault(n, "a condition has no %s", construct(n))
	}
}

// construct names what the parser knows and conditions do not have.
func construct(n ast.Node) string {
	switch n.(type) {
	case *ast.VariableDeclaratorNode:
		return "variables of its own (let)"
	case *ast.SliceNode:
		return "slices (x[a:b])"
	case *ast.SequenceNode:
		return "statements separated by ;"
	case *ast.MapNode:
		return "objects ({…})"
	case *ast.BytesNode:
		return "bytes (b\"…\")"
	default:
		return "such part"
	}
}

// list is a list that is written in the expression.
func (c *compiler) list(n *ast.ArrayNode) typed {
	parts := make([]node, 0, len(n.Nodes))
	values := make([]any, 0, len(n.Nodes))
	for _, e := range n.Nodes {
		t := c.compile(e)
		parts = append(parts, t.run)
		if t.fixed {
			values = append(values, t.value)
		}
	}
	if len(values) == len(parts) {
		return constant(values)
	}
	return typed{kind: kindList, run: func(m *machine) (any, error) {
		out := make([]any, 0, len(parts))
		for _, part := range parts {
			v, err := part(m)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, m.work(len(parts))
	}}
}

// variable is one of the variables; that a call has none of them is no error but a
// value that is empty.
func (c *compiler) variable(n *ast.IdentifierNode) typed {
	text := func(f func(*Call) string) typed {
		return typed{kind: kindString, run: func(m *machine) (any, error) { return f(m.call), nil }}
	}
	switch n.Value {
	case "tool":
		return text(func(c *Call) string { return c.Tool })
	case "server":
		return text(func(c *Call) string { return c.Server })
	case "client":
		return text(func(c *Call) string { return c.Client })
	case "owner":
		return text(func(c *Call) string { return c.Owner })
	case "workspace":
		return text(func(c *Call) string { return c.Workspace })
	case "args":
		return typed{kind: kindMap, run: (*machine).args}
	case "result":
		if c.phase != Response {
			return c.fault(n, "there is no result before the call is made")
		}
		return typed{run: (*machine).result}
	case "run", "annotations":
		return c.fault(n, "%s has fields; write one of %s", n.Value, fieldNames(n.Value))
	}
	return c.fault(n, "there is no variable %s%s", n.Value, core.Suggest(n.Value, variables(c.phase)))
}

func variables(p Phase) []string {
	names := []string{"tool", "server", "args", "annotations", "client", "owner", "workspace", "run"}
	if p == Response {
		names = append(names, "result")
	}
	return names
}

// fields are those of the two variables that have fixed ones. An annotation that a
// server does not give has the value that MCP says it has then, which is the careful
// one: not idempotent, open to the world.
func fields(of string) map[string]typed {
	if of == "run" {
		return map[string]typed{
			"name":  {kind: kindString, run: func(m *machine) (any, error) { return m.call.Run.Name, nil }},
			"kind":  {kind: kindString, run: func(m *machine) (any, error) { return m.call.Run.Kind, nil }},
			"depth": {kind: kindNumber, run: func(m *machine) (any, error) { return int64(m.call.Run.Depth), nil }},
		}
	}
	hint := func(f func(core.Annotations) bool) typed {
		return typed{kind: kindBool, run: func(m *machine) (any, error) { return f(m.call.Annotations), nil }}
	}
	return map[string]typed{
		"read_only":   hint(core.Annotations.IsReadOnly),
		"destructive": hint(core.Annotations.IsDestructive),
		"idempotent":  hint(func(a core.Annotations) bool { return a.Idempotent != nil && *a.Idempotent }),
		"open_world":  hint(func(a core.Annotations) bool { return a.OpenWorld == nil || *a.OpenWorld }),
	}
}

func fieldNames(of string) string {
	var names []string
	for name := range fields(of) {
		names = append(names, of+"."+name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// member is a field of an object or an element of a list. One that is not there is an
// error, unless it is asked for by ?. or ?[ ]: then it is nil.
func (c *compiler) member(n *ast.MemberNode) typed {
	if id, ok := n.Node.(*ast.IdentifierNode); ok && (id.Value == "run" || id.Value == "annotations") {
		name, ok := n.Property.(*ast.StringNode)
		if f, known := fields(id.Value)[nameOf(name)]; ok && known {
			c.annotations = c.annotations || id.Value == "annotations"
			return f
		}
		return c.fault(n, "%s has no such field; it has %s", id.Value, fieldNames(id.Value))
	}
	of, key, at := c.compile(n.Node), c.compile(n.Property), c.place(n)
	if of.kind != kindAny && of.kind != kindMap && of.kind != kindList {
		return c.fault(n, "%s has no fields", of.kind)
	}
	label := labelOf(n)
	return typed{run: func(m *machine) (any, error) {
		from, err := of.run(m)
		if err != nil {
			return nil, err
		}
		k, err := key.run(m)
		if err != nil {
			return nil, err
		}
		v, there, err := m.lookup(from, k, at, label)
		switch {
		case err != nil && !(n.Optional && from == nil):
			return nil, err
		case there || n.Optional:
			return v, nil
		}
		return nil, failed(at, "there is no %s", label)
	}}
}

func nameOf(n *ast.StringNode) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// labelOf is a field as it is written, for messages.
func labelOf(n *ast.MemberNode) string { return core.OneLine(n.String(), 80) }

// conditional compiles a ? b : c, of which one side is evaluated.
func (c *compiler) conditional(n *ast.ConditionalNode) typed {
	cond, yes, no, at := c.compile(n.Cond), c.compile(n.Exp1), c.compile(n.Exp2), c.place(n)
	c.want(cond, kindBool, n.Cond, "what stands before ?")
	out := typed{}
	if yes.kind == no.kind {
		out.kind = yes.kind
	}
	out.run = func(m *machine) (any, error) {
		is, err := m.boolean(cond.run, at)
		if err != nil {
			return nil, err
		}
		if is {
			return yes.run(m)
		}
		return no.run(m)
	}
	return out
}
