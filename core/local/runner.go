package local

import (
	"context"
	"errors"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store"
)

// engineFor returns the engine, made on first use.
func (c *Client) engineFor(ctx context.Context) (*engine.Engine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != nil {
		return c.engine, nil
	}
	if c.life.Err() != nil {
		return nil, core.Errorf(core.CodeCancelled, "pml is stopping; nothing was started")
	}
	if c.runner == nil {
		var err error
		if c.runner, err = c.base.Store.Register(ctx); err != nil {
			return nil, err
		}
	}
	o := engine.Options{
		Store: c.base.Store, Claims: c.base.Store, Runner: c.runner.ID(), Sandbox: c.o.Sandbox,
		Hosts: func(dir string) (engine.Host, error) { return c.host(dir) },
		Clock: c.o.Clock, NewID: c.o.NewID, Limits: c.limits, Logger: c.o.Logger, Publish: c.o.Publish,
	}
	if c.o.Side == core.SideServer {
		o.CommitGrace = serverCommits
	}
	c.engine = engine.New(o)
	return c.engine, nil
}

// closeStore gives up the standing as a runner and closes the store. A server
// that has been stopping for long does not wait for a store that is away: the
// end of the process gives back whatever is left.
func (c *Client) closeStore(late context.Context, runner store.Runner) error {
	closing := func() (err error) {
		defer core.Recover(c.o.Logger, "the store was closed", func(e *core.Error) { err = e })
		if runner != nil {
			err = runner.Close()
		}
		return errors.Join(err, c.o.Store.Close())
	}
	if c.o.Side != core.SideServer {
		return closing()
	}
	return closedBefore(late, closing)
}

// closedBefore waits for f until a context ends, and a moment in any case.
func closedBefore(late context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-late.Done():
	}
	moment := time.NewTimer(shortestClose)
	defer moment.Stop()
	select {
	case err := <-done:
		return err
	case <-moment.C:
		return core.Errorf(core.CodeStoreFailed, "the store could not be closed in time; what it had not kept is lost with this process")
	}
}

// reregister makes this process a runner again after it has lost its standing.
func (c *Client) reregister(ctx context.Context) (store.Runner, error) {
	fresh, err := c.base.Store.Register(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	lost, eng := c.runner, c.engine
	c.runner = fresh
	c.mu.Unlock()
	if err := lost.Close(); err != nil {
		c.o.Logger.Debug("cannot close a runner that was lost", "error", core.AsError(err))
	}
	eng.SetRunner(fresh.ID())
	return fresh, nil
}

// RunnerID is under what name this process runs its runs, as in core.Run.Runner;
// empty while it runs none.
func (c *Client) RunnerID() string { return c.runnerID() }

// runnerID is this process's id as a runner, empty while it is none.
func (c *Client) runnerID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine == nil {
		return ""
	}
	return c.engine.Runner()
}

// What is not configured. A client's process goes with its run, and its caller
// waits for it to end; a server stops within ten seconds, keeps no run in memory
// that only waits, and outlives a database that is started anew.
const (
	clientGrace    = 2 * time.Second
	serverGrace    = 6 * time.Second // for outcomes of calls that cannot be made again
	serverCommits  = serverGrace + 500*time.Millisecond
	upstreamGrace  = time.Second // twice: to end by itself, and when it is told to
	serverClose    = 9 * time.Second
	shortestClose  = 500 * time.Millisecond
	idleChild      = 2 * time.Second
	serverPark     = 2 * time.Second
	serverPatience = 30 * time.Second // of who takes a run up; one under way waits for as long as it takes
	serverResume   = time.Hour        // unless approvals.resume_ttl says otherwise
)

// limits are the bounds of the runs of a workspace, as configured there.
func (c *Client) limits(dir string) (engine.Limits, error) {
	cfg, err := c.configOf(dir)
	if err != nil {
		return engine.Limits{}, err
	}
	l := engine.Limits{
		Calls: cfg.Limits.Calls, Concurrency: cfg.Limits.Concurrency,
		Timeout: cfg.Limits.Timeout, CallTimeout: cfg.Limits.CallTimeout,
		ApprovalTTL: cfg.Approvals.TTL, ResumeTTL: c.resumeTTL(cfg),
		StopGrace: clientGrace, IdleChild: idleChild,
	}
	if c.o.Side == core.SideServer {
		l.StopGrace, l.ParkAfter, l.StoreRetry = serverGrace, c.parkAfter, serverPatience
	}
	return l, nil
}

func (c *Client) resumeTTL(cfg *env.Config) time.Duration {
	if c.o.Side == core.SideServer && cfg.Origin("/approvals/resume_ttl") == env.FromDefault {
		return serverResume
	}
	return cfg.Approvals.ResumeTTL
}

// configOf is the configuration of a workspace, as far as it is trusted.
func (c *Client) configOf(dir string) (*env.Config, error) {
	h, err := c.host(dir)
	if err != nil {
		return nil, err
	}
	return h.Config()
}

// resumeUntil is how long a run of a workspace can be continued from now on.
func (c *Client) resumeUntil(dir string) (*time.Time, error) {
	cfg, err := c.configOf(dir)
	if err != nil {
		return nil, err
	}
	ttl := c.resumeTTL(cfg)
	if ttl <= 0 {
		return nil, nil
	}
	t := approval.Bounded(c.now().Add(ttl))
	return &t, nil
}
