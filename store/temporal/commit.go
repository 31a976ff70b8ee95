package temporal

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Commit implements engine.Steps. A new run is the start of its workflow, every other step an
// update; both are kept when Temporal answers.
func (s *Store) Commit(ctx context.Context, in store.Step) error {
	if err := s.mayCommit(ctx, &in); err != nil {
		return err
	}
	next, err := s.prepare(&in)
	if err != nil {
		return err
	}
	next.Halt, next.At = s.halt.last(), s.opts.Clock.Now()
	if in.Create {
		err = s.create(ctx, next)
		s.feed.touch(in.Run.ID)
	} else {
		err = s.update(ctx, s.workflowOf(in.Run.ID), updateCommit, in.Run.ID, next, nil)
	}
	if err != nil {
		return err
	}
	s.recent.meet(in.Run, next.asks()...)
	s.watchers.tell(true)
	return nil
}

// mayCommit refuses what no store takes, and asks about what lies outside of the run's own
// workflow. A permission that counts goes on counting, so that asking before is as
// good as asking within. A halt that comes between is met right before the call is sent.
func (s *Store) mayCommit(ctx context.Context, in *store.Step) error {
	if err := store.CheckStep(*in); err != nil {
		return err
	}
	if in.Past != nil {
		if err := s.mustBeNew(ctx, in); err != nil {
			return err
		}
	}
	if g := in.Given; g != nil {
		guard, err := s.Guard(ctx)
		if err != nil {
			return err
		}
		if err := approval.Permits(guard, core.Approval{RunID: in.Run.ID, Human: g.Human}, g.Decision); err != nil {
			return err
		}
	}
	if err := store.MayStart(in, func() (*core.Halt, error) { return s.halt.get(ctx, s.Halted) }); err != nil {
		return err
	}
	return store.Rely(in, func(id core.ID) (*core.Approval, error) { return s.approval(ctx, id) })
}

// create starts the workflow of a run. One in the tree of an agent is said to the agent's
// workflow before: if pml dies between the two, that knows of a run that is not there, which
// readers leave out.
func (s *Store) create(ctx context.Context, first *step) error {
	run := first.Run
	if run.IdempotencyKey != "" {
		if err := s.takeKey(ctx, run); err != nil {
			return err
		}
	}
	if run.UnderAgent != "" {
		if err := s.update(ctx, s.workflowOf(run.UnderAgent), updateBelow, run.UnderAgent, run.ID, nil); err != nil && core.CodeOf(err) != core.CodeNotFound {
			return err
		}
	}
	return s.begin(ctx, first)
}

// begin starts the workflow of a run that has its key.
func (s *Store) begin(ctx context.Context, first *step) error {
	run := first.Run
	st := newState(first, first.At)
	with, err := s.beginning(ctx, first, st)
	if err != nil {
		return err
	}
	options := s.once(run.ID)
	options.TypedSearchAttributes = temporal.NewSearchAttributes(st.unseen(temporal.SearchAttributes{})...)
	_, err = s.serving.ExecuteWorkflow(ctx, options, runType, with)
	if _, begun := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); begun && run.IdempotencyKey != "" {
		return s.lostKey(ctx, run)
	}
	return failure(stopped(ctx, err), run.ID)
}

// Claim implements engine.Steps. Whether the run's runner lives is asked before: a runner that
// is dead never lives again, so that it is enough for the run's workflow to compare whose the
// run is.
func (s *Store) Claim(ctx context.Context, id core.ID, runner string) (core.Run, error) {
	if s.isStray(id) {
		_ = s.forgetPlace(ctx, s.workflowOf(id)) // it is read all the same, only later
	}
	run, err := s.Run(ctx, id)
	if err != nil {
		return core.Run{}, err
	}
	if run.Runner != "" && run.Runner != runner && !run.State.Final() {
		alive, err := s.Alive(ctx, run.Runner)
		if err != nil {
			return core.Run{}, err
		}
		if alive {
			return run, core.Errorf(core.CodeFenced, "the run %s is being run by another process (runner %s)", id.Short(), run.Runner).
				WithRun(id).WithNext("pml", "workflows", "watch", string(id))
		}
	}
	var claimed core.Run
	if err := s.update(ctx, s.workflowOf(id), updateClaim, id, claim{From: run.Runner, Epoch: run.Epoch, To: runner, At: s.opts.Clock.Now()}, &claimed); err != nil {
		return run, err
	}
	claimed.Result, claimed.Options.Input = run.Result, run.Options.Input
	s.watchers.tell(true)
	return claimed, nil
}

// prepare is a step as a workflow takes it; what is large lies in the blobs then. If pml dies
// before the step is kept, they belong to nobody.
func (s *Store) prepare(in *store.Step) (*step, error) {
	out := &step{Run: in.Run, Supersede: in.Supersede, Used: in.Used, Undecided: in.Undecided, Checkpoint: in.Checkpoint, Events: in.Events, Audit: in.Audit}
	out.Run.Result, out.Run.Options.Input = nil, nil
	var err error
	keep := func(to *value, v any) {
		if err == nil {
			*to, err = awayJSON(s.blobsOf(in.Run.ID), v)
		}
	}
	if len(in.Run.Result) > 0 {
		keep(&out.Result, in.Run.Result)
	}
	if in.Create && len(in.Run.Options.Input) > 0 {
		keep(&out.Input, in.Run.Options.Input)
	}
	if in.Program != nil {
		out.Program = &program{Version: in.Program.Version}
		keep(&out.Program.Program, in.Program)
	}
	for i := range in.Records {
		r := &in.Records[i]
		out.Records = append(out.Records, record{Seq: r.Seq, Kind: r.Kind, CallID: r.CallID})
		keep(&out.Records[i].Record, r)
	}
	for _, a := range in.Open {
		q := &question{Approval: a}
		q.Approval.Context = nil
		if len(a.Context) > 0 {
			keep(&q.Context, a.Context)
		}
		out.Open = append(out.Open, q)
	}
	if err == nil && in.Past != nil {
		out.past, err = s.preparePast(in.Run, in.Past)
	}
	return out, err
}

// asks are the approvals that come with a step.
func (s *step) asks() []*question {
	if s.past == nil {
		return s.Open
	}
	return slices.Concat(s.Open, s.past.Approvals)
}
