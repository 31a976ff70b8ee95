package plain

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
)

// remembers notes who runs a run before something is done to it that may have
// this process take it over. What cannot be found out is not claimed later.
func (d *dialogue) remembers(ctx context.Context, id core.ID) {
	if _, known := d.before[id]; known {
		return
	}
	if w, err := d.o.Backend.Workflow(ctx, id); err == nil {
		d.before[id] = w.Runner
	}
}

// lastLook bounds how long the end of the dialogue waits for a backend.
const lastLook = 2 * time.Second

// ours reports whether a runner is this process. was ran the run before
// something was done to it here.
func (d *dialogue) ours(runner, was string) bool {
	if d.o.Runner != nil {
		return runner != "" && runner == d.o.Runner()
	}
	return runner != "" && runner != was
}

// unfinished are the runs that something was done to here and that go on in
// this process.
func (d *dialogue) unfinished(ctx context.Context) (left []core.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	for _, id := range d.st.Runs() {
		was, acted := d.before[id]
		if !acted {
			continue
		}
		w, err := d.o.Backend.Workflow(ctx, id)
		if err == nil && w.State == core.RunRunning && w.Side != core.SideServer && d.ours(w.Runner, was) {
			left = append(left, id)
		}
	}
	return left
}
