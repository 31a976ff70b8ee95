package dag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

const (
	maxAttempts = 100
	// maxSuggested limits how many faults of a DAG come with the nearest names:
	// finding them is slow, and nobody reads more.
	maxSuggested = 20
)

// Build checks tasks and orders them in layers. All that is wrong is reported
// in one *core.Error of core.CodeDAGInvalid, one fault each: ids that are
// missing, malformed or used twice, unknown types, missing tools or code,
// impossible retries and time-outs, dependencies and $OUTPUT[…] references on
// tasks that do not exist or on the task itself, unknown tools, and cycles,
// with all the ids of one cycle. Paths of faults are JSON pointers into
// {"tasks": […]}.
func Build(tasks []core.TaskSpec, known Known) (*Graph, error) {
	b := builder{known: known, g: &Graph{}}
	b.g.docs.byID = map[int]*document{}
	return b.build(tasks, nil, 0)
}

// Extend returns a new graph with tasks added, for a replan; g stays as it is.
// New ids must be new. New tasks may depend on each other and on old tasks,
// done or not; nothing about the old ones changes, their layers included.
//
// A new task's layer is at least floor. The caller passes the first layer that is
// not complete, because a complete layer has its checkpoint, and with barriers its
// results are delivered: no task may appear in it afterwards. The floor is kept with
// the replan (core.Addition), so that the graph gets the same layers whenever it is
// built again. settled, which may be nil, tells which old tasks are done; it raises
// floor above the first layers in which all tasks are. Errors are those of Build;
// paths of faults point into the added tasks.
func (g *Graph) Extend(add []core.TaskSpec, settled func(id string) bool, floor int, known Known) (*Graph, error) {
	if settled != nil {
		for l, ids := range g.Layers() {
			if slices.ContainsFunc(ids, func(id string) bool { return !settled(id) }) {
				break
			}
			floor = max(floor, l+1)
		}
	}
	b := builder{known: known, g: &Graph{}}
	b.g.docs.byID = map[int]*document{}
	return b.build(add, g, floor)
}

// builder collects the faults of a graph that is being built.
type builder struct {
	g      *Graph
	known  Known
	old    int // tasks before this one are those of the graph extended
	faults []core.Fault
	ids    []string // for suggestions, filled when first needed
}

// build makes a graph of tasks, behind those of from, if there is one. It copies what
// from has and changes none of it: runs and screens hold graphs without a lock. It
// collects all faults before it gives up, because whoever wrote the DAG, mostly a
// model, mends all that it reads at once. Cycles are looked for only when each task
// has its list of dependencies, and the layers only when nothing is wrong.
func (b *builder) build(tasks []core.TaskSpec, from *Graph, floor int) (*Graph, error) {
	g := b.g
	if from != nil {
		b.old = len(from.tasks)
		g.tasks = slices.Concat(from.tasks, tasks)
		g.refs = slices.Clone(from.refs)
		g.deps = slices.Clone(from.deps)
		g.layer = slices.Clone(from.layer)
		g.warnings = slices.Clone(from.warnings)
	} else {
		g.tasks = slices.Clone(tasks)
	}
	if len(tasks) == 0 {
		b.fault("/tasks", "there are no tasks")
	}
	b.indexIDs()
	for i := b.old; i < len(g.tasks); i++ {
		b.task(i)
	}
	if len(g.deps) == len(g.tasks) {
		for _, c := range cycles(g.deps) {
			b.cycle(c)
		}
	}
	if len(b.faults) > 0 {
		e := invalid(b.faults)
		e.Warnings = g.warnings
		return nil, e
	}
	b.order(floor)
	return g, nil
}

func invalid(faults []core.Fault) *core.Error {
	e := core.Errorf(core.CodeDAGInvalid, "the DAG is not valid: %d faults; nothing has run", len(faults))
	if len(faults) == 1 {
		e.Message = "the DAG is not valid; nothing has run"
	}
	e.Faults = faults
	return e
}

