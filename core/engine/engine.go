// Package engine runs programs: it asks a program which calls are ready, lets
// them pass the gates, runs them in parallel, journals every outcome and tells
// the program. A run can be stopped and killed at any point and taken up again
// by another process: the program starts over and what is journaled is
// answered from the journal.
//
// Each run is one actor (actor.go), a goroutine that owns all of the run's state.
// Calls, gate checks and evaluations run beside it and report to it through
// one channel. What happened in a turn is committed in one transaction; only
// after the commit does anything act on the world or get published.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Host is the workspace of a run: its gates and its tools.
type Host interface {
	// Try answers Check at once when nothing slow is needed (no process to
	// start, no file tree to hash); ok is false otherwise.
	Try(call Call) (v Verdict, ok bool)
	// Check passes a call through the gates. It fails closed: an error in a
	// gate is a Verdict with Deny.
	Check(ctx context.Context, call Call) Verdict
	// Apply carries out what was approved (installs, records a hash, re-reads
	// keys, remembers a permission). It is safe to repeat. A failure asks again
	// with the error; one to remember a permission takes nothing of it back.
	Apply(ctx context.Context, a core.Approval, progress func(string)) error
	// Call makes the call. The context ends with the task's timeout. A
	// NotMadeError takes the call to its gates again.
	Call(ctx context.Context, call Call, progress func(string)) (json.RawMessage, error)
}

// NotMadeError is the error of a call that was not made, because something has
// come up since it passed its gates: they are asked again.
type NotMadeError struct{ Reason *core.Error }

// Error implements error.
func (e *NotMadeError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *NotMadeError) Unwrap() error { return e.Reason }

// Call is a tool call on its way through the gates.
type Call struct {
	RunID   core.ID
	RunName string
	Kind    core.Kind // of the run
	// Depth counts the runs above the run: 0 for one that no other run has started.
	Depth int
	// Agent is the agent at the root of the run's tree; empty: there is none.
	Agent     core.ID
	Requester core.Actor
	Owner     string // of the run
	ID        string
	Tool      string
	Args      json.RawMessage
	Digest    string
	// Attempt counts how often the call was begun, this time included; 0 before.
	Attempt int
	// Planned is set when analysis expects the call and nothing has made it.
	Planned bool
	// Queued, when set, is called when the call has to wait until its server takes
	// it: what it waits is no part of its time limit, which begins with Before.
	Queued func()
	// Before, when set, is called right before the call is sent. With an error of
	// it the call is not made; that is the error then.
	Before func(ctx context.Context) error
	// ArgsKnown is false for a planned call whose arguments are not known.
	ArgsKnown bool
	// Make, when set, makes the call in the place of a server: it is one of pml's own server
	// of agents, and starts a run.
	Make func(ctx context.Context) (json.RawMessage, error)
	// Passage is what hook flows made of the call, Args and Digest then being those that
	// they left, or a person after them; nil: they have not run for it.
	Passage *core.Passage
	// Side is the half of pml that the call was judged for (Verdict.Side), when it is
	// made; empty: nobody has said. It is made there or, as not made, judged again.
	Side core.Side
	// Program are the arguments as the program passed them, where flows left others.
	Program json.RawMessage
}

// Of makes the call one of a run.
func (c Call) Of(run *core.Run) Call {
	c.RunID, c.RunName, c.Kind, c.Requester, c.Owner = run.ID, run.Name, run.Kind, run.RequestedBy, run.Owner
	c.Agent = run.AgentOfChildren()
	if run.ParentID != "" {
		c.Depth = 1
	}
	return c
}

// Verdict is the gates' answer to a call.
type Verdict struct {
	// Deny rejects the call.
	Deny *core.Error
	// Ask lists what a person must decide first.
	Ask []Ask
	// Relies are permissions of other runs because of which nobody is asked.
	Relies []store.Reliance
	// AllowedBy is because of what nobody is asked (core.Task.AllowedBy).
	AllowedBy string
	// Known is set when the tool itself is known; then ReadOnly and Repeatable
	// say what a person approved of it.
	Known      bool
	ReadOnly   bool
	Repeatable bool
	// Side is the half of pml that is to make the call.
	Side core.Side
	// Passage is what hook flows made of the call before it was judged; nil where none
	// matched it, or they ran before (Call.Passage).
	Passage *core.Passage
}

// Ask is a question that a gate has.
type Ask struct {
	Type        core.ApprovalType
	Subject     string
	Tool        string
	Risk        core.Risk
	Description string
	Context     any
	Digest      string
	// Once: no permission that is remembered answers it, and its own is not
	// remembered.
	Once bool
	// Within is how long whoever asks waits for the answer; the approval expires then,
	// or after approvals.ttl if that is sooner. 0: approvals.ttl.
	Within time.Duration
}

