package screen

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// readingArguments says why a layer cannot be approved yet.
const readingArguments = "reading the arguments of what runs next: approve unlocks when they were shown"

// layerTask is a task as the context of a layer names it.
type layerTask struct {
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`
	Status    core.TaskState  `json:"status"`
	Arguments json.RawMessage `json:"arguments"`
}

// layersOf names what is known of the layers of an approval's run: another
// pointer, another reading. wait says that it is a layer that is approved, and
// that the arguments of its tasks are still to be read, or to be read again: the
// run has another plan by now.
func layersOf(a core.Approval, e *Env) (of *core.Layer, wait bool) {
	if a.Type != core.ApproveLayer {
		return nil, false
	}
	w, ok := e.State.Workflow(a.RunID)
	if !ok {
		return nil, true
	}
	return firstLayer(&w), e.State.OldPlan(a.RunID)
}

// tasksOf are the tasks of an approval's run, for the arguments of a layer; nil
// when they were not read yet.
func tasksOf(a core.Approval, e *Env) []core.Task {
	w, ok := e.State.Workflow(a.RunID)
	if _, wait := layersOf(a, e); wait || !ok || a.Type != core.ApproveLayer {
		return nil
	}
	out := []core.Task{}
	for _, l := range w.Layers {
		out = append(out, l.Tasks...)
	}
	return out
}

func (p *proof) layer(tasks []core.Task) {
	var results, next []layerTask
	var index, total int
	if p.into("layer_index", &index) && p.into("total_layers", &total) {
		p.text("layer", fmt.Sprintf("%d of %d", index+1, max(total, index+1)))
	}
	if p.into("results", &results) && len(results) > 0 {
		p.head("results so far")
		for _, t := range results {
			p.add("", "  "+string(t.Status)+"  "+t.ID+"  "+t.Tool, paint.Style{})
		}
		p.blank()
	}
	if p.into("next", &next) {
		p.head(fmt.Sprintf("tasks that run next: %d", len(next)))
		for _, t := range next {
			p.add("", "  "+t.ID+"  "+t.Tool, paint.Style{})
			p.taskArguments(t, tasks)
		}
	}
	if dag := p.take("dag"); dag != nil {
		p.blank()
		p.head("the whole DAG")
		p.text("", pretty(dag))
	}
}

// taskArguments adds the arguments of a task that runs next, or says why there
// are none.
func (p *proof) taskArguments(next layerTask, tasks []core.Task) {
	args, known := next.Arguments, len(next.Arguments) > 0
	for _, t := range tasks {
		if t.ID == next.ID && !known {
			args, known = t.Arguments, true
		}
	}
	switch {
	case known && len(args) > 0:
		for l := range strings.SplitSeq(pretty(args), "\n") {
			p.add("", "      "+l, paint.Style{})
		}
	case known:
		p.prose("      without arguments")
	case tasks == nil:
		p.prose("      its arguments were not read yet")
	default:
		p.prose("      its arguments are recorded only when it starts")
	}
}