func (b *builder) fault(path, format string, args ...any) {
	b.faults = append(b.faults, core.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

// indexIDs notes where each id is. Ids of the old tasks are taken as they are: they
// were checked when their graph was built, perhaps by rules of an older pml.
func (b *builder) indexIDs() {
	g := b.g
	g.index = make(map[string]int, len(g.tasks))
	for i := range g.tasks {
		id := g.tasks[i].ID
		first, twice := g.index[id]
		switch {
		case i < b.old:
		case id == "":
			b.fault(b.path(i, "id"), "the task has no id")
			continue
		case !validID(id):
			b.fault(b.path(i, "id"), "the id %s is not valid: use at most %d letters, digits and _ . : -", quote(id), maxID)
			continue
		case twice && first < b.old:
			b.fault(b.path(i, "id"), "the id %s is taken by a task that is already there", quote(id))
			continue
		case twice:
			b.fault(b.path(i, "id"), "the id %s is used twice; first by task %d", quote(id), first-b.old+1)
			continue
		}
		g.index[id] = i
	}
}

func (b *builder) path(i int, rest string) string {
	return fmt.Sprintf("/tasks/%d/%s", i-b.old, rest)
}

// suggest names the ids most like one that does not exist.
func (b *builder) suggest(id string) string {
	if len(b.faults) >= maxSuggested {
		return ""
	}
	if b.ids == nil {
		for i := range b.g.tasks {
			b.ids = append(b.ids, b.g.tasks[i].ID)
		}
		slices.Sort(b.ids)
		b.ids = slices.Compact(b.ids)
	}
	return core.Suggest(id, b.ids)
}

// task checks one task and finds the tasks that it waits for: those of depends_on and
// those whose output its arguments refer to, each once, in the order in which they are
// named. References make a dependency by themselves, so nobody has to write both.
func (b *builder) task(i int) {
	t := &b.g.tasks[i]
	b.kind(i, t)
	if t.TimeoutMS < 0 {
		b.fault(b.path(i, "timeout_ms"), "%s: a time-out of %d ms is not possible", label(t), t.TimeoutMS)
	}
	if r := t.Retry; r != nil {
		if r.MaxAttempts < 1 || r.MaxAttempts > maxAttempts {
			b.fault(b.path(i, "retry/max_attempts"), "%s: max_attempts is %d; it must be 1 to %d", label(t), r.MaxAttempts, maxAttempts)
		}
		if r.BackoffMS < 0 {
			b.fault(b.path(i, "retry/backoff_ms"), "%s: a back-off of %d ms is not possible", label(t), r.BackoffMS)
		}
	}
	var deps []int
	seen := map[int]bool{}
	add := func(j int) {
		if !seen[j] {
			seen[j] = true
			deps = append(deps, j)
		}
	}
	for k, id := range t.DependsOn {
		j, ok := b.g.index[id]
		switch {
		case !ok:
			b.fault(b.path(i, fmt.Sprintf("depends_on/%d", k)), "%s depends on %s, which does not exist%s", label(t), quote(id), b.suggest(id))
		case j == i || id == t.ID:
			b.fault(b.path(i, fmt.Sprintf("depends_on/%d", k)), "%s depends on itself", label(t))
		default:
			add(j)
		}
	}
	refs := b.references(i, t)
	for _, h := range refs {
		for _, p := range h.parts {
			switch {
			case p.ref == nil:
			case p.ref.task == i || b.g.tasks[p.ref.task].ID == t.ID:
				b.fault(b.path(i, "arguments"), "%s refers to its own output: %s", label(t), p.ref)
			default:
				add(p.ref.task)
			}
		}
	}
	b.g.refs = append(b.g.refs, refs)
	b.g.deps = append(b.g.deps, deps)
}

// kind checks a task's type and what belongs to it.
func (b *builder) kind(i int, t *core.TaskSpec) {
	switch t.Type {
	case "", core.TypeTool:
		b.tool(i, t)
	case core.TypeCode:
		if strings.TrimSpace(t.Code) == "" {
			b.fault(b.path(i, "code"), "%s is a code task without code", label(t))
		}
		if t.Tool != "" {
			b.fault(b.path(i, "tool"), "%s is a code task and calls no tool; make it two tasks", label(t))
		}
		b.outside(t)
	case core.TypeAgent:
		if t.Tool == "" {
			t.Tool = core.DelegateTool
		}
		if t.Code != "" {
			b.fault(b.path(i, "code"), "%s is an agent task and has code; make it two tasks", label(t))
		}
		if t.Tool != core.DelegateTool {
			b.fault(b.path(i, "tool"), "%s is an agent task, whose tool is %s; leave it out", label(t), core.DelegateTool)
		}
	default:
		types := []string{string(core.TypeTool), string(core.TypeCode), string(core.TypeAgent)}
		b.fault(b.path(i, "type"), "%s: the type %s is unknown%s; use mcp_tool, code or agent", label(t), quote(string(t.Type)), core.Suggest(string(t.Type), types))
	}
}

// The names that scripts have and the code of a task has not. In a text or a comment they
// are found as well: what comes of it is a warning.
var (
	callsTool = regexp.MustCompile(`(?:^|[^.\w$])mcp\s*[.\[]`)
	waits     = regexp.MustCompile(`(?:^|[^.\w$])setTimeout\s*\(`)
)

// outside warns of code that does what only a script can do.
func (b *builder) outside(t *core.TaskSpec) {
	warn := func(text string) {
		b.g.warnings = append(b.g.warnings, core.PlanNote{CallID: t.ID, Message: label(t) + ": " + text})
	}
	if callsTool.MatchString(t.Code) {
		warn("the code of a task cannot call tools, mcp is not defined there; make the call a task of its own, or the whole a script")
	}
	if waits.MatchString(t.Code) {
		warn("the code of a task cannot wait, setTimeout is not defined there; only a script can")
	}
}

// tool checks a task that calls a tool, and says what was probably meant: code without
// its type, or two tasks in one. Tools of the server "pml" are the engine's own and no
// DAG may name them.
func (b *builder) tool(i int, t *core.TaskSpec) {
	server, _, ok := core.SplitTool(t.Tool)
	switch {
	case t.Code != "" && t.Tool == "":
		b.fault(b.path(i, "type"), `%s has code; set "type": "code"`, label(t))
	case t.Tool == "":
		b.fault(b.path(i, "tool"), "%s names no tool", label(t))
	case t.Code != "":
		b.fault(b.path(i, "code"), "%s has a tool and code; make it two tasks", label(t))
	case !ok || server == "pml":
		b.fault(b.path(i, "tool"), "%s: %s is no tool; write it as server:tool", label(t), quote(t.Tool))
	case b.known != nil:
		if ok, near := b.known(t.Tool); !ok {
			hint := ""
			if len(near) > 0 {
				hint = " (did you mean " + strings.Join(near, ", ") + "?)"
			}
			b.fault(b.path(i, "tool"), "%s: there is no tool %s%s", label(t), quote(t.Tool), hint)
		}
	}
}

// references finds the references in a task's arguments. Arguments are an object, or
// one reference to a whole output, which is checked to be an object when the task
// begins. A text that looks like a reference and is none is passed as it is, with a
// warning: it may be meant.
func (b *builder) references(i int, t *core.TaskSpec) template {
	args := bytes.TrimSpace(t.Arguments)
	if len(args) == 0 || string(args) == "null" {
		return nil
	}
	if !json.Valid(args) {
		b.fault(b.path(i, "arguments"), "the arguments of %s are not valid JSON", label(t))
		return nil
	}
	if core.TooDeep(args) {
		b.fault(b.path(i, "arguments"), "the arguments of %s are nested more than %d levels deep", label(t), core.MaxDepth)
		return nil
	}
	f := finder{
		index: b.g.index,
		literal: func(text, hint string) {
			msg := fmt.Sprintf("%s: %s names no task and is passed as it is", label(t), quote(text))
			if hint != "" {
				msg = fmt.Sprintf("%s: %s inside a longer string is passed as it is; write %s to put the value there", label(t), quote(text), hint)
			}
			b.g.warnings = append(b.g.warnings, core.PlanNote{Message: msg, CallID: t.ID})
		},
		unknown: func(text, id string) {
			b.fault(b.path(i, "arguments"), "%s refers to %s, but there is no task %s%s", label(t), quote(text), quote(id), b.suggest(id))
		},
	}
	before := len(b.faults)
	refs := f.scan(t.Arguments)
	whole := len(refs) == 1 && refs[0].whole && args[0] == '"'
	if args[0] != '{' && !whole && len(b.faults) == before {
		b.fault(b.path(i, "arguments"), "the arguments of %s are %s; they must be an object", label(t), kindOf(args))
	}
	if t.Type == core.TypeCode {
		b.g.warnings = append(b.g.warnings, core.PlanNote{CallID: t.ID, Message: label(t) + ": code does not see arguments; it reads deps and input"})
	}
	return refs
}

// cycle reports a cycle by all the ids in it, the first again at the end.
func (b *builder) cycle(c []int) {
	var names []string
	for _, i := range c {
		names = append(names, b.g.tasks[i].ID)
	}
	names = append(names, names[0])
	b.fault(b.path(c[0], "depends_on"), "these tasks wait for each other: %s", strings.Join(names, " → "))
}

func label(t *core.TaskSpec) string {
	if t.ID == "" {
		return "the task"
	}
	return "task " + core.Visible(t.ID, maxID, false)
}

// quote shows foreign text safely in a message.
func quote(s string) string { return `"` + core.Visible(s, 120, false) + `"` }
