package evidence

import (
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/paint"
)

// LayerTask is a task as the context of a layer names it.
type LayerTask struct {
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`
	Status    core.TaskState  `json:"status"`
	Arguments json.RawMessage `json:"arguments"`
}

func (p *proof) layer(tasks []core.Task) {
	var results, next []LayerTask
	var index, total int
	if p.into("layer_index", &index) && p.into("total_layers", &total) {
		p.text("layer", fmt.Sprintf("%d of %d", index+1, max(total, index+1)))
	}
	if p.into("results", &results) && len(results) > 0 {
		p.head("results of the layer before")
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
func (p *proof) taskArguments(next LayerTask, tasks []core.Task) {
	args, known := next.Arguments, len(next.Arguments) > 0
	for _, t := range tasks {
		if t.ID == next.ID && !known {
			args, known = t.Arguments, true
		}
	}
	switch {
	case known && len(args) > 0:
		p.laidOut("      ", asked.Arguments(args, nil))
	case known:
		p.prose("      without arguments")
	case tasks == nil:
		p.prose("      its arguments were not read yet")
	default:
		p.prose("      its arguments are recorded only when it starts")
	}
}
