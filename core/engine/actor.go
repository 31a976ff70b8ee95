package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/casys-ai/pml/core"
)

// actor owns one run. Its parts share the state of the run among them: each has the
// fields that it alone changes, and references to the parts that it needs. All of it
// belongs to the goroutine in main; what runs beside it (background) touches none of
// it.
//
// A turn of the loop is always the same: drive the program as far as it gets with
// what is known, commit what came of it and publish the events of that, show where
// the run stands (Handle), make the calls whose beginning is committed, and wait for
// what happens next.
type actor struct {
	eng     *Engine
	o       *Options
	limits  Limits
	store   patient
	handle  *Handle
	run     *core.Run // its header; each part names the fields of it that it writes
	program core.Program
	host    Host
	now     func() time.Time

	batch      batch      // what the next commit holds
	journal    journal    // what is known from before
	calls      callTable  // where each call stands
	questions  questions  // what people are asked
	layers     layers     // which layer may go on
	gates      gates      // what a call has to pass
	dispatch   dispatcher // the calls under way
	preflight  preflight  // what is asked before the program starts
	driver     driver     // the program, and its child
	budget     budget     // the time that the run has
	stop       stopper    // why it stops
	background background // what runs beside it

	behind bool   // the store has a newer DAG than this run
	seen   uint64 // the newest wake-up before the last look at the store
	// unseen reports whether nobody can have written anything about the run
	// since it was committed for the first time; nil of one that was taken up.
	unseen func() bool
	away   bool // the run waits and leaves memory
}

func (e *Engine) newActor(run core.Run, p core.Program) (*actor, error) {
	host, err := e.hostOf(run)
	if err != nil {
		return nil, err
	}
	limits, err := e.opts.Limits(run.Workspace)
	if err != nil {
		return nil, err
	}
	if most := run.Options.MaxCalls; most > 0 {
		limits.Calls = min(limits.Calls, most)
	}
	now := func() time.Time { return e.opts.Clock.Now().UTC() }
	a := &actor{
		now: now, batch: batch{run: &run, redact: viewOf(host), now: now, newID: e.opts.NewID},
		eng: e, o: &e.opts, limits: limits, store: newPatient(e, limits, run.ID), handle: newHandle(run.ID), run: &run, program: p, host: host,
	}
	a.calls = callTable{batch: &a.batch, journal: &a.journal, limits: &a.limits, now: now}
	a.stop = stopper{now: now}
	a.questions = questions{run: a.run, batch: &a.batch, journal: &a.journal, limits: &a.limits, taken: map[string]bool{}, refused: map[string]bool{}}
	a.layers = layers{
		run: a.run, program: &a.program, batch: &a.batch, journal: &a.journal, calls: &a.calls, questions: &a.questions, stop: &a.stop,
	}
	a.gates = gates{
		run: a.run, host: host, batch: &a.batch, calls: &a.calls, questions: &a.questions, mayPrompt: e.opts.MayPrompt, layers: &a.layers, stop: &a.stop, background: &a.background,
		applying: map[core.ID]bool{}, notApplied: map[core.ID]*core.Error{}, relied: map[core.ID]bool{}, lookedAgain: map[core.ID]bool{},
	}
	a.dispatch = dispatcher{
		eng: e, run: a.run, store: &a.store, make: host.Call, limits: &a.limits, batch: &a.batch, calls: &a.calls, gates: &a.gates, stop: &a.stop,
		background: &a.background, rehome: a.rehome,
	}
	a.preflight = preflight{
		run: a.run, program: &a.program, host: host, journal: &a.journal, questions: &a.questions, gates: &a.gates, stop: &a.stop,
		background: &a.background,
	}
	a.driver = driver{run: a.run, calls: &a.calls, stop: &a.stop, logger: e.opts.Logger}
	a.budget = budget{run: a.run, limits: &a.limits, now: now}
	a.background = newBackground(&a.batch, &a.stop, a.panicked)
	a.journal = newJournal(nil)
	a.reset()
	if err := a.makeProgram(); err != nil {
		return nil, err
	}
	a.handle.set(&Status{Run: run})
	return a, nil
}