// Limits bounds what one run may use.
type Limits struct {
	Calls       int           // per run
	Concurrency int           // calls of one run at the same time
	PerServer   int           // of these, calls to one server; 0: no bound of its own
	Timeout     time.Duration // of a run, time spent waiting for a person left out
	CallTimeout time.Duration // of a call without a sign of life; 0: none
	CallTotal   time.Duration // of a call in all; 0: none
	CPU         time.Duration // processor time of one turn of a script; 0: the pool's
	ResultBytes int64         // of a script's result; 0: the pool's
	ApprovalTTL time.Duration // 0: never
	Human       bool          // people decide what is asked: core.Approval.Human
	Unchosen    bool          // nobody has chosen who decides: core.Approval.Unchosen
	ResumeTTL   time.Duration // of a waiting run; 0: never
	StopGrace   time.Duration // how long a stop waits for outcomes
	IdleChild   time.Duration // how long a waiting run keeps its child
	// ParkAfter is how long a waiting run stays in memory; 0: as long as it
	// waits. One that has left stays with this runner, and Resume brings it back.
	ParkAfter time.Duration
	// StoreRetry is how long whoever takes a run up waits for a store that fails;
	// 0: not at all. With it a run that is under way waits for as long as that
	// takes, or the engine lives: what happens meanwhile is kept in memory.
	StoreRetry time.Duration
}

// Options are what an engine is made of. All fields but Ask are needed.
type Options struct {
	Store  Store
	Runner string // this process's runner id at first; see SetRunner
	// Holds waits until it is certain that nobody has taken a runner of this process
	// for dead; core.CodeFenced when somebody has. nil: it always is.
	Holds func(ctx context.Context, runner string) error
	// Halted is what Store.Halted says, or has said at most core.HaltLease ago. It is
	// asked right before each call is sent. nil: Store.Halted.
	Halted  func(ctx context.Context) (*core.Halt, error)
	Sandbox *sandbox.Pool
	Hosts   func(workspace string) (Host, error)
	Clock   core.Clock
	NewID   func() core.ID
	// Limits are those of the runs of a workspace.
	Limits func(workspace string) (Limits, error)
	Logger *slog.Logger
	// Ask asks a model for a call of an agent, by the name that the configuration has for it. An error of
	// core.CodeRateLimited, CodeServerUnreachable or CodeToolTimeout is tried again. nil:
	// there is no model, and no agent runs.
	Ask func(ctx context.Context, run core.Run, call, name string, req model.Request) (model.Answer, error)
	// MayPrompt says whether a run may ask a model by this name, and where the request then
	// goes, which model.Request.To holds it to. nil: every run may.
	MayPrompt func(ctx context.Context, run core.Run, model string) (to string, v Verdict)
	// Agent makes the agent that a call of the built-in server of agents asks for, as a run
	// with this header; core.CodeInvalidArguments and others start nothing. nil: none can.
	Agent func(ctx context.Context, run core.Run, tool string, args json.RawMessage) (core.AgentSpec, error)
	// Suggest finds what fits the intent of a run that an agent wants to have done, among the
	// tools that the run may call; needed where Ask is set.
	Suggest func(ctx context.Context, run core.Run, intent string) (Suggestion, error)
	// Faults says what is wrong with a value by a JSON schema; needed where Agent or Ask is set.
	Faults func(schema, value json.RawMessage) []core.Fault
	// Publish is called with events of a run of this kind after they are committed,
	// in order, from the run's goroutine; it must not block. May be nil.
	Publish func(core.Kind, []core.Event)
	// CommitGrace is how long commits may still take once Close has begun; 0: as
	// long as they do.
	CommitGrace time.Duration
}

// Suggestion is what fits an intent: the tasks of a DAG, where the intent says all that they
// need, and otherwise the tools that fit best, as a model reads them.
type Suggestion struct {
	Tasks []core.TaskSpec
	Tools string
}

// Engine runs programs in this process.
type Engine struct {
	opts Options
	ctx  context.Context
	stop context.CancelCauseFunc
	// last is the context of commits: it ends some time after ctx.
	last    context.Context
	endLast context.CancelCauseFunc

	mu     sync.Mutex
	runner string
	other  chan struct{} // closed when the runner is another one
	runs   map[core.ID]*Handle
	// starting are runs that are about to be there: each is taken up once. The
	// channel is closed when it is, or is not.
	starting map[core.ID]chan struct{}
	wg       sync.WaitGroup
	woke     sync.Once
	// changes counts what others may have written, as far as told was listened to,
	// from 1 on; 0: nobody listens.
	changes atomic.Uint64
	told    <-chan struct{}
}

