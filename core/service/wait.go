package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// takenWithin bounds how long a run of this process may take to see what was
// committed, whatever the caller's patience.
const takenWithin = 2 * time.Second

// taken waits until a run of this process has seen what was committed before it
// was woken: until then its status tells of what was asked before that.
func taken(ctx context.Context, h *engine.Handle, woken uint64) {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	_, _ = h.Wait(ctx, func(s engine.Status) bool { return s.Seen >= woken })
}

// follow goes on with a run and waits for it: here when its process is gone,
// by watching the store when it lives elsewhere. ok is the word for success.
func (c *waiting) follow(ctx context.Context, id core.ID, decided []core.ID, limit time.Duration, hold bool, ok api.Status) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.State.Final() {
		return c.stored(ctx, run, ok)
	}
	if run.Remote {
		return c.watch(ctx, id, decided, limit, hold, ok)
	}
	if run.Kind == core.KindAgent || run.Starts {
		return c.followAgent(ctx, id, limit, hold, ok)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	h, err := eng.Resume(ctx, id)
	switch core.CodeOf(err) {
	case "":
		woken := eng.Wake(id)
		taken(ctx, h, woken)
		r, err := c.wait(ctx, h, decided, woken, limit, hold, ok)
		return *r, err
	case core.CodeFenced:
		return c.watch(ctx, id, decided, limit, hold, ok)
	case core.CodeNotWaiting:
		// It ended between the two looks at it.
		if run, rerr := c.o.Store.Run(ctx, id); rerr == nil && run.State.Final() {
			return c.stored(ctx, run, ok)
		}
		return api.Result{}, err
	default:
		return api.Result{}, err
	}
}

// lookForRunner is how often a follower looks whether the run's process lives:
// one that is killed tells nobody. It costs one attempt at a file lock.
const lookForRunner = 100 * time.Millisecond

// watch waits for a run that another process runs. However short the wait, it
// says how the run stands.
func (c *waiting) watch(ctx context.Context, id core.ID, decided []core.ID, limit time.Duration, hold bool, ok api.Status) (api.Result, error) {
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, limit)
	defer cancel()
	changes, err := c.o.Store.Watch(bounded)
	if err != nil && bounded.Err() == nil {
		return api.Result{}, err
	}
	for {
		run, pending, err := c.standing(ctx, id)
		if err != nil {
			return api.Result{}, err
		}
		if run.State.Final() {
			return c.stored(ctx, run, ok)
		}
		if run.State == core.RunWaiting && len(pending) > 0 && !hold && !stillOpen(pending, decided) {
			// It may have gone on since.
			if r, err := c.stored(ctx, run, ok); err != nil || r.Status != api.StatusRunning {
				return r, err
			}
		}
		if run.State == core.RunWaiting && run.Halted != nil && len(pending) == 0 {
			if !hold {
				return c.stored(ctx, run, ok)
			}
		} else if run.State == core.RunWaiting && len(pending) == 0 {
			if over, err := c.expiredUnanswered(ctx, id); err != nil || over {
				return expiredResult(api.Result{WorkflowID: id, TotalLayers: run.TotalLayers}, id), err
			}
		}
		gone, err := c.news(bounded, run, pending, changes)
		switch {
		case err != nil:
			return c.waited(bounded, id)
		case gone:
			if limit >= 0 {
				limit = max(0, limit-c.o.Clock.Now().Sub(called))
			}
			return c.follow(ctx, id, decided, limit, hold, ok)
		}
	}
}

// expiredUnanswered reports whether a run waits for nothing but questions that
// have expired, with no decision that it has yet to take in.
func (c *waiting) expiredUnanswered(ctx context.Context, id core.ID) (bool, error) {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()})
	expired := false
	for _, ap := range list {
		switch ap.StateAt(c.now()) {
		case core.ApprovalExpired:
			expired = expired || ap.RenewedBy == ""
		case core.ApprovalOpen:
			return false, err
		case core.ApprovalApproved, core.ApprovalDenied:
			if !ap.Used {
				return false, err
			}
		case core.ApprovalSuperseded:
		}
	}
	return expired, err
}

