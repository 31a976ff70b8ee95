package where

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/casys-ai/pml/core"
)

// maxProgram bounds the compiled size of a regular expression, and with it the time
// that it takes for each character.
const maxProgram = 1000

// unary compiles ! and a sign. A sign is a subtraction from 0, so that -x has the bounds
// of calculate; in front of a constant it is computed now, and -1 is a constant, too.
func (c *compiler) unary(n *ast.UnaryNode) typed {
	of, at := c.compile(n.Node), c.place(n)
	switch n.Operator {
	case "!", "not":
		c.want(of, kindBool, n.Node, "what stands behind "+n.Operator)
		return typed{kind: kindBool, run: func(m *machine) (any, error) {
			is, err := m.boolean(of.run, at)
			return !is, err
		}}
	}
	c.want(of, kindNumber, n.Node, "what stands behind "+n.Operator)
	zero := constant(int64(0)).run
	minus := c.arithmetic(n.Operator, zero, of.run, at)
	if of.fixed && minus.run != nil {
		if v, err := minus.run(&machine{}); err == nil {
			return constant(v)
		}
	}
	return minus
}

// binary compiles an operator with two sides. What can be known to fail for every call,
// such as comparing a text with a number, is a fault of the expression now; what
// depends on the call is checked again at each evaluation.
func (c *compiler) binary(n *ast.BinaryNode) typed {
	l, r, at := c.compile(n.Left), c.compile(n.Right), c.place(n)
	both := func(k kind) {
		c.want(l, k, n.Left, "what stands before "+n.Operator)
		c.want(r, k, n.Right, "what stands behind "+n.Operator)
	}
	switch n.Operator {
	case "&&", "and", "||", "or":
		both(kindBool)
		return c.logic(n.Operator == "||" || n.Operator == "or", l.run, r.run, at)
	case "==", "!=":
		if !comparable(l.kind, r.kind) {
			return c.fault(n, "%s is never compared with %s", l.kind, r.kind)
		}
		return c.equality(n.Operator == "!=", l.run, r.run, at)
	case "<", ">", "<=", ">=":
		if l.kind != kindAny && r.kind != kindAny && l.kind != r.kind {
			return c.fault(n, "%s is never compared with %s", l.kind, r.kind)
		}
		return c.order(n.Operator, l.run, r.run, at)
	case "+":
		return c.plus(n, l, r, at)
	case "-", "*", "/", "%":
		both(kindNumber)
		return c.arithmetic(n.Operator, l.run, r.run, at)
	case "in":
		return c.in(n, l, r, at)
	case "??":
		return typed{run: func(m *machine) (any, error) {
			v, err := l.run(m)
			if err != nil || v != nil {
				return v, err
			}
			return r.run(m)
		}}
	case "matches":
		return c.matches(n, l, r, at)
	case "contains", "startsWith", "endsWith":
		both(kindString)
		return c.texts(n.Operator, l.run, r.run, at)
	}
	return c.fault(n, "a condition has no operator %s", n.Operator)
}

// logic compiles && and ||. The right side is evaluated only if the left one does not
// decide, so that `"x" in args && args.x == 1` asks for no field that is not there.
func (c *compiler) logic(or bool, l, r node, at core.Position) typed {
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		is, err := m.boolean(l, at)
		if err != nil || is == or {
			return is, err
		}
		return m.boolean(r, at)
	}}
}

// equality compiles == and !=. Both are errors for two values of unlike kinds: if != held
// for "5" and 5, a server that reads the text as a number would be let through.
func (c *compiler) equality(not bool, l, r node, at core.Position) typed {
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		a, b, err := m.two(l, r)
		if err != nil {
			return nil, err
		}
		if !comparable(kindOf(a), kindOf(b)) {
			return nil, failed(at, "%s cannot be compared with %s", kindOf(a), kindOf(b))
		}
		same, err := m.equal(a, b)
		return same != not, err
	}}
}

