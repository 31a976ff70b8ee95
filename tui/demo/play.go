package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	tick = 500 * time.Millisecond
	// ttl is how long a question stays open in the demo, startEvery how often a
	// new run begins.
	ttl        = 5 * time.Minute
	startEvery = 20 * time.Second
)

// Play lets things happen until the context ends.
func (b *Backend) Play(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	last := b.script.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		b.Step()
		if now := b.script.clock.Now(); now.Sub(last) >= startEvery {
			last = now
			b.another()
		}
	}
}

// Step lets happen what is due, unless calls are halted.
func (b *Backend) Step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.halts) == 0 {
		b.script.step(b.script.now())
	}
}

// another starts a small run, every third of which asks, unless calls are halted.
func (b *Backend) another() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.halts) > 0 {
		return
	}
	b.started++
	read := t("read", "workspace:read_file", 2*time.Second, map[string]any{"path": fmt.Sprintf("notes/%d.md", b.started)})
	write := t("write", "workspace:write_file", 2*time.Second, map[string]any{"path": "summary.md"})
	if b.started%3 == 0 {
		write = permission(write)
	}
	b.script.add(fmt.Sprintf("triage-issues %d", b.started), core.SideClient, core.KindCode, 0, []*task{read}, []*task{write})
}

// step moves every run by what is due.
func (s *script) step(now time.Time) {
	for _, id := range s.order {
		if r := s.runs[id]; r.State == core.RunRunning || r.State == core.RunWaiting {
			s.advance(r, now)
		}
	}
}

// advance ends what is done, starts what can start, and asks what must be asked.
func (s *script) advance(r *run, now time.Time) {
	if r.CurrentLayer >= len(r.layers) {
		s.finish(r, now)
		return
	}
	layer, done, waits, failed := r.layers[r.CurrentLayer], 0, false, false
	if r.perLay && r.CurrentLayer > r.asked {
		s.askLayer(r, now)
		return
	}
	for _, t := range layer {
		switch {
		case t.State == core.TaskQueued && t.gate != nil && !s.remembered[t.Tool]:
			s.ask(r, t, now)
		case t.State == core.TaskQueued:
			s.start(r, t, now)
		case t.State == core.TaskRunning && !now.Before(t.ends):
			s.end(r, t, now)
		}
		waits = waits || t.State == core.TaskWaiting
		failed = failed || t.State == core.TaskError
		if t.State.Settled() {
			done++
		}
	}
	switch {
	case done == len(layer) && failed:
		s.fail(r, now)
	case done == len(layer):
		r.CurrentLayer++
		s.tell(r, core.Event{Type: core.EventCheckpoint, Layer: new(r.CurrentLayer - 1)})
	default:
		s.state(r, waits)
	}
}

// state says whether a run waits.
func (s *script) state(r *run, waits bool) {
	r.State = core.RunRunning
	if waits {
		r.State = core.RunWaiting
	}
}

func (s *script) start(r *run, t *task, now time.Time) {
	t.State, t.StartedAt, t.ends = core.TaskRunning, &now, now.Add(t.takes)
	t.Attempt++
	s.tell(r, core.Event{Type: core.EventTaskStart, TaskID: t.ID, Tool: t.Tool, Layer: new(t.Layer)})
	s.tell(r, core.Event{Type: core.EventTaskLog, TaskID: t.ID, Tool: t.Tool, Layer: new(t.Layer), Message: "calling " + t.Tool})
}

func (s *script) end(r *run, t *task, now time.Time) {
	t.EndedAt, t.DurationMS = &now, float64(t.takes.Milliseconds())
	e := core.Event{Type: core.EventTaskComplete, TaskID: t.ID, Tool: t.Tool, Layer: new(t.Layer), DurationMS: t.DurationMS}
	if t.fails == "" {
		t.State, t.Output = core.TaskSuccess, object(map[string]any{"ok": true, "task": t.ID, "took_ms": t.DurationMS})
	} else {
		t.State, t.Error = core.TaskFailedSafe, core.Errorf(core.CodeToolFailed, "%s", t.fails)
		e.Type, e.Error = core.EventTaskWarning, t.Error
	}
	s.tell(r, e)
}

// ask stops a task at its gate.
func (s *script) ask(r *run, t *task, now time.Time) {
	a := *t.gate
	a.CallIDs = []string{t.ID}
	t.asked = s.open(r, a, now)
	t.State = core.TaskWaiting
}

// open asks a person.
func (s *script) open(r *run, a core.Approval, now time.Time) core.ID {
	s.asked++
	expires := now.Add(ttl - time.Duration(s.asked%5)*47*time.Second)
	a.ID, a.RunID, a.RunName, a.Workspace, a.Side = idOf(fmt.Sprint("approval", s.asked)), r.ID, r.Name, r.Workspace, r.Side
	a.Digest, a.RequestedBy, a.State, a.CreatedAt, a.ExpiresAt = hashOf(string(a.ID)), agent, core.ApprovalOpen, now, &expires
	if a.Type == core.ApproveLayer {
		a.ExpiresAt = nil
	}
	s.approvals[a.ID] = &a
	r.State = core.RunWaiting
	s.tell(r, core.Event{Type: core.EventApprovalRequested, Tool: a.Tool, ApprovalID: a.ID, Message: a.Description})
	return a.ID
}

// askLayer stops a run before its next layer.
func (s *script) askLayer(r *run, now time.Time) {
	if r.State == core.RunWaiting {
		return
	}
	var results, next []map[string]any
	for _, t := range r.layers[r.CurrentLayer-1] {
		results = append(results, map[string]any{"task_id": t.ID, "tool": t.Tool, "status": t.State, "execution_time_ms": t.DurationMS})
	}
	for _, t := range r.layers[r.CurrentLayer] {
		next = append(next, map[string]any{"id": t.ID, "tool": t.Tool, "arguments": t.Arguments})
	}
	s.open(r, core.Approval{
		Type: core.ApproveLayer, Subject: fmt.Sprintf("layer:%d", r.CurrentLayer), Risk: core.RiskHigh,
		Description: fmt.Sprintf("Start layer %d of %d? Calls in it: %d.", r.CurrentLayer+1, len(r.layers), len(next)),
		Context:     object(map[string]any{"layer_index": r.CurrentLayer, "total_layers": len(r.layers), "results": results, "next": next}),
	}, now)
}

func (s *script) finish(r *run, now time.Time) {
	r.State, r.EndedAt, r.Result = core.RunComplete, &now, json.RawMessage(`{"ok":true}`)
	s.tell(r, core.Event{Type: core.EventWorkflowComplete, DurationMS: float64(now.Sub(r.CreatedAt).Milliseconds())})
}

func (s *script) fail(r *run, now time.Time) {
	r.State, r.EndedAt = core.RunFailed, &now
	for _, t := range r.layers[r.CurrentLayer] {
		if t.State == core.TaskError {
			r.Error = t.Error
		}
	}
	s.tell(r, core.Event{Type: core.EventWorkflowFailed, Error: r.Error})
}
