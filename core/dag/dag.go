// Package dag reads, checks and extends task graphs, and puts the values of
// finished tasks where the arguments of others refer to them.
//
// It is pure: it runs nothing, and equal input gives equal output. A Graph
// never changes once it is built, so it may be shared between goroutines.
package dag

import (
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Known says whether a tool ("server:tool") exists and, if not, which names are
// most like it. A nil Known means that tools are not checked.
type Known func(tool string) (ok bool, nearest []string)

// Graph is a checked DAG. Layers count from 0; a task's layer is one more than
// the largest layer of what it depends on.
type Graph struct {
	tasks    []core.TaskSpec
	index    map[string]int
	deps     [][]int    // explicit and implied, without repeats, in the order first named
	users    [][]int    // the reverse of deps, in task order
	refs     []template // the references in each task's arguments
	layer    []int
	warnings []core.PlanNote
	docs     documents
}

// Tasks returns the tasks in the order given, those of replans last.
func (g *Graph) Tasks() []core.TaskSpec { return slices.Clone(g.tasks) }

// Task returns the task with an id.
func (g *Graph) Task(id string) (core.TaskSpec, bool) {
	i, ok := g.index[id]
	if !ok {
		return core.TaskSpec{}, false
	}
	return g.tasks[i], true
}

// Layer returns the layer of a task, or -1 when there is no such task.
func (g *Graph) Layer(id string) int {
	i, ok := g.index[id]
	if !ok {
		return -1
	}
	return g.layer[i]
}

// Layers returns the ids by layer, each layer in task order. After a replan a
// layer in between may be empty.
func (g *Graph) Layers() [][]string {
	n := 0
	for _, l := range g.layer {
		n = max(n, l+1)
	}
	out := make([][]string, n)
	for i, l := range g.layer {
		out[l] = append(out[l], g.tasks[i].ID)
	}
	return out
}

// DependsOn returns the ids that a task waits for: those it names in
// depends_on, then those that its arguments refer to.
func (g *Graph) DependsOn(id string) []string { return g.names(id, g.deps) }

// Dependants returns the ids of the tasks that wait for a task, in task order.
func (g *Graph) Dependants(id string) []string { return g.names(id, g.users) }

func (g *Graph) names(id string, lists [][]int) []string {
	i, ok := g.index[id]
	if !ok || len(lists[i]) == 0 {
		return nil
	}
	out := make([]string, len(lists[i]))
	for k, j := range lists[i] {
		out[k] = g.tasks[j].ID
	}
	return out
}

// Warnings returns remarks about what is allowed but probably a mistake: a
// `$name` in an argument that names no task and therefore stays as it is.
func (g *Graph) Warnings() []core.PlanNote { return slices.Clone(g.warnings) }

// Document is what a DAG file holds.
type Document struct {
	Tasks  []core.TaskSpec
	Input  json.RawMessage // empty: none given
	Intent string
}