// news waits until something was committed, a question has expired or a run's
// runner is gone. It fails only when the context ends.
func (c *waiting) news(ctx context.Context, run core.Run, pending []core.Approval, changes <-chan struct{}) (gone bool, err error) {
	tick := time.NewTicker(lookForRunner)
	defer tick.Stop()
	for {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if alive, err := c.alive(ctx, run); err == nil && !alive {
			return true, nil
		}
		now := c.now()
		if slices.ContainsFunc(pending, func(a core.Approval) bool { return a.StateAt(now) != core.ApprovalOpen }) {
			return false, nil
		}
		select {
		case _, ok := <-changes:
			if !ok {
				return false, errors.New("the store is not watched any more")
			}
			return false, nil
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (c *waiting) waited(ctx context.Context, id core.ID) (api.Result, error) {
	r := api.Result{Status: api.StatusRunning, WorkflowID: id}
	if errors.Is(context.Cause(ctx), errWaited) {
		return r, nil
	}
	return r, ctx.Err()
}

func (c *waiting) standing(ctx context.Context, id core.ID) (core.Run, []core.Approval, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return core.Run{}, nil, err
	}
	pending, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{
		RunID: id, States: []core.ApprovalState{core.ApprovalOpen}, Now: c.now(),
	})
	return run, pending, err
}

// stored is the result of a run as the store has it.
func (c *waiting) stored(ctx context.Context, run core.Run, ok api.Status) (api.Result, error) {
	w, err := c.history.Workflow(ctx, run.ID)
	if err != nil {
		return api.Result{}, err
	}
	now := c.now()
	s := engine.Status{Run: w.Run, Summary: engine.Summarize(w)}
	for _, ap := range w.Approvals {
		if ap.StateAt(now) == core.ApprovalOpen {
			s.Pending = append(s.Pending, ap)
			if ap.Type == core.ApproveLayer {
				s.Layer = &engine.LayerPause{Done: w.CurrentLayer - 1, Total: w.TotalLayers}
			}
		}
	}
	return c.result(ctx, s, ok)
}

// wait follows a run of this process until it ends or stops at people.
// decided are approvals that the status must have taken in before it counts, and
// woken is the wake-up that it must have come after. The result is never nil; it
// is not on the stack, as the calls that wait for people are many.
func (c *waiting) wait(ctx context.Context, h *engine.Handle, decided []core.ID, woken uint64, limit time.Duration, hold bool, ok api.Status) (*api.Result, error) {
	if s, _ := h.Status(); s.Run.Kind == core.KindAgent {
		r, err := c.followAgent(ctx, h.ID, limit, hold, ok)
		return &r, err
	}
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, limit)
	defer cancel()
	s, err := h.Await(bounded, func(s engine.Status) bool {
		if engine.Ended(s) || s.Idle {
			return true
		}
		if !engine.Paused(s) || s.Seen < woken || stillOpen(s.Pending, decided) {
			return false
		}
		return !hold || len(s.Pending) == 0 && s.Run.Halted == nil
	})
	if err != nil {
		if errors.Is(context.Cause(bounded), errWaited) {
			err = nil
		}
		return &api.Result{WorkflowID: h.ID, Status: api.StatusRunning}, err
	}
	if limit >= 0 {
		limit = max(0, limit-c.o.Clock.Now().Sub(called))
	}
	if s.Idle { // an agent that it has started waits
		r, err := c.followAgent(ctx, h.ID, limit, hold, ok)
		return &r, err
	}
	return c.standsAt(ctx, s, decided, limit, hold, ok)
}

// standsAt is what wait tells of the status that it has waited for.
func (c *waiting) standsAt(ctx context.Context, s *engine.Status, decided []core.ID, limit time.Duration, hold bool, ok api.Status) (*api.Result, error) {
	id := s.Run.ID
	if core.CodeOf(s.Err) == core.CodeFenced { // somebody else runs it now
		r, err := c.follow(ctx, id, decided, limit, hold, ok)
		return &r, err
	}
	if s.Err != nil {
		return &api.Result{}, core.AsError(s.Err).WithRun(id)
	}
	if s.Away {
		if r, went, err := c.whileAway(ctx, *s, decided, limit, hold, ok); went {
			return &r, err
		}
	}
	if s.Stopped && c.o.Side == core.SideServer && !s.Run.State.Final() && s.Run.State != core.RunWaiting {
		return &api.Result{Status: api.StatusRunning, WorkflowID: id}, nil // whoever runs it next goes on
	}
	r, err := c.result(ctx, *s, ok)
	return &r, err
}

