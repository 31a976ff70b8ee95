//go:build unix

package pmltest

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/casys-ai/pml/core"
)

// Task makes a task of a DAG; more holds its other fields.
func Task(id, tool, args string, more map[string]any) map[string]any {
	t := map[string]any{"id": id}
	if tool != "" {
		t["tool"] = tool
	}
	if args != "" {
		t["arguments"] = json.RawMessage(args)
	}
	maps.Copy(t, more)
	return t
}

// DAG writes a DAG file of the workspace and returns its path.
func (m *Machine) DAG(name string, tasks ...map[string]any) string {
	m.T.Helper()
	raw, err := json.Marshal(map[string]any{"tasks": tasks})
	if err != nil {
		m.T.Fatal(err)
	}
	return m.Write(name, string(raw))
}

// After has a task depend on others.
func After(ids ...string) map[string]any { return map[string]any{"depends_on": ids} }

// TasksOf are the tasks of a run by id.
func TasksOf(w core.Workflow) map[string]core.Task {
	out := map[string]core.Task{}
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			out[t.ID] = t
		}
	}
	return out
}

// States are the states of a run's tasks by id.
func States(w core.Workflow) map[string]string {
	out := map[string]string{}
	for id, t := range TasksOf(w) {
		out[id] = string(t.State)
	}
	return out
}

// LargeDAG makes a DAG of calls that cost as little as possible.
func LargeDAG(layers, width int) []map[string]any {
	tasks := make([]map[string]any, 0, layers*width)
	for l := range layers {
		for i := range width {
			var deps map[string]any
			if l > 0 {
				deps = After(fmt.Sprintf("t%d_%d", l-1, i))
			}
			tasks = append(tasks, Task(fmt.Sprintf("t%d_%d", l, i), "workspace:stat", `{"path":"."}`, deps))
		}
	}
	return tasks
}
