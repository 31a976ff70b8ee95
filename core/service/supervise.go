package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

const (
	superviseEvery = 5 * time.Second        // without any news
	superviseRest  = 10 * time.Millisecond  // between two looks at least
	superviseBusy  = 100 * time.Millisecond // and at most, however long one takes
	superviseShare = 50                     // of the time at most one part is for looking
	upAtOnce       = 8                      // runs that are taken up at the same time
	orphansAtOnce  = 200                    // how many are looked for beyond those that are known here
	firstPause     = time.Second            // before a run that went nowhere is taken up again
	longestPause   = 5 * time.Minute
)

// Supervise takes up every run that has something to do and no living runner,
// at once and whenever another one dies, until the context ends. It also
// records what has expired and, once a day, removes old runs. Runs that wait
// for a person and about which nobody has decided stay where they are.
func (c *Service) Supervise(ctx context.Context) error {
	eng, err := c.engineFor(ctx)
	if err != nil {
		return err
	}
	changes, err := c.base.Store.WatchOthers(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	runner := c.runner
	c.mu.Unlock()
	s := &supervisor{c: c, eng: eng, tries: map[core.ID]*pause{}, places: make(chan struct{}, upAtOnce)}
	defer s.wg.Wait()
	backstop := time.NewTicker(superviseEvery)
	defer backstop.Stop()
	s.housekeep(ctx)
	for {
		began := c.now()
		s.takeUp(ctx)
		// Whoever has died was not there at the last look: its runs do not wait.
		if !rest(ctx, min(max(superviseRest, superviseShare*c.now().Sub(began)), superviseBusy), runner.Gone()) {
			return nil
		}
		select {
		case _, ok := <-changes:
			if !ok {
				return nil
			}
		case <-backstop.C:
			s.housekeep(ctx)
		case <-runner.Lost():
			fresh, err := c.reregister(ctx, runner)
			if err != nil {
				c.o.Logger.Warn("cannot become a runner again; trying again", "error", core.AsError(err))
				rest(ctx, firstPause, nil)
				continue
			}
			c.o.Logger.Warn("this process had lost its standing as a runner and goes on under a new one")
			runner = fresh
		case <-ctx.Done():
			return nil
		}
	}
}

// rest waits a while, or until there is news; false when the context ends.
func rest(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-news:
		return true
	case <-ctx.Done():
		return false
	}
}

// supervisor is the state of Supervise.
type supervisor struct {
	c      *Service
	eng    *engine.Engine
	places chan struct{}
	wg     sync.WaitGroup

	mu    sync.Mutex
	tries map[core.ID]*pause
}

// pause keeps a run that goes nowhere from being taken up over and over.
type pause struct {
	busy  bool      // it is being taken up
	next  time.Time // not before
	delay time.Duration
	seq   int64 // where its journal ended when it was last taken up
}

// takeUp takes up the runs that nobody runs, oldest first.
func (s *supervisor) takeUp(ctx context.Context) {
	ids, err := s.c.base.Store.Orphans(ctx, s.eng.Runner(), s.eng.Running()+s.known()+orphansAtOnce)
	if err != nil {
		if ctx.Err() == nil {
			s.c.o.Logger.Warn("cannot look for runs that nobody runs; trying again", "error", core.AsError(err))
		}
		return
	}
	for _, id := range ids {
		if s.eng.Handle(id) != nil || !s.due(id) {
			continue
		}
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			s.settle(id, func(p *pause) { p.busy = false })
			return
		}
		s.wg.Go(func() {
			defer func() { <-s.places }()
			defer core.Recover(s.c.o.Logger, "a run was taken up", nil, "workflow_id", id)
			s.resume(ctx, id)
		})
	}
	s.forget(ids)
}

// known counts the runs that may be in their pause: they must not keep newer
// ones out of sight.
func (s *supervisor) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries)
}

// due reports whether a run may be taken up now, and marks that it is.
func (s *supervisor) due(id core.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.tries[id]
	if p == nil {
		p = &pause{seq: -1}
		s.tries[id] = p
	}
	if p.busy || s.c.now().Before(p.next) {
		return false
	}
	p.busy = true
	return true
}

func (s *supervisor) settle(id core.ID, f func(*pause)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.tries[id]; p != nil {
		f(p)
	}
}

// resume takes up one run. That somebody else was faster is fine.
func (s *supervisor) resume(ctx context.Context, id core.ID) {
	h, err := s.lift(ctx, id)
	seq := int64(-1)
	if err == nil {
		status, _ := h.Status()
		seq = status.Run.JournalSeq
	}
	var wait time.Duration
	s.settle(id, func(p *pause) {
		p.busy = false
		if seq > p.seq {
			p.delay = 0
		}
		p.seq = max(p.seq, seq)
		if p.delay = 2 * p.delay; p.delay == 0 {
			p.delay = firstPause
		}
		p.delay = min(p.delay, longestPause)
		p.next = s.c.now().Add(p.delay)
		wait = p.delay
	})
	switch code := core.CodeOf(err); {
	case err == nil:
		s.c.o.Logger.Info("took up a run", "workflow_id", id)
	case code == core.CodeFenced || code == core.CodeNotWaiting || ctx.Err() != nil:
	default:
		s.c.o.Logger.Warn("cannot take up a run; trying again", "workflow_id", id, "after", wait.String(), "error", core.AsError(err))
	}
}

// lift takes up a run if this machine can go on with it. Where servers share a
// database, another one may have the folder, and trust it: there the run goes on,
// here it would only fail.
func (s *supervisor) lift(ctx context.Context, id core.ID) (_ *engine.Handle, err error) {
	defer s.survive(id, &err)
	run, err := s.c.base.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	program, err := s.c.base.Store.Program(ctx, id)
	if err != nil {
		return nil, err
	}
	prepare := func() {}
	if run.Abort == nil {
		if prepare, err = s.c.canRun(run, program); err != nil {
			return nil, err
		}
	}
	h, err := s.eng.TakeUp(ctx, run, program)
	if err == nil { // while the run finds out where it stands
		prepare()
	}
	return h, err
}

// survive makes an error of a panic: the process has other runs. It is deferred.
func (s *supervisor) survive(id core.ID, err *error) {
	if v := recover(); v != nil { // its text may hold anything, and the log does not know the keys of the run's workspace yet
		*err = core.Panicked(s.c.o.Logger, "the run was taken up", fmt.Sprintf("%T", v), "workflow_id", id).WithRun(id)
	}
}

// forget drops what is known of runs that have got on: they are no orphans.
func (s *supervisor) forget(orphans []core.ID) {
	is := make(map[core.ID]bool, len(orphans))
	for _, id := range orphans {
		is[id] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.tries {
		// One that runs here may yet come back as it was.
		if !is[id] && !p.busy && s.eng.Handle(id) == nil {
			delete(s.tries, id)
		}
	}
}

// housekeep records what has expired and removes old runs.
func (s *supervisor) housekeep(ctx context.Context) {
	if _, err := s.c.base.Store.Expire(ctx, s.c.now()); err != nil && ctx.Err() == nil {
		s.c.o.Logger.Warn("cannot record what has expired; trying again", "error", core.AsError(err))
	}
	s.c.tidy()
}