// whileAway goes on waiting for a run that has left memory because it waits:
// somebody has decided meanwhile, or the caller stays until somebody does.
func (c *waiting) whileAway(ctx context.Context, s engine.Status, decided []core.ID, limit time.Duration, hold bool, ok api.Status) (r api.Result, went bool, err error) {
	run, pending, err := c.standing(ctx, s.Run.ID)
	switch {
	case err != nil:
		return api.Result{}, true, err
	case run.State.Final() || run.State == core.RunInterrupted || run.Abort != nil || len(pending) < len(s.Pending) || stillOpen(s.Pending, decided):
		r, err = c.follow(ctx, run.ID, decided, limit, hold, ok)
		return r, true, err
	case hold && (len(pending) > 0 || run.Halted != nil):
		r, err = c.watch(ctx, run.ID, decided, limit, hold, ok)
		return r, true, err
	}
	return api.Result{}, false, nil
}

var errWaited = errors.New("the wait is over")

func stillOpen(pending []core.Approval, decided []core.ID) bool {
	return slices.ContainsFunc(pending, func(a core.Approval) bool { return slices.Contains(decided, a.ID) })
}

// result tells what a run came to. ok is the word for success: a first
// execution and a continued one have different ones.
func (c *waiting) result(ctx context.Context, s engine.Status, ok api.Status) (api.Result, error) {
	run := s.Run
	r := api.Result{
		WorkflowID: run.ID, ExecutedLocally: c.o.Side == core.SideClient, ExecutionTimeMS: run.ActiveMS,
		TotalLayers: run.TotalLayers, Dropped: slices.Clone(run.Dropped),
	}
	if run.State.Final() {
		r.Totals = &api.Totals{ReplayedCalls: s.Replayed, SuccessfulTasks: s.Summary.OK, FailedTasks: s.Summary.Failed}
		r.DAG = &api.DAGSummary{Tasks: s.Summary.Tasks, Layers: run.TotalLayers, Tools: slices.Clone(s.Summary.Tools)}
		if r.DAG.Tools == nil {
			r.DAG.Tools = []string{} // a list for programs, not null
		}
	}
	if run.Kind == core.KindAgent {
		r.Kind = run.Kind
	}
	switch run.State {
	case core.RunComplete:
		r.Status, r.Result = ok, run.Result
		return r, nil
	case core.RunAborted:
		r.Status = api.StatusAborted
		if run.Kind == core.KindAgent {
			r.Result = run.Result // how far it had come
		}
		if run.Error != nil {
			r.Error, r.ErrorCode, r.Reason = run.Error.Message, run.Error.Code, run.Error.Message
		}
		if run.Abort != nil && run.Abort.Reason != "" {
			r.Reason = run.Abort.Reason
		}
		return r, nil
	case core.RunFailed, core.RunExpired:
		return failedResult(r, run), nil
	case core.RunWaiting:
		if s.Layer != nil || len(s.Pending) > 0 {
			return c.paused(ctx, r, s)
		}
		if run.Halted != nil {
			return haltedResult(r, run.ID, *run.Halted), nil
		}
		return expiredResult(r, run.ID), nil
	case core.RunRunning, core.RunInterrupted:
	}
	r.Status = api.StatusRunning
	if run.State == core.RunInterrupted {
		return api.Result{}, core.Errorf(core.CodeCancelled, "the run %s was interrupted; nothing is lost", run.ID.Short()).
			WithRun(run.ID).WithNext("pml", "continue", run.ID.Short())
	}
	return r, nil
}

func failedResult(r api.Result, run core.Run) api.Result {
	r.Status = api.StatusError
	if run.Kind == core.KindAgent {
		r.Result = run.Result // how far it had come
	}
	e := run.Error
	if e == nil {
		e = core.Errorf(core.CodeWorkflowExpired, "the run %s has expired", run.ID.Short())
	}
	r.Error, r.ErrorCode, r.Location, r.Failures = e.Message, e.Code, e.Location, e.Failures
	r.Faults, r.Next, r.Decided, r.Stack, r.Retryable = e.Faults, e.Next, e.Decided, e.Stack, e.Retryable
	return r
}

