package engine

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// actor owns one run. All of its fields belong to the goroutine in main; what
// runs beside it reports through inbox.
type actor struct {
	eng     *Engine
	o       *Options
	limits  Limits
	store   patient
	handle  *Handle
	run     core.Run
	program core.Program
	prog    program
	host    Host

	started bool // the program has begun
	calls   map[string]*call
	order   []*call         // as issued
	in      [callStates]int // calls by state
	journal journal
	queue   []*call // passed the gates, not yet started
	cleared int     // how many of the queue had passed when it was last committed

	approvals []*core.Approval
	applying  map[core.ID]bool
	taken     map[string]bool // which call took which approval, as far as this process knows

	// busy counts what reports to inbox: checks, calls, evaluations, timers of
	// sleeps and approvals being carried out.
	busy  int
	inbox chan func(ctx context.Context) error
	notes chan *core.Event // progress of what runs beside
	// backoffs counts the waits between two attempts of a call.
	backoffs int

	step     store.Step // what the next commit holds
	pending  []*call    // calls to start once the step is committed
	last     turn       // the program's newest turn
	pause    *LayerPause
	layers   layers
	replayed int

	abort       *core.AbortRequest
	fault       *core.Error // ends the run as failed
	preflighted bool
	refused     []refusal  // planned calls that cannot be made
	foresight   *Foresight // what the gates said before there was a run; used once
	behind      bool       // the store has a newer DAG than this run
	seen        uint64     // the newest wake-up before the last look at the store
	looked      bool       // all approvals were taken in at the last look
	// unseen reports whether nobody can have written anything about the run
	// since it was committed for the first time; nil of one that was taken up.
	unseen func() bool

	lost   bool        // the program's child is gone: it is to start over
	losses int         // how often in a row, without a record in between
	lostAt int64       // the journal's end at the last loss
	gaveUp *core.Error // why the run stops without an end

	// work is cancelled to stop all calls; its cause says why.
	work       context.Context
	cancelWork context.CancelCauseFunc

	activeSince time.Time // zero while waiting
	parkedSince time.Time
	asleep      bool // the child was put away while the run waits
	away        bool // the run waits and leaves memory
	fresh       bool // calls were started and nothing has come of them yet
	stopping    bool
	crashed     bool // something of the run has panicked: it ends
	stopSince   time.Time
	eventsSince time.Time // since when uncommitted events wait
}

// call is one call of the program.
type call struct {
	issued
	digest   string
	index    int
	attempt  int
	back     int // how often it was not made and went back to its gates
	state    callState
	verdict  Verdict
	checked  bool
	weighing bool  // its condition is being evaluated
	asks     []Ask // what it is parked on
	// parkedAt is when a parked record was journaled; zero: none is.
	parkedAt time.Time
	started  bool // a started record without outcome is journaled
	before   time.Time
	why      *core.Error // how an attempt ended that may have run; nil: with its process
	startAt  time.Time
	outcome  core.Outcome
	value    json.RawMessage
	err      *core.Error
	seq      int64
	settleAt time.Time
	dropped  chan struct{} // of a sleep: closed when the script takes it back
}

type callState int

const (
	callIssued    callState = iota // waits for its gates or its layer
	callParked                     // waits for a person
	callQueued                     // may run
	callRunning                    // runs
	callSleeping                   // a script's sleep that is not due
	callSettled                    // has its outcome
	callDelivered                  // the program knows
	callStates                     // how many states there are
)

// move changes a call's state.
func (a *actor) move(c *call, s callState) {
	a.in[c.state]--
	a.in[s]++
	c.state = s
}

func (e *Engine) newActor(run core.Run, p core.Program) (*actor, error) {
	host, err := e.opts.Hosts(run.Workspace)
	if err != nil {
		return nil, err
	}
	limits, err := e.opts.Limits(run.Workspace)
	if err != nil {
		return nil, err
	}
	a := &actor{
		eng: e, o: &e.opts, limits: limits, store: newPatient(e, limits, run.ID), handle: newHandle(run.ID), run: run, program: p, host: host,
		applying: map[core.ID]bool{}, taken: map[string]bool{}, inbox: make(chan func(context.Context) error, 64),
		notes: make(chan *core.Event, 64),
	}
	a.journal = newJournal(nil)
	a.reset()
	if err := a.makeProgram(); err != nil {
		return nil, err
	}
	a.handle.set(&Status{Run: run})
	return a, nil
}

func (a *actor) makeProgram() error {
	switch a.run.Kind {
	case core.KindCode:
		a.prog = newCodeProgram(a.o.Sandbox, a.run, a.program)
	case core.KindDAG:
		p, err := newDAGProgram(a.program)
		if err != nil {
			return err
		}
		a.prog = p
		a.run.TotalLayers = len(p.graph.Layers())
	case core.KindAgent:
		return core.Errorf(core.CodeInvalidArguments, "agent runs are not available yet")
	}
	return nil
}

