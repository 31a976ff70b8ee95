package screen

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/graph"
)

// dagModel is what the panel works out of the layers of a run: once for each
// time that they were read.
type dagModel struct {
	run    core.ID
	of     *core.Layer // the first of the layers that were read
	layers []dagLayer
	tasks  []*core.Task     // of all layers
	states []core.TaskState // of each task, as far as a person is concerned
	layer  []int            // of each task, an index of layers
	byID   map[string]int
	asked  map[int]core.ID // the approval that a task waits for
	gates  map[int]core.ID // the approval before a layer, by its number
	users  map[string][]string
	uses   map[string]int // how many tasks call a tool
	edges  []graph.Edge
	counts dagCounts
	// critical is the longest chain of tasks in milliseconds, 0 where it is not
	// known what comes after what.
	critical float64
	code     bool             // the tasks are the calls of a script
	names    []string         // of the tasks, each made when it is first shown
	tools    []string         // the same of their tools
	steps    []core.AgentStep // of an agent: a layer of the model is a step of it
	price    *core.AgentPrice
}

// dagCounts are tasks by what became of them. Done are also those that have failed without
// ending the run (safe) and those that were skipped.
type dagCounts struct{ total, done, failed, running, waiting, queued, skipped, safe int }

// well is how many tasks have ended as they should.
func (c *dagCounts) well() int { return c.done - c.safe - c.skipped }

// dagLayer is one layer: its tasks are tasks[first:last] of the model.
type dagLayer struct {
	number, first, last int
	counts              dagCounts
	took                time.Duration
}

// add counts a task.
func (c *dagCounts) add(s core.TaskState) {
	c.total++
	switch s {
	case core.TaskSuccess:
		c.done++
	case core.TaskFailedSafe:
		c.done++
		c.safe++
	case core.TaskSkipped:
		c.done++
		c.skipped++
	case core.TaskError:
		c.failed++
	case core.TaskRunning:
		c.running++
	case core.TaskWaiting:
		c.waiting++
	case core.TaskQueued:
		c.queued++
	}
}

// state is what a number of tasks is in together: what needs a person first.
func (c *dagCounts) state() core.TaskState {
	switch {
	case c.waiting > 0:
		return core.TaskWaiting
	case c.failed > 0:
		return core.TaskError
	case c.running > 0:
		return core.TaskRunning
	case c.queued > 0:
		return core.TaskQueued
	case c.skipped > 0 && c.skipped == c.total:
		return core.TaskSkipped
	case c.safe > 0:
		return core.TaskFailedSafe
	}
	return core.TaskSuccess
}

// current reports whether the model is still of what was read last.
func (m *dagModel) current(w *core.Workflow) bool {
	return m.run == w.ID && m.of == firstLayer(w) && (m.of != nil || len(m.tasks) == 0)
}

func firstLayer(w *core.Workflow) *core.Layer {
	if len(w.Layers) == 0 {
		return nil
	}
	return &w.Layers[0]
}

// newDAGModel works the model of a run out.
func newDAGModel(w *core.Workflow) *dagModel {
	m := &dagModel{
		run: w.ID, of: firstLayer(w), byID: map[string]int{}, asked: map[int]core.ID{}, gates: map[int]core.ID{}, users: map[string][]string{}, uses: map[string]int{},
		steps: core.AgentSteps(*w),
	}
	layers := w.Layers
	if m.steps != nil {
		layers = m.ofSteps(w)
	}
	for i := range layers {
		l := &layers[i]
		row := dagLayer{number: l.Index, first: len(m.tasks)}
		for k := range l.Tasks {
			t := &l.Tasks[k]
			m.byID[t.ID] = len(m.tasks)
			m.tasks = append(m.tasks, t)
			m.uses[t.Tool]++
			m.layer = append(m.layer, len(m.layers))
			for _, from := range t.DependsOn {
				m.edges = append(m.edges, graph.Edge{From: from, To: t.ID})
				m.users[from] = append(m.users[from], t.ID)
			}
		}
		row.last = len(m.tasks)
		row.took = tookLayer(l.Tasks)
		m.layers = append(m.layers, row)
	}
	m.code = w.Kind == core.KindCode
	m.names, m.tools = make([]string, len(m.tasks)), make([]string, len(m.tasks))
	m.findApprovals(w)
	m.findStates()
	m.critical = m.longest()
	return m
}

// name is what a task is called: by whoever has written the graph, and in a script, whose
// calls only have numbers, as the call says it itself.
func (m *dagModel) name(task int) string {
	if m.names[task] != "" {
		return m.names[task]
	}
	t := m.tasks[task]
	if m.names[task] = visibleName(t.ID); m.code && t.Tool != "" {
		m.names[task] = core.CallName(t.Tool, t.Made())
	}
	return m.names[task]
}

// tool is the name of a task's tool.
func (m *dagModel) tool(task int) string {
	if m.tools[task] == "" {
		m.tools[task] = visibleName(m.tasks[task].Tool)
	}
	return m.tools[task]
}

// nameOf is the name of a task by its id.
func (m *dagModel) nameOf(id string) string {
	if i, ok := m.byID[id]; ok {
		return m.name(i)
	}
	return visibleName(id)
}

// tookLayer is how long a layer took from the first start to the last end.
func tookLayer(tasks []core.Task) time.Duration {
	var start, end time.Time
	for i := range tasks {
		if s := tasks[i].StartedAt; s != nil && (start.IsZero() || s.Before(start)) {
			start = *s
		}
		if e := tasks[i].EndedAt; e != nil && e.After(end) {
			end = *e
		}
	}
	if start.IsZero() || !end.After(start) {
		return 0
	}
	return end.Sub(start)
}