// errStopped is the cause with which a stopping engine ends its runs.
var errStopped = errors.New("the engine stops")

// New returns an engine. It starts nothing until the first run.
func New(opts Options) *Engine {
	ctx, stop := context.WithCancelCause(context.Background())
	last, endLast := context.WithCancelCause(context.Background())
	return &Engine{
		opts: opts, ctx: ctx, stop: stop, last: last, endLast: endLast, runner: opts.Runner, other: make(chan struct{}),
		runs: map[core.ID]*Handle{}, starting: map[core.ID]chan struct{}{},
	}
}

// Start creates a run and runs it. The run exists in the store when Start
// returns, and does not when that fails. In an engine that stops meanwhile the
// run is left to another process: its status is Stopped. A duplicate idempotency
// key is the store's core.CodeDuplicate.
func (e *Engine) Start(ctx context.Context, run core.Run, program core.Program) (*Handle, error) {
	return e.StartForeseen(ctx, run, program, nil)
}

// StartForeseen is Start with what Foresee found out, which may be nil.
func (e *Engine) StartForeseen(ctx context.Context, run core.Run, program core.Program, f *Foresight) (*Handle, error) {
	if err := e.stopping(run.ID); err != nil {
		return nil, err
	}
	// From the commit on it is in the store and not yet in e.runs.
	h, done, err := e.begin(ctx, run.ID)
	if err != nil || h != nil {
		return h, err
	}
	defer done()
	a, err := e.newRun(run, program)
	if err != nil {
		return nil, err
	}
	a.preflight.foresight = f
	step := a.batch.take()
	before := e.changes.Load()
	if err := e.opts.Store.Commit(ctx, step); err != nil {
		return nil, err
	}
	a.unseen = func() bool { return before > 0 && e.changes.Load() == before && len(e.told) == 0 }
	e.publish(run.Kind, step.Events)
	if h, err := e.launch(a); err == nil {
		return h, nil
	}
	// It exists: a caller that gets an error would start it once more. The next
	// process that looks for interrupted runs takes it up.
	a.handle.set(&Status{Run: *a.run, Stopped: true})
	return a.handle, nil
}

// newRun is the actor of a run that its next commit creates.
func (e *Engine) newRun(run core.Run, program core.Program) (*actor, error) {
	run.Runner, run.Epoch, run.State = e.Runner(), 1, core.RunRunning
	run.DAGVersion = program.Version
	a, err := e.newActor(run, program)
	if err != nil {
		return nil, err
	}
	stored := kept(program)
	a.batch.step.Create, a.batch.step.Program = true, &stored
	a.batch.emit(a.batch.event(core.EventWorkflowStart))
	return a, nil
}

func (e *Engine) publish(kind core.Kind, events []core.Event) {
	if e.opts.Publish != nil && len(events) > 0 {
		e.opts.Publish(kind, events)
	}
}

// Resume takes a run over and goes on with it. A run that this engine runs
// already is returned as it is; one whose runner lives is core.CodeFenced.
func (e *Engine) Resume(ctx context.Context, id core.ID) (*Handle, error) {
	return e.takeUp(ctx, id, func(run core.Run) (core.Program, error) { return e.opts.Store.Program(ctx, run.ID) })
}

// TakeUp is Resume of a run that was read before, with its program: that is read again only
// if something has happened to the run since.
func (e *Engine) TakeUp(ctx context.Context, run core.Run, program core.Program) (*Handle, error) {
	return e.takeUp(ctx, run.ID, func(now core.Run) (core.Program, error) {
		if now.DAGVersion == run.DAGVersion && now.JournalSeq == run.JournalSeq && program.Version == now.DAGVersion {
			return program, nil
		}
		return e.opts.Store.Program(ctx, run.ID)
	})
}

func (e *Engine) takeUp(ctx context.Context, id core.ID, programOf func(core.Run) (core.Program, error)) (_ *Handle, err error) {
	if err := e.stopping(id); err != nil {
		return nil, err
	}
	h, done, err := e.begin(ctx, id)
	if err != nil || h != nil {
		return h, err
	}
	defer done()
	run, err := e.opts.Store.Claim(ctx, id, e.Runner())
	if err != nil {
		return nil, err
	}
	if run.State.Final() { // claimed for a retry, or to be given more: neither is this
		return nil, approval.Ended(run)
	}
	defer e.recovered(run, &err)
	if err := e.orphaned(ctx, run); err != nil {
		return nil, err
	}
	program, err := programOf(run)
	if err != nil {
		return nil, err
	}
	a, err := e.newActor(run, program)
	if err != nil {
		return nil, err
	}
	if err := a.load(ctx); err != nil {
		return nil, err
	}
	if d, ok := a.driver.program.(*dagProgram); ok && a.journal.untouched() && a.program.Plan == nil {
		a.program.Plan = d.graph.Plan() // for what is asked before it starts
	}
	return e.launch(a)
}