// reset forgets what the program did, so that it can start over.
func (a *actor) reset() {
	a.started, a.asleep, a.last, a.pause = false, false, turn{}, nil
	a.calls, a.order, a.queue, a.in = map[string]*call{}, nil, nil, [callStates]int{}
	a.cleared = 0
	a.layers = newLayers(a.run)
	a.replayed = 0
}

// main runs the run until it ends, is fenced off or the engine stops, and
// returns its last status. What a run does is done in functions that main, loop
// and await call and that return: a thousand runs that wait keep the frames of
// these three, so they have nothing large in them.
func (a *actor) main(ctx context.Context) *Status {
	a.work, a.cancelWork = context.WithCancelCause(context.WithoutCancel(ctx))
	a.activeSince = a.now()
	a.store.endless = a.limits.StoreRetry > 0 // from here on it holds what nobody else knows
	err := a.survive(ctx)
	a.attempt("the program was closed", a.prog.close)
	a.cancelWork(errStopped)
	a.drain()
	if err != nil && core.CodeOf(err) != core.CodeFenced {
		// Who waits for the run is told; the log is for the others.
		a.o.Logger.Warn("a run stopped", "workflow_id", a.run.ID, "error", err)
	}
	return a.lastStatus(err)
}

// lastStatus is the status of a run whose actor has ended.
func (a *actor) lastStatus(err error) *Status {
	s := &Status{Run: a.run, Turned: true, Seen: a.seen}
	a.attempt("its state was told", func() { s = a.status() })
	s.Stopped, s.Err, s.Away = true, err, a.away && err == nil
	return s
}

// drain waits for what still runs beside the actor, without acting on it.
func (a *actor) drain() {
	for a.busy > 0 {
		<-a.inbox
		a.busy--
	}
}

func (a *actor) loop(ctx context.Context) error {
	// A run that is told to stop in the middle of a look or of an evaluation
	// knows only half of where it stands: it must not act on that.
	if a.looked = a.unseen != nil && a.unseen(); !a.looked {
		if err := a.look(ctx); err != nil {
			if ctx.Err() == nil {
				return err
			}
			a.beginStop()
		}
	}
	for {
		if err := a.catchUp(ctx); err != nil {
			return err
		}
		if err := a.advance(ctx); err != nil {
			if ctx.Err() == nil {
				return err
			}
			a.beginStop()
		}
		a.dequeue()
		ended, err := a.finish(ctx, a.settleState())
		if err != nil || ended {
			return err
		}
		a.handle.set(a.status())
		a.startPending()
		a.cleared = len(a.queue)
		if a.mustStartOver() {
			continue
		}
		if a.away = a.away && a.mayPark(); a.away {
			return a.goAway()
		}
		if a.stopping && a.busy == 0 {
			if err := a.leave(); err != nil || a.gaveUp == nil {
				return err
			}
			return a.gaveUp
		}
		if err := a.await(ctx); err != nil {
			return err
		}
		a.refill()
	}
}

// beside runs f in a goroutine; what it returns is executed by the actor.
func (a *actor) beside(f func(ctx context.Context) func(ctx context.Context) error) {
	a.busy++
	go func() { a.inbox <- a.guarded(f) }()
}

// await blocks until there is something to do, then takes all that waits.
func (a *actor) await(ctx context.Context) error {
	timer := time.NewTimer(a.nextTimer())
	defer timer.Stop()
	stop := ctx.Done()
	if a.stopping {
		stop = nil
	}
	select {
	case done := <-a.inbox:
		if err := a.take(ctx, done); err != nil {
			return err
		}
	case e := <-a.notes:
		a.hear(e)
	case <-a.handle.wakeCh:
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	case <-stop:
		a.beginStop()
		return nil
	case <-timer.C:
		if err := a.onTimer(ctx); err != nil {
			return err
		}
	}
	return a.takeWaiting(ctx)
}

// How often others are let run before a commit that they may share. Each time
// costs a fraction of a microsecond, the commit hundreds; calls that have just
// been started get longer, because the quickest of them end one after another.
const (
	together      = 20
	togetherFresh = 500
)

// sharedMost is how many records wait at most while queued calls take the places
// of those that have ended: what a crash loses, and how long the first waits, has
// an end.
const sharedMost = 256

// takeWaiting takes all that waits. Calls that end at the same moment are
// given a chance to share a commit, and so are those that take their places.
func (a *actor) takeWaiting(ctx context.Context) error {
	patience := together
	if a.fresh {
		patience = togetherFresh
	}
	a.fresh = false
	for idle := 0; idle < patience; {
		select {
		case done := <-a.inbox:
			if err := a.take(ctx, done); err != nil {
				return err
			}
			idle = 0
		default:
			if len(a.step.Records) < sharedMost && a.refill() {
				a.fresh, patience, idle = false, togetherFresh, 0
			}
			if a.busy == 0 {
				return nil
			}
			idle++
			runtime.Gosched()
		}
	}
	return nil
}

func (a *actor) take(ctx context.Context, done func(context.Context) error) error {
	a.busy--
	if done == nil {
		return nil
	}
	return done(ctx)
}

const (
	eventFlush = 20 * time.Millisecond // events alone wait this long for a commit
	never      = 24 * 365 * time.Hour
)

