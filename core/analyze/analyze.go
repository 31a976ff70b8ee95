// Package analyze predicts the tool calls of a script without running it: which
// tools, with which arguments where they are plain, in which order. The plan
// serves gates, screens and speed; what happens is decided by running the
// script. Where the package cannot know it says so and never guesses.
//
// A call's Site is the line and column of the name right before its
// parenthesis in the script that runs (of the string in mcp["a"]["b"](…)),
// columns counted in code points from 1.
package analyze

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"

	"github.com/casys-ai/pml/core"
)

const (
	wrapHead = "(async function(){"
	wrapTail = "\n})"
	// maxDepth bounds the recursion over the syntax tree.
	maxDepth = 3000
	// maxCalls bounds the plan of one script; more are cut off with a note.
	maxCalls = 2000
	// maxEdges bounds the edges shown; layers are exact without them.
	maxEdges = 20000
)

// Code analyses stripped JavaScript: the body of an async function, or one
// complete function around it. toSource, which may be nil, maps a position in
// the script to the user's source. A script that cannot be analysed gives a
// plan with a note in Unknown, not an error: what is wrong with it is found
// when it runs.
func Code(script string, toSource func(core.Position) core.Position) (plan *core.Plan, err error) {
	if toSource == nil {
		toSource = func(p core.Position) core.Position { return p }
	}
	// The parser reads foreign text; a fault of it must not end the run.
	defer func() {
		if r := recover(); r != nil {
			plan, err = unanalysed(fmt.Sprintf("the parser failed: %v", r)), nil
		}
	}()
	text, problem := prescan(script)
	if problem != "" {
		return unanalysed(problem), nil
	}
	prog, perr := parser.ParseFile(nil, "", wrapHead+string(text)+wrapTail, 0, parser.WithDisableSourceMaps)
	if perr != nil {
		return unparsed(perr, toSource), nil
	}
	body := mainBody(prog)
	if body == nil {
		return unanalysed("it is not the body of a function"), nil
	}
	found := map[file.Idx]*facts{}
	var a *analyser
	for range 2 { // the second pass knows what the first found out of each variable
		a = newAnalyser(script, toSource, found)
		a.run(body)
		if a.tooDeep {
			return unanalysed("it is nested too deeply"), nil
		}
	}
	return a.plan(), nil
}

func unanalysed(why string) *core.Plan {
	return &core.Plan{Kind: core.KindCode, Calls: []core.PlanCall{}, Edges: []core.PlanEdge{}, Layers: [][]string{}, Tools: []string{},
		Unknown: []core.PlanNote{{Message: "could not be analysed: " + why}}}
}

// unparsed says what the parser did not accept, and where.
func unparsed(err error, toSource func(core.Position) core.Position) *core.Plan {
	var list parser.ErrorList
	if !errors.As(err, &list) || len(list) == 0 {
		return unanalysed(core.Visible(err.Error(), 200, false))
	}
	p := unanalysed(core.Visible(list[0].Message, 200, false))
	at := core.Position{Line: list[0].Position.Line, Column: list[0].Position.Column}
	if at.Line == 1 {
		at.Column = max(1, at.Column-len(wrapHead))
	}
	p.Unknown[0].At = toSource(at)
	return p
}

// mainBody finds the statements that run: those inside our own wrapper, or of
// the one function that these consist of.
func mainBody(prog *ast.Program) []ast.Statement {
	if len(prog.Body) != 1 {
		return nil
	}
	st, ok := prog.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	outer, ok := st.Expression.(*ast.FunctionLiteral)
	if !ok {
		return nil
	}
	list := outer.Body.List
	for len(list) > 1 {
		es, ok := list[0].(*ast.ExpressionStatement)
		if !ok {
			break
		}
		if _, directive := es.Expression.(*ast.StringLiteral); !directive {
			break
		}
		list = list[1:]
	}
	if len(list) == 1 {
		if s, ok := list[0].(*ast.ExpressionStatement); ok {
			switch f := s.Expression.(type) {
			case *ast.FunctionLiteral:
				return f.Body.List
			case *ast.ArrowFunctionLiteral:
				switch b := f.Body.(type) {
				case *ast.BlockStatement:
					return b.List
				case *ast.ExpressionBody:
					return []ast.Statement{&ast.ReturnStatement{Argument: b.Expression}}
				}
			}
		}
	}
	return outer.Body.List
}

// analyser walks a script in the order in which it would run.
type analyser struct {
	script   string
	toSource func(core.Position) core.Position
	lines    []int
	facts    map[file.Idx]*facts

	calls  []call
	kinds  map[[2]int]core.EdgeKind
	notes  []core.PlanNote
	warned []core.PlanNote

	env       *scope
	functions []*function
	frontier  set // awaited calls that no later awaited call follows
	control   set // calls whose results decide whether this place is reached
	cond      int // conditions around this place
	loops     int
	tries     int
	branches  int // conditions and loops
	// exits tells that the function may have returned before this place, by
	// the results of exitBy.
	exits   bool
	exitBy  set
	ret     *value
	inArgs  bool // inside the arguments of a tool call
	depth   int
	tooDeep bool
}

type call struct {
	plan   core.PlanCall
	at     file.Idx
	before set // calls that are over when it starts
}

func newAnalyser(script string, toSource func(core.Position) core.Position, found map[file.Idx]*facts) *analyser {
	a := &analyser{script: script, toSource: toSource, facts: found, kinds: map[[2]int]core.EdgeKind{}, lines: []int{0}}
	for i := range len(script) {
		if script[i] == '\n' {
			a.lines = append(a.lines, i+1)
		}
	}
	a.env = &scope{function: true, vars: map[string]*variable{}}
	return a
}

