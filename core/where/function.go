package where

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/casys-ai/pml/core"
)

// functions are the names that an expression may call.
func functions() []string {
	return []string{"all", "any", "count", "has", "keys", "len", "lower", "none", "one", "size", "trim", "type", "under", "upper"}
}

// callNode is a function of pml's own or a method of a text: args.path.startsWith("a").
func (c *compiler) callNode(n *ast.CallNode) typed {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		return c.call(n, callee.Value, n.Arguments)
	case *ast.MemberNode:
		name, _ := callee.Property.(*ast.StringNode)
		switch nameOf(name) {
		case "startsWith", "endsWith", "contains", "matches":
			if len(n.Arguments) == 1 && !callee.Optional {
				op := &ast.BinaryNode{Operator: name.Value, Left: callee.Node, Right: n.Arguments[0]}
				op.SetLocation(n.Location())
				return c.binary(op)
			}
		case "size":
			if len(n.Arguments) == 0 && !callee.Optional {
				return c.call(n, "size", []ast.Node{callee.Node})
			}
		}
		return c.fault(n, "there is no method %s with %d arguments; texts have startsWith, endsWith, contains and matches", nameOf(name), len(n.Arguments))
	}
	return c.fault(n, "this cannot be called")
}

func (c *compiler) call(n ast.Node, name string, args []ast.Node) typed {
	if !slices.Contains(functions(), name) {
		return c.fault(n, "there is no function %s%s; there are %s", core.OneLine(name, 40), core.Suggest(name, functions()), strings.Join(functions(), ", "))
	}
	want := 1
	switch name {
	case "all", "any", "none", "one", "count", "under":
		want = 2
	}
	if len(args) != want {
		return c.fault(n, "%s takes %d, not %d", name, want, len(args))
	}
	at := c.place(n)
	switch name {
	case "has":
		return c.has(args[0], at)
	case "under":
		return c.under(args, at)
	case "all", "any", "none", "one", "count":
		return c.predicate(name, args, at)
	case "size", "len":
		return c.size(args[0], at)
	case "lower", "upper", "trim":
		return c.textFunction(name, args[0], at)
	case "keys":
		return c.keys(args[0], at)
	}
	of := c.compile(args[0]) // type
	return typed{kind: kindString, run: func(m *machine) (any, error) {
		v, err := of.run(m)
		return kindOf(v).name(), err
	}}
}

// has asks whether a field is there; what it is a field of must be.
func (c *compiler) has(arg ast.Node, at core.Position) typed {
	if chain, ok := arg.(*ast.ChainNode); ok {
		arg = chain.Node
	}
	member, ok := arg.(*ast.MemberNode)
	if !ok {
		return c.fault(arg, "has takes a field: has(args.x)")
	}
	of, key := c.compile(member.Node), c.compile(member.Property)
	label := labelOf(member)
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		from, k, err := m.two(of.run, key.run)
		if err != nil {
			return nil, err
		}
		_, there, err := m.lookup(from, k, at, label)
		return there, err
	}}
}

// size counts the characters of a text and the elements of a list or an object.
func (c *compiler) size(arg ast.Node, at core.Position) typed {
	of := c.compile(arg)
	if of.kind == kindBool || of.kind == kindNumber || of.kind == kindNull {
		return c.fault(arg, "%s has no size", of.kind)
	}
	return typed{kind: kindNumber, run: func(m *machine) (any, error) {
		v, err := of.run(m)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case string:
			return int64(utf8.RuneCountInString(v)), m.work(len(v) / 256)
		case []any:
			return int64(len(v)), nil
		case map[string]any:
			return int64(len(v)), nil
		}
		return nil, failed(at, "%s has no size", kindOf(v))
	}}
}

func (c *compiler) textFunction(name string, arg ast.Node, at core.Position) typed {
	of := c.compile(arg)
	c.want(of, kindString, arg, "what "+name+" is of")
	f := map[string]func(string) string{"lower": strings.ToLower, "upper": strings.ToUpper, "trim": strings.TrimSpace}[name]
	return typed{kind: kindString, run: func(m *machine) (any, error) {
		s, err := m.text(of.run, at)
		if err != nil {
			return nil, err
		}
		return f(s), m.work(len(s) / 16)
	}}
}