// nextTimer is how long await may block when nothing happens.
func (a *actor) nextTimer() time.Duration {
	d := never
	now := a.now()
	if len(a.step.Events) > 0 {
		d = min(d, eventFlush-now.Sub(a.eventsSince))
	}
	if a.mayPark() {
		d = min(d, a.limits.ParkAfter-now.Sub(a.parkedSince))
	}
	if a.mayDoze() {
		d = min(d, a.limits.IdleChild-now.Sub(a.parkedSince))
	}
	if a.run.State == core.RunWaiting {
		for _, ap := range a.approvals {
			if ap.State == core.ApprovalOpen && ap.ExpiresAt != nil {
				d = min(d, ap.ExpiresAt.Sub(now))
			}
		}
	}
	if !a.activeSince.IsZero() && a.timeout() > 0 && !a.ending() {
		d = min(d, a.timeout()-a.active(now))
	}
	if a.stopping && a.work.Err() == nil {
		d = min(d, a.stopDue().Sub(now))
	}
	return max(d, 0)
}

// onTimer does what is due: it never assumes which timer fired.
func (a *actor) onTimer(ctx context.Context) error {
	now := a.now()
	if a.stopping {
		if !now.Before(a.stopDue()) {
			a.cancelWork(errStopped)
		}
		return nil
	}
	if !a.activeSince.IsZero() && a.timeout() > 0 && a.active(now) >= a.timeout() && !a.ending() {
		a.fault = core.Errorf(core.CodeTimeout, "the run took longer than its limit of %s", a.timeout())
		a.cancelWork(a.fault)
	}
	if a.mayDoze() && now.Sub(a.parkedSince) >= a.limits.IdleChild {
		a.prog.close()
		a.asleep = true
	}
	a.away = a.mayPark() && now.Sub(a.parkedSince) >= a.limits.ParkAfter && len(a.handle.wakeCh) == 0
	for _, ap := range a.approvals {
		ap.State = ap.StateAt(now)
	}
	if len(a.step.Events) > 0 {
		return a.flush()
	}
	return nil
}

// mayDoze reports whether the run holds a child that it does not need while
// people decide.
func (a *actor) mayDoze() bool {
	return a.run.Kind == core.KindCode && a.started && !a.asleep && !a.stopping && !a.parkedSince.IsZero()
}

func (a *actor) timeout() time.Duration {
	if a.run.Options.TimeoutMS > 0 {
		return time.Duration(a.run.Options.TimeoutMS) * time.Millisecond
	}
	return a.limits.Timeout
}

// active is how long the run has run so far, waiting for people left out.
func (a *actor) active(now time.Time) time.Duration {
	d := time.Duration(a.run.ActiveMS * float64(time.Millisecond))
	if !a.activeSince.IsZero() {
		d += now.Sub(a.activeSince)
	}
	return d
}

func (a *actor) now() time.Time { return a.o.Clock.Now().UTC() }

// beginStop starts nothing more and gives what runs a moment to end.
func (a *actor) beginStop() {
	if a.stopping {
		return
	}
	a.stopping, a.stopSince = true, a.now()
}

// graceForRest is how long a stop waits when nothing is under way that could not
// be done again.
const graceForRest = time.Second

// stopDue is until when a run that stops lets go on what is under way: sleeps and
// waits between attempts have no outcome that could be lost, and what can be
// done again costs only its time.
func (a *actor) stopDue() time.Time {
	grace := a.limits.StopGrace
	switch {
	case a.run.State != core.RunRunning || a.busy == a.in[callSleeping]+a.backoffs:
		grace = 0
	case !a.holdsOutcomes():
		grace = min(grace, graceForRest)
	}
	return a.stopSince.Add(grace)
}

// holdsOutcomes reports whether a call is under way that cannot simply be made
// again, or an approval is being carried out.
func (a *actor) holdsOutcomes() bool {
	if len(a.applying) > 0 {
		return true
	}
	return a.in[callRunning] > 0 && slices.ContainsFunc(a.order, func(c *call) bool { return c.state == callRunning && !a.repeatable(c) })
}

// leave ends the actor of a run that has not ended.
func (a *actor) leave() error {
	if a.run.State != core.RunRunning && len(a.step.Events) == 0 && a.gaveUp == nil {
		return nil
	}
	if a.run.State == core.RunRunning || a.gaveUp != nil {
		// It waits for nobody: whoever runs next goes on with it, however late.
		a.run.State, a.run.ExpiresAt = core.RunInterrupted, nil
	}
	a.account()
	return a.flush()
}

// account moves the time spent running into the header.
func (a *actor) account() {
	if !a.activeSince.IsZero() {
		now := a.now()
		a.run.ActiveMS = float64(a.active(now).Microseconds()) / 1000
		a.activeSince = now
	}
}

func (a *actor) resumeUntil() *time.Time {
	if a.limits.ResumeTTL <= 0 {
		return nil
	}
	t := approval.Bounded(a.now().Add(a.limits.ResumeTTL))
	return &t
}