// findStates says what the tasks are in, and counts them. One that a person is
// asked about before it is begun waits, whatever was journaled of it.
func (m *dagModel) findStates() {
	for i, t := range m.tasks {
		st := t.State
		if _, asked := m.asked[i]; asked && st == core.TaskQueued {
			st = core.TaskWaiting
		}
		m.states = append(m.states, st)
		m.layers[m.layer[i]].counts.add(st)
		m.counts.add(st)
	}
}

// findApprovals finds what tasks and layers wait for: nobody can answer what has
// expired until it is asked again, so that it is waited for where nothing else is.
func (m *dagModel) findApprovals(w *core.Workflow) {
	if w.State == core.RunWaiting {
		for i := range w.Approvals {
			if a := &w.Approvals[i]; a.State == core.ApprovalExpired && a.RenewedBy == "" {
				m.findTasks(a)
			}
		}
	}
	for i := range w.Approvals {
		a := &w.Approvals[i]
		if a.State != core.ApprovalOpen {
			continue
		}
		if n, ok := gateLayer(a); ok {
			m.gates[n] = a.ID
			continue
		}
		if m.findTasks(a) {
			continue
		}
		if !approval.TypeOf(a.Type).PerCall {
			m.findServer(a)
			continue
		}
		for t := range m.tasks { // an older half names no calls
			if _, taken := m.asked[t]; !taken && m.tasks[t].State == core.TaskWaiting && m.tasks[t].Tool == a.Tool {
				m.asked[t] = a.ID
				break
			}
		}
	}
}

// findServer finds the tasks that a question about a server or a tool holds up, which
// names no calls: those of it that are not made yet, in the first layer that has any.
func (m *dagModel) findServer(a *core.Approval) {
	for i := range m.layers {
		left := false
		for t := m.layers[i].first; t < m.layers[i].last; t++ {
			if st := m.tasks[t].State; st != core.TaskQueued && st != core.TaskWaiting {
				continue
			}
			left = true
			server, _, _ := core.SplitTool(m.tasks[t].Tool)
			if _, taken := m.asked[t]; !taken && (a.Tool == server || a.Tool == m.tasks[t].Tool) {
				m.asked[t] = a.ID
			}
		}
		if left {
			return
		}
	}
}

// findTasks finds the tasks that an approval names, and reports whether there is
// one.
func (m *dagModel) findTasks(a *core.Approval) (found bool) {
	for _, id := range append(slices.Clone(a.CallIDs), a.Planned()) {
		if t, ok := m.byID[id]; ok {
			m.asked[t], found = a.ID, true
		}
	}
	return found
}

// gateLayer is the layer that an approval stands before.
func gateLayer(a *core.Approval) (n int, ok bool) {
	if a.Type != core.ApproveLayer {
		return 0, false
	}
	digits, found := strings.CutPrefix(a.Subject, "layer:")
	n, err := strconv.Atoi(digits)
	return n, found && err == nil
}

// longest is the longest chain of durations. Layers rise along a chain, so that
// each task finds its predecessors done.
func (m *dagModel) longest() float64 {
	if len(m.edges) == 0 {
		return 0
	}
	best, sums := 0.0, make([]float64, len(m.tasks))
	for i, t := range m.tasks {
		for _, from := range t.DependsOn {
			if k, ok := m.byID[from]; ok && m.layer[k] < m.layer[i] {
				sums[i] = max(sums[i], sums[k])
			}
		}
		sums[i] += t.DurationMS
		best = max(best, sums[i])
	}
	return best
}

// begun reports whether a task of a layer has been called.
func (m *dagModel) begun(number int) bool {
	return slices.ContainsFunc(m.layers, func(l dagLayer) bool { return l.number == number && l.counts.state() != core.TaskQueued })
}

// start is the task to look at first: an urgent one, or the first.
func (m *dagModel) start() string {
	id, urgent := m.urgent()
	if !urgent && len(m.tasks) > 0 {
		return m.tasks[0].ID
	}
	return id
}

// urgent is the first task that waits, by itself or with its layer, else one that failed, else one
// that runs; ok is false where there is none.
func (m *dagModel) urgent() (id string, ok bool) {
	for _, want := range []core.TaskState{core.TaskWaiting, core.TaskError, core.TaskRunning} {
		for i, t := range m.tasks {
			_, gated := m.gates[m.layers[m.layer[i]].number]
			if st := m.states[i]; st == want || want == core.TaskWaiting && gated && st == core.TaskQueued {
				return t.ID, true
			}
		}
	}
	return "", false
}

// underWay is the task to look at in a run that runs: what waits, what runs, of a script else the
// call that it has made last.
func (m *dagModel) underWay() string {
	for _, want := range []core.TaskState{core.TaskWaiting, core.TaskRunning} {
		if i := slices.Index(m.states, want); i >= 0 {
			return m.tasks[i].ID
		}
	}
	if n := len(m.tasks); m.code && n > 0 {
		return m.tasks[n-1].ID
	}
	return m.start()
}

// layout lays the boxes out.
func (m *dagModel) layout(o graph.Options) *graph.Layout {
	nodes := make([]graph.Node, len(m.tasks))
	for i, t := range m.tasks {
		keep := m.states[i] == core.TaskWaiting || m.states[i] == core.TaskError
		nodes[i] = graph.Node{ID: t.ID, Layer: m.layers[m.layer[i]].number, Keep: keep}
	}
	o.Tight = len(m.edges) == 0
	return graph.Build(nodes, m.edges, o)
}

// layerOf is the index of the layer with a number, or -1.
func (m *dagModel) layerOf(number int) int {
	i, ok := slices.BinarySearchFunc(m.layers, number, func(l dagLayer, n int) int { return cmp.Compare(l.number, n) })
	if !ok {
		return -1
	}
	return i
}