// reset forgets what the program did, so that it can start over.
func (a *actor) reset() {
	a.driver.reset()
	a.calls.reset()
	a.layers.reset()
}

// main runs the run until it ends, is fenced off or the engine stops, and
// returns its last status. What a run does is done in functions that main, loop
// and await call and that return: a thousand runs that wait keep the frames of
// these three, so they have nothing large in them.
func (a *actor) main(ctx context.Context) *Status {
	a.stop.work, a.stop.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	a.budget.activeSince = a.now()
	a.store.endless = a.limits.StoreRetry > 0 // from here on it holds what nobody else knows
	err := a.survive(ctx)
	a.attempt("the program was closed", a.driver.program.close)
	a.stop.cancel(errStopped)
	a.background.drain()
	if err != nil && core.CodeOf(err) != core.CodeFenced {
		// Waiters get the error by the handle; the log is for the others.
		a.o.Logger.Warn("a run stopped", "workflow_id", a.run.ID, "error", err)
	}
	return a.lastStatus(err)
}

// lastStatus is the status of a run whose actor has ended.
func (a *actor) lastStatus(err error) *Status {
	s := &Status{Run: *a.run, Turned: true, Seen: a.seen}
	a.attempt("its state was told", func() { s = a.status() })
	s.Stopped, s.Err, s.Away = true, err, a.away && err == nil
	return s
}

func (a *actor) loop(ctx context.Context) error {
	// A run that is told to stop in the middle of a look or of an evaluation
	// knows only half of where it stands: it must not act on that.
	if a.unseen == nil || !a.unseen() {
		if err := a.look(ctx); err != nil {
			if ctx.Err() == nil {
				return err
			}
			a.stop.begin()
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
			a.stop.begin()
		}
		if !a.idle() {
			a.calls.dequeue()
		}
		a.calls.keepPassages()
		ended, err := a.finish(ctx, a.settleState())
		if err != nil || ended {
			return err
		}
		a.handle.set(a.status())
		a.dispatch.startPending()
		if a.mustStartOver() {
			continue
		}
		if a.away = a.away && a.mayPark(); a.away {
			return a.goAway()
		}
		if a.stop.stopping && a.background.busy == 0 {
			if err := a.leave(); err != nil || a.stop.gaveUp == nil {
				return err
			}
			return a.stop.gaveUp
		}
		if err := a.await(ctx); err != nil {
			return err
		}
		if !a.idle() {
			a.dispatch.refill()
		}
	}
}

// await blocks until there is something to do, then takes all that waits.
func (a *actor) await(ctx context.Context) error {
	timer := time.NewTimer(a.nextTimer())
	defer timer.Stop()
	stop := ctx.Done()
	if a.stop.stopping {
		stop = nil
	}
	select {
	case done := <-a.background.inbox:
		if err := a.take(ctx, done); err != nil {
			return err
		}
	case e := <-a.background.notes:
		a.hear(e)
	case w := <-a.background.children:
		a.calls.childWaits(w)
	case <-a.handle.wakeCh:
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	case <-stop:
		a.stop.begin()
		return nil
	case <-timer.C:
		if err := a.onTimer(); err != nil {
			return err
		}
	}
	return a.takeWaiting(ctx)
}

// hear takes up the progress of what runs beside the actor.
//
//go:noinline // the event would be in the frame of await, also while it waits
func (a *actor) hear(e *core.Event) { a.batch.emit(*e) }

// together is how often at most a run lets other goroutines run before a commit that they
// may share. Each time costs a fraction of a microsecond, a commit hundreds.
const together = 20