// Handle returns the handle of a run that this engine runs, or nil.
func (e *Engine) Handle(id core.ID) *Handle {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

// Running counts the runs that this engine holds.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.runs)
}

// Runner is the id under which runs are taken up.
func (e *Engine) Runner() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runner
}

// SetRunner takes up a new standing as a runner after the old one was lost.
// Runs that nobody else has taken meanwhile go on under it.
func (e *Engine) SetRunner(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runner = id
	close(e.other)
	e.other = make(chan struct{})
	for _, h := range e.runs {
		h.wake()
	}
}

// awaitRunner waits until this process is another runner than it was, or holds that
// one still, or the context ends.
func (e *Engine) awaitRunner(ctx context.Context, was string) {
	for ctx.Err() == nil {
		e.mu.Lock()
		now, other := e.runner, e.other
		e.mu.Unlock()
		if now != was || e.opts.Holds(ctx, was) == nil {
			return
		}
		select {
		case <-other:
		case <-ctx.Done():
		}
	}
}

// begin makes the caller the only one who takes up a run, until done is called.
// A run that is there already is returned instead.
func (e *Engine) begin(ctx context.Context, id core.ID) (h *Handle, done func(), err error) {
	for {
		e.mu.Lock()
		if h := e.runs[id]; h != nil {
			e.mu.Unlock()
			return h, nil, nil
		}
		other, busy := e.starting[id]
		if !busy {
			mine := make(chan struct{})
			e.starting[id] = mine
			e.mu.Unlock()
			return nil, func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.starting, id)
				close(mine)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, core.Errorf(core.CodeCancelled, "stopped waiting for the run %s to be taken up: %w", id.Short(), context.Cause(ctx)).WithRun(id)
		}
	}
}

// stopping refuses to take up a run once the engine stops.
func (e *Engine) stopping(id core.ID) error {
	if e.ctx.Err() == nil {
		return nil
	}
	return core.Errorf(core.CodeCancelled, "pml is stopping; the run %s was not started", id.Short())
}

// Wake makes a run of this engine look at its approvals and requests now. A
// status whose Seen is not below what it returns is from after that look.
func (e *Engine) Wake(id core.ID) uint64 {
	if h := e.Handle(id); h != nil {
		return h.wake()
	}
	return 0
}

// Close stops all runs: they start no further call, get StopGrace for
// outcomes that are under way, and stay behind waiting or interrupted.
func (e *Engine) Close() error {
	e.stop(errStopped)
	if e.opts.CommitGrace > 0 {
		defer time.AfterFunc(e.opts.CommitGrace, func() { e.endLast(errStopped) }).Stop()
	}
	e.wg.Wait()
	return nil
}

func (e *Engine) launch(a *actor) (*Handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.stopping(a.run.ID); err != nil {
		return nil, err
	}
	e.woke.Do(e.watch)
	h := a.handle
	e.runs[a.run.ID] = h
	e.wg.Go(func() {
		last := a.main(e.ctx)
		// Who sees that it ended may take it up again at once.
		e.mu.Lock()
		if e.runs[a.run.ID] == h {
			delete(e.runs, a.run.ID)
		}
		e.mu.Unlock()
		h.set(last)
	})
	return h, nil
}

// watch wakes every run after each commit of another process or of a decider.
func (e *Engine) watch() {
	defer core.Recover(e.opts.Logger, "the store was watched", nil) // decisions made elsewhere are seen late
	changes, err := e.opts.Store.WatchOthers(e.ctx)
	if err != nil {
		e.opts.Logger.Warn("cannot watch the store; decisions made elsewhere are seen late", "error", err)
		return
	}
	e.told = changes
	e.changes.Add(1)
	e.wg.Go(func() {
		for range changes {
			e.changes.Add(1)
			e.mu.Lock()
			n := len(e.runs)
			for _, h := range e.runs {
				h.wake()
			}
			e.mu.Unlock()
			// Each of them reads now. Where others commit all the time, that must
			// not be all that happens.
			rest := time.NewTimer(min(time.Duration(n)*restPerRun, longestRest))
			select {
			case <-rest.C:
			case <-e.ctx.Done():
				rest.Stop()
			}
		}
	})
}

// How long wake-ups are held back after one, so that changes made meanwhile
// share the next.
const (
	restPerRun  = 500 * time.Microsecond
	longestRest = 100 * time.Millisecond
)