func expiredResult(r api.Result, id core.ID) api.Result {
	r.Status, r.ErrorCode = api.StatusError, core.CodeApprovalExpired
	r.Error = "what the run asked for has expired without a decision (approvals.ttl): decide it all the same (pml first checks that the question is the same), or continue the run to be asked anew; do not execute it again"
	r.Next = []string{"pml", "continue", id.Short()}
	return r
}

// paused is the result of a run that waits for a person: at the end of a
// layer, or at a gate.
func (c *waiting) paused(ctx context.Context, r api.Result, s engine.Status) (api.Result, error) {
	r.Pending = slices.Clone(s.Pending)
	r.Options = []string{"continue", "abort", "replan"}
	if s.Run.Kind != core.KindDAG {
		r.Options = []string{"continue", "abort"}
	}
	slices.SortFunc(r.Pending, core.BySoonest)
	var first *core.Approval
	for i := range r.Pending {
		r.Pending[i], _ = c.asOfNow(r.Pending[i])
	}
	for i := range r.Pending {
		if r.Pending[i].Type != core.ApproveLayer {
			first = &r.Pending[i]
			break
		}
	}
	if first == nil && len(r.Pending) > 0 {
		first = &r.Pending[0]
	}
	if first == nil {
		return expiredResult(r, s.Run.ID), nil
	}
	r.CheckpointID, r.ExpiresAt, r.Digest = first.ID, first.ExpiresAt, first.Digest
	r.ApprovalType, r.Description, r.Context = first.Type, first.Description, first.Context
	r.Status = api.StatusApprovalRequired
	if first.Type != core.ApproveLayer || s.Layer == nil || s.Layer.Done < 0 {
		return r, nil
	}
	r.Status, r.Pause = api.StatusLayerComplete, approval.IsPause(s.Run.Options, *first)
	r.LayerIndex = &s.Layer.Done
	r.NextLayer = &api.LayerPreview{Index: s.Layer.Done + 1, Tasks: []api.PreviewTask{}}
	for _, t := range s.Layer.Next {
		r.NextLayer.Index = t.Layer
		r.NextLayer.Tasks = append(r.NextLayer.Tasks, api.PreviewTask{ID: t.ID, Tool: t.Tool})
	}
	records, err := c.o.Store.Journal(ctx, s.Run.ID, 0)
	if err != nil {
		return api.Result{}, err
	}
	r.LayerResults = layerResults(records, s.Layer.Done)
	return r, nil
}

func layerResults(records []core.Record, layer int) []api.LayerResult {
	out := []api.LayerResult{}
	for _, rec := range records {
		if rec.Kind != core.RecordSettled || rec.Layer != layer {
			continue
		}
		lr := api.LayerResult{TaskID: rec.CallID, Tool: rec.Tool, Status: rec.Outcome.State(), Output: rec.Result, DurationMS: rec.DurationMS()}
		if rec.Error != nil {
			lr.Error = rec.Error.Message
		}
		out = append(out, lr)
	}
	return out
}

// Hold goes on with an Execute that has returned at an approval, as if that had
// held approvals: what it returns is what Execute would have. A thousand calls
// may wait in it, so it takes and keeps little: what is on the way to the start
// of a run is not under it.
func (c *waiting) Hold(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	h, err := c.heldHere(ctx, id)
	if err != nil {
		return &api.Result{}, err
	}
	if h == nil {
		return c.holdLate(ctx, id, limit)
	}
	return c.wait(ctx, h, nil, 0, limit, true, api.StatusSuccess)
}

// heldHere is the handle of a run of this process, nil where it has none now.
func (c *waiting) heldHere(ctx context.Context, id core.ID) (*engine.Handle, error) {
	if _, err := c.o.Store.Run(ctx, id); err != nil { // also: whether it may be seen
		return nil, err
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return nil, err
	}
	return eng.Handle(id), nil
}

// holdLate is Hold of a run that has gone on or away meanwhile.
func (c *waiting) holdLate(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	r, err := c.follow(ctx, id, nil, limit, true, api.StatusSuccess)
	return &r, err
}