func (a *analyser) run(body []ast.Statement) {
	a.block(body)
	// Functions that no call of the script leads to may be called or not.
	for i := 0; i < len(a.functions); i++ { //nolint:intrange // the loop adds functions
		if f := a.functions[i]; !f.done {
			a.exits, a.exitBy, a.frontier = false, nil, nil
			a.branch(nil, func() { a.invoke(f, nil) })
		}
	}
}

// position gives the place of a node in the script.
func (a *analyser) position(idx file.Idx) core.Position {
	off := min(max(int(idx)-1-len(wrapHead), 0), len(a.script))
	line, found := slices.BinarySearch(a.lines, off)
	if !found {
		line--
	}
	return core.Position{Line: line + 1, Column: 1 + utf8.RuneCountInString(a.script[a.lines[line]:off])}
}

func (a *analyser) note(idx file.Idx, message string) {
	at := a.toSource(a.position(idx))
	for _, n := range a.notes {
		if n.At == at && n.Message == message {
			return
		}
	}
	a.notes = append(a.notes, core.PlanNote{Message: message, At: at})
}

// record adds the call of a tool and its edges.
func (a *analyser) record(r ref, at file.Idx, args *value) *value {
	n := len(a.calls)
	if n >= maxCalls {
		a.note(at, fmt.Sprintf("there are more than %d calls; the rest is not shown", maxCalls))
		return unknown()
	}
	site := a.position(at)
	c := call{at: at, plan: core.PlanCall{Tool: r.server + ":" + r.tool, Site: site, At: a.toSource(site),
		Conditional: a.cond > 0 || a.exits, Repeated: a.loops > 0}}
	if args.literal() {
		if c.plan.Arguments = encode(args.lit); core.TooDeep(c.plan.Arguments) {
			c.plan.Arguments = nil // the call fails
		}
	} else {
		c.plan.Known, c.plan.Computed = knownTexts(args), computed(args)
	}
	data, control := union(args.deps, args.all()), union(a.control, a.exitBy)
	a.edge(data, n, core.EdgeData)
	a.edge(control, n, core.EdgeControl)
	a.edge(a.frontier, n, core.EdgeOrder)
	c.before = union(data, control, a.frontier)
	for _, f := range c.before {
		c.plan.Layer = max(c.plan.Layer, a.calls[f].plan.Layer+1)
	}
	if len(a.kinds) >= maxEdges {
		a.note(0, "there are too many dependencies to list; some are left out")
	}
	a.calls = append(a.calls, c)
	if r.server == "*" || r.tool == "*" {
		a.note(at, "which tool is called here is known only when it runs")
	}
	return &value{deps: set{n}, pend: set{n}, lit: noLit}
}

// maxKnown bounds the texts that a plan tells of arguments that are not known completely.
const maxKnown = 200

// knownTexts are the short texts that are known of an object, by name; nil without any.
func knownTexts(v *value) map[string]string {
	var out map[string]string
	for name, p := range v.props {
		if text, ok := p.lit.(string); ok && text != "" && len(text) <= maxKnown && len(name) <= maxKnown && len(out) < maxEdges {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = text
		}
	}
	return out
}

// computed are the names of the parts of an object that are known one by one, and have no
// known value.
func computed(v *value) (names []string) {
	for name, p := range v.props {
		if !p.literal() && len(name) <= maxKnown && len(names) < maxEdges {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *analyser) edge(from set, to int, kind core.EdgeKind) {
	for _, f := range from {
		if _, ok := a.kinds[[2]int{f, to}]; !ok && len(a.kinds) < maxEdges {
			a.kinds[[2]int{f, to}] = kind
		}
	}
}

// await makes what follows come after the calls that a value waits for.
func (a *analyser) await(v *value) *value {
	var over set
	for _, n := range v.pend {
		over = union(over, a.calls[n].before)
	}
	a.frontier = union(a.frontier.without(over), v.pend)
	out := *v
	out.pend = nil
	return &out
}

// plan numbers the calls by their place in the script.
func (a *analyser) plan() *core.Plan {
	p := unanalysed("")
	p.Unknown, p.Warnings = a.notes, a.warned
	pairs := slices.Collect(maps.Keys(a.kinds))
	slices.SortFunc(pairs, func(x, y [2]int) int { return (x[1]-y[1])*(maxCalls+1) + x[0] - y[0] })
	order := make([]int, len(a.calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return int(a.calls[x].at - a.calls[y].at) })
	ids := make([]string, len(a.calls))
	tools := map[string]bool{}
	for i, n := range order {
		c := a.calls[n].plan
		c.ID = fmt.Sprintf("c%d", i+1)
		ids[n] = c.ID
		p.Calls = append(p.Calls, c)
		for len(p.Layers) <= c.Layer {
			p.Layers = append(p.Layers, nil)
		}
		p.Layers[c.Layer] = append(p.Layers[c.Layer], c.ID)
		if !strings.Contains(c.Tool, "*") {
			tools[c.Tool] = true
		}
	}
	for _, e := range pairs {
		p.Edges = append(p.Edges, core.PlanEdge{From: ids[e[0]], To: ids[e[1]], Kind: a.kinds[e]})
	}
	p.Tools = append(p.Tools, slices.Sorted(maps.Keys(tools))...)
	return p
}
