package plain

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
)

// takeovers are the runs that this process runs by now, because something was done
// to them here.
type takeovers struct {
	backend feed.Reader
	runner  func() string      // as in Options
	before  map[core.ID]string // who ran the runs to which something was done
}

// note keeps who runs a run before something is done to it that may have this
// process take it over. What cannot be found out is not claimed later.
func (t *takeovers) note(ctx context.Context, id core.ID) {
	if _, known := t.before[id]; known {
		return
	}
	if w, err := t.backend.Workflow(ctx, id); err == nil {
		t.before[id] = w.Runner
	}
}

// lastLook bounds how long the end of the dialogue waits for a backend.
const lastLook = 2 * time.Second

// ours reports whether a runner is this process. was ran the run before
// something was done to it here.
func (t *takeovers) ours(runner, was string) bool {
	if t.runner != nil {
		return runner != "" && runner == t.runner()
	}
	return runner != "" && runner != was
}

// unfinished are those of some runs that go on in this process.
func (t *takeovers) unfinished(ctx context.Context, runs []core.ID) (left []core.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	for _, id := range runs {
		was, acted := t.before[id]
		if !acted {
			continue
		}
		w, err := t.backend.Workflow(ctx, id)
		if err == nil && w.State == core.RunRunning && w.Side != core.SideServer && t.ours(w.Runner, was) {
			left = append(left, id)
		}
	}
	return left
}