// takeWaiting takes all that has happened: calls that have ended at the same moment,
// or during the last commit, share the next one. It lets as many goroutines run as there
// are calls under way: those that have just ended deliver their outcome.
func (a *actor) takeWaiting(ctx context.Context) error {
	for yields := 0; ; {
		select {
		case done := <-a.background.inbox:
			if err := a.take(ctx, done); err != nil {
				return err
			}
		default:
			if yields >= min(a.background.busy, together) {
				return nil
			}
			yields++
			runtime.Gosched()
		}
	}
}

func (a *actor) take(ctx context.Context, done func(context.Context) error) error {
	a.background.busy--
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
	if len(a.batch.step.Events) > 0 {
		d = min(d, eventFlush-now.Sub(a.batch.since))
	}
	if a.mayPark() {
		d = min(d, a.limits.ParkAfter-now.Sub(a.budget.parkedSince))
	}
	if a.mayDoze() {
		d = min(d, a.limits.IdleChild-now.Sub(a.budget.parkedSince))
	}
	if a.run.State == core.RunWaiting {
		d = a.questions.nextExpiry(now, d)
	}
	if left, limited := a.budget.left(now); limited && !a.stop.ending() {
		d = min(d, left)
	}
	if a.stop.stopping && a.stop.work.Err() == nil {
		d = min(d, a.stopDue().Sub(now))
	}
	return max(d, 0)
}

// onTimer does what is due: it never assumes which timer fired.
func (a *actor) onTimer() error {
	now := a.now()
	if a.stop.stopping {
		if !now.Before(a.stopDue()) {
			a.stop.cancel(errStopped)
		}
		return nil
	}
	if left, limited := a.budget.left(now); limited && left <= 0 && !a.stop.ending() {
		a.stop.fail(core.Errorf(core.CodeTimeout, "the run took longer than its limit of %s", a.budget.timeout()))
	}
	if a.mayDoze() && now.Sub(a.budget.parkedSince) >= a.limits.IdleChild {
		a.driver.rest()
	}
	a.away = a.mayPark() && now.Sub(a.budget.parkedSince) >= a.limits.ParkAfter && len(a.handle.wakeCh) == 0
	a.questions.expire(now)
	if len(a.batch.step.Events) > 0 {
		return a.flush()
	}
	return nil
}

// mayPark reports whether the run can leave memory: it only waits for people,
// and nothing of it runs.
func (a *actor) mayPark() bool {
	return a.limits.ParkAfter > 0 && a.run.State == core.RunWaiting && !a.budget.parkedSince.IsZero() && a.background.busy == 0 &&
		!a.stop.stopping && !a.stop.ending() && !a.driver.lost && !a.behind
}

// mayDoze reports whether the run holds a child that it does not need while
// people decide.
func (a *actor) mayDoze() bool {
	return a.run.Kind == core.KindCode && a.driver.started && !a.driver.asleep && !a.stop.stopping && !a.budget.parkedSince.IsZero()
}

// goAway ends the actor of a waiting run; the run stays with its runner.
func (a *actor) goAway() error {
	if len(a.batch.step.Events) == 0 {
		return nil
	}
	return a.flush()
}

// rehome takes the run over to the runner that this process is now: its former
// standing was lost. Somebody else may have been faster: core.CodeFenced.
func (a *actor) rehome(ctx context.Context) error {
	runner := a.eng.Runner()
	if a.run.Runner == runner {
		return nil
	}
	var claimed core.Run
	err := a.store.try(ctx, func() (err error) {
		claimed, err = a.o.Store.Claim(ctx, a.run.ID, runner)
		return err
	})
	if core.CodeOf(err) == core.CodeNotWaiting { // and has ended it
		err = core.Errorf(core.CodeFenced, "another process has taken over the run %s", a.run.ID.Short()).WithRun(a.run.ID)
	}
	if err != nil {
		return err
	}
	a.run.Runner, a.run.Epoch = claimed.Runner, claimed.Epoch
	return nil
}
