package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// tellEvery is the shortest time between two notifications about what has moved.
const tellEvery = 200 * time.Millisecond

// step is the least by which progress grows: the protocol wants every
// notification to be past the one before, also when nothing has moved.
const step = 1e-6

// follow sends progress of a run to the client while a call waits for it, when
// the client asked for that. started gives the run once there is one; until then
// only signs of life are sent. The returned function ends it, without waiting
// for a look that is under way: what that one finds is not sent any more, as
// the answer ends the stream.
func (e *Edge) follow(ctx context.Context, c *call, started <-chan core.ID) (stop func()) {
	if len(c.token) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{call: c, beside: e.beside}
	e.beside("the progress of a run was told", func() { p.run(ctx, started, e.o.Beat) })
	return cancel
}

// progress is what a client has got of a run.
type progress struct {
	call   *call
	beside func(doing string, f func())
	tally  tally
	last   float64 // the number sent last
	seen   string  // the message sent last
}

func (p *progress) run(ctx context.Context, started <-chan core.ID, beat time.Duration) {
	alive := time.NewTicker(beat)
	defer alive.Stop()
	moved := make(chan struct{}, 1)
	var rest <-chan time.Time // set while it is too early for another one
	pending := false
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-started:
			started = nil
			p.beside("the progress of a run was followed", func() { p.listen(ctx, id, moved) })
		case <-alive.C:
			p.tell(ctx, true)
		case <-moved:
			if rest != nil {
				pending = true
				continue
			}
			p.tell(ctx, false)
			rest = time.After(tellEvery)
		case <-rest:
			rest = nil
			if pending {
				pending = false
				p.tell(ctx, false)
				rest = time.After(tellEvery)
			}
		}
	}
}

// listen keeps the tally of a run, and signals moved for each change of it,
// until the context ends. The run itself, which may be large, is read once, and
// again when its tasks have changed; the rest is counted from its events.
func (p *progress) listen(ctx context.Context, id core.ID, moved chan<- struct{}) {
	look := func() {
		if w, err := p.call.backend.Workflow(ctx, id); err == nil {
			p.tally.begin(w)
		}
		select {
		case moved <- struct{}{}:
		default:
		}
	}
	// What has happened so far is in the run: only where it ends is wanted.
	var last int64
	_ = p.call.backend.Events(ctx, id, api.Since{}, false, func(e core.Event) error {
		last = e.Seq
		return ctx.Err()
	})
	look()
	// Without events the signs of life remain.
	_ = p.call.backend.Events(ctx, id, api.Since{Any: last}, true, func(e core.Event) error {
		if e.Type == core.EventReplanned {
			look()
			return ctx.Err()
		}
		if p.tally.add(e) {
			select {
			case moved <- struct{}{}:
			default:
			}
		}
		return ctx.Err()
	})
}

// tell sends how far the run is; of one that has not moved it sends only a
// sign of life.
func (p *progress) tell(ctx context.Context, anyway bool) {
	done, total, message := p.tally.counted()
	if message == p.seen && !anyway || ctx.Err() != nil {
		return
	}
	p.seen = message
	at := float64(done)
	if at <= p.last {
		at = p.last + step
	}
	p.last = at
	note := progressNote{Token: p.call.token, Progress: at, Message: message}
	if float64(total) >= at {
		note.Total = total
	}
	p.call.out.notify("notifications/progress", note)
}

type progressNote struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    int             `json:"total,omitempty"`
	Message  string          `json:"message,omitempty"`
}

// tally is how far a run is, by its events.
type tally struct {
	mu      sync.Mutex
	settled map[string]bool // by the id of the task; nil: the run was not seen yet
	layer   int
	layers  int
	open    map[core.ID]bool // approvals
}

// begin takes the run as it is.
func (t *tally) begin(w core.Workflow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled, t.open = map[string]bool{}, map[core.ID]bool{}
	t.layer, t.layers = w.CurrentLayer, max(w.TotalLayers, len(w.Layers))
	for _, l := range w.Layers {
		for _, task := range l.Tasks {
			t.settled[task.ID] = task.State.Settled()
		}
	}
	for _, a := range w.Approvals {
		if a.State == core.ApprovalOpen {
			t.open[a.ID] = true
		}
	}
}

// add takes what has happened, and reports whether that counts. The same event
// again changes nothing.
func (t *tally) add(e core.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled == nil {
		return false
	}
	switch e.Type {
	case core.EventTaskStart, core.EventTaskComplete, core.EventTaskError:
		t.settled[e.TaskID] = e.Type != core.EventTaskStart
		if e.Layer != nil {
			t.layer, t.layers = max(t.layer, *e.Layer), max(t.layers, *e.Layer+1)
		}
	case core.EventApprovalRequested:
		t.open[e.ApprovalID] = true
	case core.EventApprovalResolved:
		delete(t.open, e.ApprovalID)
	default:
		return false
	}
	return true
}

// counted says how many tasks are done, of how many that are known, and where
// the run stands in words.
func (t *tally) counted() (done, total int, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled == nil {
		return 0, 0, "starting"
	}
	for _, settled := range t.settled {
		if settled {
			done++
		}
	}
	message = fmt.Sprintf("%d of %d tasks done", done, len(t.settled))
	if t.layers > 0 {
		message = fmt.Sprintf("layer %d of %d, %s", min(t.layer+1, t.layers), t.layers, message)
	}
	if len(t.open) > 0 {
		message += fmt.Sprintf("; waiting for a person to decide (%d)", len(t.open))
	}
	return done, len(t.settled), message
}
