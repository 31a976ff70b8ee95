// Package demo is a backend that plays a script: all states of runs and all
// types of approval, for a first look without any set-up and for tests. Nothing
// of it touches the machine; it is gone with the process.
package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/feed"
)

// Backend is the demo's. It implements feed.Backend and is safe for concurrent
// use.
type Backend struct {
	mu      sync.Mutex
	script  script
	flows   map[string][]byte // files, once they were looked at
	started int               // runs that Play has started
	halts   []core.Halt
}

// script is what has happened so far, and how it goes on. Backend holds its lock.
type script struct {
	clock core.Clock
	began time.Time

	runs      map[core.ID]*run
	order     []core.ID // oldest first
	approvals map[core.ID]*core.Approval
	events    []core.Event
	seq       map[core.Side]int64
	audit     []core.AuditRow
	changed   chan struct{} // closed and replaced by each event
	asked     int           // approvals so far
	past      time.Time     // the time while the beginning is made, zero later
	// remembered are the tools that a person does not want to be asked about again.
	remembered map[string]bool
}

// run is a run with its tasks.
type run struct {
	core.Run
	name   string
	layers [][]*task
	perLay bool // asks before each layer but the first
	asked  int  // layers that were allowed
}

// task is a task and what the script does with it.
type task struct {
	core.Task
	takes time.Duration
	ends  time.Time
	gate  *core.Approval // what it asks before it runs; nil: nothing
	asked core.ID        // the approval that it waits for
	fails string         // the error that it ends with
}

var _ feed.Backend = (*Backend)(nil)

// New returns a backend in the state in which the script begins.
func New(clock core.Clock) *Backend {
	b := &Backend{script: script{
		clock: clock, began: clock.Now(), runs: map[core.ID]*run{}, approvals: map[core.ID]*core.Approval{}, remembered: map[string]bool{},
		seq: map[core.Side]int64{}, changed: make(chan struct{}),
	}}
	b.script.begin(b.script.began)
	return b
}

// now is the time in the demo.
func (s *script) now() time.Time {
	if !s.past.IsZero() {
		return s.past
	}
	return s.clock.Now()
}

// Links tells of the connections that the script pretends.
func (b *Backend) Links(ctx context.Context, f func(feed.Link)) {
	f(feed.Link{Side: core.SideClient, Up: true})
	f(feed.Link{Side: core.SideServer, Up: true, Name: "demo"})
	<-ctx.Done()
}

// Workflows implements api.Workflows.
func (b *Backend) Workflows(_ context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var page api.Page[core.Run]
	past := cursor == ""
	for _, id := range slices.Backward(b.script.order) {
		r := b.script.runs[id]
		switch {
		case !past:
			past = string(id) == cursor
			continue
		case len(states) > 0 && !slices.Contains(states, r.State):
			continue
		case limit > 0 && len(page.Items) == limit:
			page.Next = string(page.Items[limit-1].ID)
			return page, nil
		}
		page.Items = append(page.Items, r.Run)
	}
	return page, nil
}

// Workflow implements api.Workflows.
func (b *Backend) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.script.find(id)
	if err != nil {
		return core.Workflow{}, err
	}
	w := core.Workflow{Run: r.Run}
	for i, layer := range r.layers {
		l := core.Layer{Index: i}
		for _, t := range layer {
			l.Tasks = append(l.Tasks, t.Task)
		}
		w.Layers = append(w.Layers, l)
	}
	for _, a := range b.script.sorted() {
		if a.RunID == id {
			w.Approvals = append(w.Approvals, a)
		}
	}
	return w, nil
}

func (s *script) find(id core.ID) (*run, error) {
	if r := s.runs[id]; r != nil {
		return r, nil
	}
	return nil, core.Errorf(core.CodeNotFound, "the demo has no run %s", id.Short())
}

// sorted returns all approvals, soonest expiry first.
func (s *script) sorted() []core.Approval {
	out := make([]core.Approval, 0, len(s.approvals))
	for _, a := range s.approvals {
		out = append(out, *a)
	}
	slices.SortFunc(out, core.BySoonest)
	return out
}

// Decidable implements api.Approvals.
func (b *Backend) Decidable(ctx context.Context) ([]core.Approval, error) {
	all, err := b.Approvals(ctx, true)
	return approval.Decidable(all, b.script.now()), err
}

// Approvals implements api.Approvals.
func (b *Backend) Approvals(_ context.Context, all bool) ([]core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.script.now()
	out := b.script.sorted()
	for i := range out {
		out[i].State = out[i].StateAt(now)
	}
	if !all {
		out = slices.DeleteFunc(out, func(a core.Approval) bool { return a.State != core.ApprovalOpen })
	}
	return out, nil
}

// Audit implements api.Audit.
func (b *Backend) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []core.AuditRow
	for _, r := range b.script.audit {
		if r.Seq > q.Since.Of(r.Side) && q.Match(r) && (q.Limit <= 0 || len(out) < q.Limit) {
			out = append(out, r)
		}
	}
	return out, nil
}

// Events implements api.Workflows.
func (b *Backend) Events(ctx context.Context, id core.ID, since api.Since, follow bool, f func(core.Event) error) error {
	for at := 0; ; {
		b.mu.Lock()
		list, changed := b.script.events[at:], b.script.changed
		at = len(b.script.events)
		b.mu.Unlock()
		for _, e := range list {
			if id != "" && e.RunID != id || e.Seq <= since.Of(e.Side) {
				continue
			}
			if err := f(e); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell adds an event and wakes who follows.
func (s *script) tell(r *run, e core.Event) {
	e.RunID, e.Side, e.At = r.ID, r.Side, s.now()
	if e.Type.NamesRun() {
		e.RunName = r.Name
	}
	s.seq[r.Side]++
	e.Seq = s.seq[r.Side]
	s.events = append(s.events, e)
	r.UpdatedAt = e.At
	close(s.changed)
	s.changed = make(chan struct{})
}
