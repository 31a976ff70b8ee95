package analyze

import (
	"slices"

	"github.com/dop251/goja/ast"
)

// The analysis interprets the script over abstract values instead of real ones. An
// abstract value describes every value that an expression can have at run time, by
// two sorts of facts:
//
//   - May-facts only grow. deps, pend and inner are sets of calls, by their index in
//     analyser.calls; holds is a flag. A call too many costs an edge or a later layer
//     in the plan, never a wrong prediction.
//   - Must-facts hold exactly or are unknown. lit is the one JSON value that the
//     expression has, or noLit. fn is the one function that it is, or nil. ref is the
//     one server or tool of mcp that it leads to; "*" stands for a part that is not
//     known, anyRef for some part of mcp. elems and props are the parts of an array
//     or object that are known one by one; parts that are not are in inner and holds.
//
// unknown() has no facts, so it is the value of whatever has nothing to do with mcp.
// merge joins the values of two branches: it unites may-facts, and keeps a must-fact
// only if both sides agree. part is a member of which nobody knows which one it is.
//
// Three flows matter. deps become data edges of the plan when the value is an argument
// of a call. pend joins the frontier when the value is awaited: calls after that place
// come in later layers. lit becomes the arguments that the gates are asked about
// beforehand, so it must be exact: a variable that is assigned to again, or an object
// that other code can change, loses it (facts). Such a change can stand after the
// use, so the script is walked twice, and the second walk knows the facts of the first.

// refKind says how far a value has come on the way mcp → server → tool.
type refKind int

const (
	refNone refKind = iota
	refRoot
	refServer
	refTool
	refAny // some part of mcp, not known which
)

// ref is a value that leads to tools; a part that is not known is "*".
type ref struct {
	kind         refKind
	server, tool string
}

var anyRef = ref{refAny, "*", "*"}

// value is an abstract value, as described above.
type value struct {
	deps  set // calls whose results it is made from
	pend  set // calls that an await of it waits for
	inner set // calls whose promises it holds in parts that are not known one by one
	ref   ref
	// holds is set when part of mcp is somewhere inside.
	holds bool
	elems []*value // of an array whose elements are known one by one
	props map[string]*value
	fn    *function
	lit   any // a literal (literal.go), or noLit
}

type noLiteral struct{}

var noLit = noLiteral{}

func unknown() *value { return &value{lit: noLit} }

func (v *value) literal() bool { return v.lit != any(noLit) }

// all is every call whose promise could come out of the value.
func (v *value) all() set {
	s := union(v.pend, v.inner)
	for _, e := range v.elems {
		s = union(s, e.pend, e.inner)
	}
	for _, e := range v.props {
		s = union(s, e.pend, e.inner)
	}
	return s
}

// merge joins two values into one that describes both: what is known of a value that
// is one of them, or made from both. Elements and properties become inner.
func merge(a, b *value) *value {
	out := &value{deps: union(a.deps, b.deps), pend: union(a.pend, b.pend), inner: union(inside(a), inside(b)), lit: noLit}
	out.ref = anyRef
	if a.ref == b.ref {
		out.ref = a.ref
	}
	out.holds = a.holds || b.holds
	if a.fn == b.fn {
		out.fn = a.fn
	}
	return out
}

// inside is the promises that a value holds, its own left out.
func inside(v *value) set {
	w := *v
	w.pend = nil
	return w.all()
}

// part is a member of a value of which it is not known which one it is.
func part(v *value) *value {
	out := &value{deps: v.deps, pend: inside(v), inner: inside(v), lit: noLit}
	if v.holds || v.ref.kind == refAny {
		out.ref = anyRef
	}
	return out
}

// function is a function whose body may be analysed where it is called.
type function struct {
	params  *ast.ParameterList
	body    ast.Node
	async   bool
	env     *scope
	done    bool // analysed at least once
	active  bool
	first   int // calls first..last were found in it
	last    int
	returns *value
}

// variable is what is known of a binding. facts are kept from the first walk over the
// script: whether it is ever assigned to again, and whether other code may change an
// object in it.
type variable struct {
	val   *value
	facts *facts
	depth int // of conditions where it was declared
}

type facts struct{ assigned, escaped bool }

type scope struct {
	up       *scope
	vars     map[string]*variable
	function bool // the scope that `var` declares in
}

func (s *scope) find(name string) *variable {
	for ; s != nil; s = s.up {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// set is a sorted set of call numbers.
type set []int

func union(sets ...set) set {
	var out set
	for _, s := range sets {
		switch {
		case len(s) == 0:
		case len(out) == 0:
			out = s
		default:
			out = slices.Concat(out, s)
			slices.Sort(out)
			out = slices.Compact(out)
		}
	}
	return out
}

func (s set) without(t set) set {
	if len(t) == 0 {
		return s
	}
	var out set
	for _, n := range s {
		if _, in := slices.BinarySearch(t, n); !in {
			out = append(out, n)
		}
	}
	return out
}