// order compiles <, >, <= and >=, of two numbers or of two texts byte by byte.
func (c *compiler) order(op string, l, r node, at core.Position) typed {
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		a, b, err := m.two(l, r)
		if err != nil {
			return nil, err
		}
		var d int
		switch ka, kb := kindOf(a), kindOf(b); {
		case ka == kindNumber && kb == kindNumber:
			d = compareNumbers(a, b)
		case ka == kindString && kb == kindString:
			d = strings.Compare(a.(string), b.(string))
		default:
			return nil, failed(at, "%s cannot be compared with %s", ka, kb)
		}
		switch op {
		case "<":
			return d < 0, nil
		case ">":
			return d > 0, nil
		case "<=":
			return d <= 0, nil
		default:
			return d >= 0, nil
		}
	}}
}

// plus adds numbers and joins texts.
func (c *compiler) plus(n ast.Node, l, r typed, at core.Position) typed {
	sum := c.arithmetic("+", l.run, r.run, at)
	if l.kind == kindNumber && r.kind == kindNumber {
		return sum
	}
	for _, t := range []typed{l, r} {
		if t.kind != kindAny && t.kind != kindNumber && t.kind != kindString {
			return c.fault(n, "+ adds numbers and joins texts, not %s", t.kind)
		}
	}
	return typed{run: func(m *machine) (any, error) {
		a, b, err := m.two(l.run, r.run)
		if err != nil {
			return nil, err
		}
		x, ok1 := a.(string)
		y, ok2 := b.(string)
		if ok1 && ok2 {
			return x + y, m.work((len(x) + len(y)) / 16)
		}
		return calculate("+", a, b, at)
	}}
}

// arithmetic compiles - * / and %, which are of numbers only.
func (c *compiler) arithmetic(op string, l, r node, at core.Position) typed {
	return typed{kind: kindNumber, run: func(m *machine) (any, error) {
		a, b, err := m.two(l, r)
		if err != nil {
			return nil, err
		}
		return calculate(op, a, b, at)
	}}
}

// in asks for an element of a list or for a key of an object.
func (c *compiler) in(n ast.Node, l, r typed, at core.Position) typed {
	if r.kind != kindAny && r.kind != kindList && r.kind != kindMap {
		return c.fault(n, "what stands behind in must be a list or an object, not %s", r.kind)
	}
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		a, b, err := m.two(l.run, r.run)
		if err != nil {
			return nil, err
		}
		switch b := b.(type) {
		case map[string]any:
			key, ok := a.(string)
			if !ok {
				return nil, failed(at, "a key of an object is a text, not %s", kindOf(a))
			}
			_, there := b[key]
			return there, nil
		case []any:
			return m.among(a, b, at)
		}
		return nil, failed(at, "what stands behind in is %s, not a list or an object", kindOf(b))
	}}
}

// texts compiles contains, startsWith and endsWith. Their work grows with what they read.
func (c *compiler) texts(op string, l, r node, at core.Position) typed {
	test := map[string]func(string, string) bool{
		"contains": strings.Contains, "startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix,
	}[op]
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		a, err := m.text(l, at)
		if err != nil {
			return nil, err
		}
		b, err := m.text(r, at)
		if err != nil {
			return nil, err
		}
		return test(a, b), m.work((len(a) + len(b)) / 64)
	}}
}

// matches compiles a regular expression. It must stand in the condition itself: one that
// the arguments of a call could choose would be another condition for each call. RE2
// needs time in proportion to text × program, so bounding the program's size and
// charging for both keeps an evaluation within its work.
func (c *compiler) matches(n *ast.BinaryNode, l, r typed, at core.Position) typed {
	c.want(l, kindString, n.Left, "what stands before matches")
	pattern, ok := r.value.(string)
	if !r.fixed || !ok {
		return c.fault(n.Right, "a regular expression must be written as a text, so that it is checked now")
	}
	re, size, err := compilePattern(pattern)
	if err != nil {
		return c.fault(n.Right, "the regular expression is not valid: %s", core.OneLine(err.Error(), 120))
	}
	if size > maxProgram {
		return c.fault(n.Right, "the regular expression is too large: %d steps for a character, at most %d", size, maxProgram)
	}
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		s, err := m.text(l.run, at)
		if err != nil {
			return nil, err
		}
		if err := m.work(len(s) * size / 32); err != nil {
			return nil, err
		}
		return re.MatchString(s), nil
	}}
}

// compilePattern returns a regular expression and how many instructions it has, which
// the library itself does not tell.
func compilePattern(pattern string) (*regexp.Regexp, int, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, err
	}
	re, err := regexp.Compile(pattern)
	return re, len(prog.Inst), err
}