func (c *compiler) keys(arg ast.Node, at core.Position) typed {
	of := c.compile(arg)
	c.want(of, kindMap, arg, "what keys is of")
	return typed{kind: kindList, run: func(m *machine) (any, error) {
		v, err := of.run(m)
		if err != nil {
			return nil, err
		}
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, failed(at, "%s has no keys", kindOf(v))
		}
		out := make([]any, 0, len(fields))
		for k := range fields {
			out = append(out, k)
		}
		return out, m.work(len(out))
	}}
}

// predicate asks something of the elements of a list.
func (c *compiler) predicate(name string, args []ast.Node, at core.Position) typed {
	of := c.compile(args[0])
	c.want(of, kindList, args[0], "what "+name+" goes through")
	body, ok := args[1].(*ast.PredicateNode)
	if !ok {
		return c.fault(args[1], "%s takes a list and a condition on its elements", name)
	}
	test := c.compile(body.Node)
	c.want(test, kindBool, body.Node, "the condition on each element")
	out := typed{kind: kindBool}
	if name == "count" {
		out.kind = kindNumber
	}
	out.run = func(m *machine) (any, error) {
		v, err := of.run(m)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, failed(at, "%s goes through a list, not %s", name, kindOf(v))
		}
		n, err := m.countIf(list, test.run, at, name)
		if err != nil {
			return nil, err
		}
		switch name {
		case "all":
			return n == len(list), nil
		case "any":
			return n > 0, nil
		case "none":
			return n == 0, nil
		case "one":
			return n == 1, nil
		}
		return int64(n), nil
	}
	return out
}

// countIf counts the elements that a test holds for, and stops where any, none or all
// is decided.
func (m *machine) countIf(list []any, test node, at core.Position, name string) (int, error) {
	outer := m.item
	defer func() { m.item = outer }()
	n := 0
	for _, e := range list {
		if err := m.work(1); err != nil {
			return 0, err
		}
		m.item = plain(e)
		is, err := m.boolean(test, at)
		if err != nil {
			return 0, err
		}
		if is {
			n++
		}
		if is && (name == "any" || name == "none") || !is && name == "all" {
			return n, nil
		}
	}
	return n, nil
}

// under asks whether a path is a folder's or lies below it. Relative paths are of the
// workspace; dots are resolved, links are not followed.
func (c *compiler) under(args []ast.Node, at core.Position) typed {
	p, dir := c.compile(args[0]), c.compile(args[1])
	c.want(p, kindString, args[0], "the path")
	c.want(dir, kindString, args[1], "the folder")
	return typed{kind: kindBool, run: func(m *machine) (any, error) {
		path, err := m.path(p.run, at)
		if err != nil {
			return nil, err
		}
		folder, err := m.path(dir.run, at)
		if err != nil {
			return nil, err
		}
		inside, err := below(folder, path)
		if err != nil {
			return nil, failed(at, "the path cannot be compared with the folder")
		}
		if caseless, err := below(uncased(folder), uncased(path)); !inside && (caseless || err != nil) {
			return nil, failed(at, "the path differs from the folder in capitals only, and file systems may take both for the same")
		}
		return inside, m.work(len(path) / 8)
	}}
}

// below reports whether a clean path is a folder's or lies below it.
func below(folder, path string) (bool, error) {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), err
}

// uncased is a path as file systems see it that make no difference of case.
func uncased(path string) string { return strings.ToLower(strings.ToUpper(path)) }

// path is a path that means the same to everybody, made absolute where there is a
// workspace. What a server may read in another way is an error.
func (m *machine) path(n node, at core.Position) (string, error) {
	s, err := m.text(n, at)
	switch {
	case err != nil:
		return "", err
	case !Plain(s):
		return "", failed(at, "this is not a plain path")
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	return filepath.Join(m.call.Workspace, s), nil
}

// scheme is how a URL begins; a letter alone is a drive.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)

// Plain reports whether a text is a path that every server reads in the same way: no
// URL, nothing that a shell would expand.
func Plain(path string) bool {
	return path != "" && !strings.HasPrefix(path, "~") && !strings.Contains(path, "://") && !strings.ContainsAny(path, "\x00$%") && !scheme.MatchString(path)
}
