package service

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/live"
	"github.com/casys-ai/pml/core/machine"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/store"
)

// process is what all views of a client have in common: the machine, the engine
// with its standing as a runner, and what they remember together.
type process struct {
	base Options // of the client that was opened

	indexes indexes // of tools, for suggestions

	open    openRuns  // on a server
	bounded sync.Once // the memory of scripts

	// granted are the providers of models that somebody has said yes to, as far as this
	// process has read it: a providerGrant each.
	granted sync.Map

	brake   brake // of all calls
	machine *machine.Machine
	hooks   *hook.Runner // nil: none run

	mu        sync.Mutex
	parkAfter time.Duration // how long a waiting run of a server stays in memory
	runner    store.Runner
	engine    *engine.Engine

	registering sync.Mutex // held by whoever becomes a runner anew

	// life ends when Close begins: who waits for a run is answered.
	life context.Context
	end  context.CancelFunc

	through *through // what is offered to clients under its own name

	texts  *live.Texts // that models of this process write
	shared sync.Once   // other processes may watch them

	traces sync.Mutex // held while a run that was given away is ended
	events newest     // the newest event that was seen
	used   spentCache // by agents that have ended
}

// engineFor returns the engine, made on first use.
func (c *process) engineFor(ctx context.Context) (*engine.Engine, error) {
	c.bounded.Do(func() { // a run fails with what is wrong in the configuration; this only logs it
		if cfg, err := c.configOf(c.base.Workspace.Dir); err == nil {
			c.base.Sandbox.SetMemory(cfg.Limits.MemoryBytes)
		}
	})
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
		Store: c.base.Store, Runner: c.runner.ID(), Holds: c.holds, Halted: c.brake.halted, Sandbox: c.base.Sandbox,
		Hosts: func(dir string) (engine.Host, error) { return c.host(dir) },
		Clock: c.base.Clock, NewID: c.base.NewID, Limits: c.limits, Logger: c.base.Logger, Publish: c.base.Publish,
	}
	o.Ask, o.MayPrompt, o.Agent, o.Suggest, o.Faults = c.ask, c.mayPrompt, c.agentBelow, c.intended, new(upstream.Validator).Faults
	if c.base.Side == core.SideServer {
		o.CommitGrace = serverCommits
	}
	c.engine = engine.New(o)
	return c.engine, nil
}

// closeStore gives up the standing as a runner and closes the store. A server
// that has been stopping for long does not wait for a store that is away: the
// end of the process gives back whatever is left.
func (c *process) closeStore(late context.Context, runner store.Runner) error {
	closing := func() (err error) {
		defer core.Recover(c.base.Logger, "the store was closed", func(e *core.Error) { err = e })
		if runner != nil {
			err = runner.Close()
		}
		return errors.Join(err, c.base.Store.Close())
	}
	if c.base.Side != core.SideServer {
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

// reregister makes this process a runner again after it has lost its standing as one. Of
// several who have seen that the first does: the others would close the new one.
func (c *process) reregister(ctx context.Context, lost store.Runner) (store.Runner, error) {
	c.registering.Lock()
	defer c.registering.Unlock()
	c.mu.Lock()
	now := c.runner
	c.mu.Unlock()
	if now != lost {
		return now, nil
	}
	fresh, err := c.base.Store.Register(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.runner = fresh
	eng := c.engine
	c.mu.Unlock()
	if err := lost.Close(); err != nil {
		c.base.Logger.Debug("cannot close a runner that was lost", "error", core.AsError(err))
	}
	if eng != nil {
		eng.SetRunner(fresh.ID())
	}
	return fresh, nil
}

// holds waits until it is certain that nobody has taken a runner of this process
// for dead. One that it was before is.
func (c *process) holds(ctx context.Context, runner string) error {
	c.mu.Lock()
	r := c.runner
	c.mu.Unlock()
	if r == nil || r.ID() != runner {
		return core.Errorf(core.CodeFenced, "this process is not the runner %s any more; the call was not made", runner)
	}
	return r.Holds(ctx)
}

// RunnerID is under what name this process runs its runs, as in core.Run.Runner;
// empty while it runs none.
func (c *Service) RunnerID() string { return c.runnerID() }

// runnerID is this process's id as a runner, empty while it is none.
func (c *process) runnerID() string {
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
	upstreamGrace  = time.Second // twice: to end by itself, and after a signal
	serverClose    = 9 * time.Second
	shortestClose  = 500 * time.Millisecond
	idleChild      = 2 * time.Second
	serverPark     = 2 * time.Second
	serverPatience = 30 * time.Second // of who takes a run up; one under way waits for as long as it takes
	serverResume   = time.Hour        // unless approvals.resume_ttl says otherwise
)

// limits are the bounds of the runs of a workspace, as configured there.
func (c *process) limits(dir string) (engine.Limits, error) {
	cfg, err := c.configOf(dir)
	if err != nil {
		return engine.Limits{}, err
	}
	l := engine.Limits{
		Calls: cfg.Limits.Calls, Concurrency: cfg.Limits.Concurrency, PerServer: cfg.Limits.PerServer,
		Timeout: cfg.Limits.Timeout, CallTimeout: cfg.Limits.CallTimeout, CallTotal: cfg.Limits.CallTotal,
		CPU: cfg.Limits.CPU, ResultBytes: cfg.Limits.ResultBytes,
		ApprovalTTL: cfg.Approvals.TTL, ResumeTTL: c.resumeTTL(cfg), Human: cfg.Approvals.Decider == env.DeciderHuman,
		Unchosen:  cfg.Origin("/approvals/decider") == env.FromDefault,
		StopGrace: clientGrace, IdleChild: idleChild,
	}
	if c.base.Side == core.SideServer {
		l.StopGrace, l.ParkAfter, l.StoreRetry = serverGrace, c.parkAfter, serverPatience
	}
	return l, nil
}

func (c *process) resumeTTL(cfg *env.Config) time.Duration {
	if c.base.Side == core.SideServer && cfg.Origin("/approvals/resume_ttl") == env.FromDefault {
		return serverResume
	}
	return cfg.Approvals.ResumeTTL
}

// configOf is the configuration of a workspace, as far as it is trusted.
func (c *process) configOf(dir string) (*env.Config, error) {
	return c.machine.Config(dir)
}

// resumeUntil is how long a run of a workspace can be continued from now on.
func (c *view) resumeUntil(dir string) (*time.Time, error) {
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

func (c *process) published(kind core.Kind, events []core.Event) {
	if c.base.Publish != nil {
		c.base.Publish(kind, events)
	}
}

// alive reports whether somebody runs a run: its runner, or the client that was
// given it.
func (c *process) alive(ctx context.Context, run core.Run) (bool, error) {
	if run.Remote || run.Runner != "" && run.Runner == c.runnerID() {
		return true, nil
	}
	return c.base.Store.Alive(ctx, run.Runner)
}

// within is a context that ends with errWaited once a caller has waited long
// enough, or pml stops; a negative limit is none.
func (c *process) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.life, func() { stop(errWaited) })
	timed, cancel := ctx, context.CancelFunc(func() {})
	if limit >= 0 {
		timed, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
	}
	return timed, func() {
		unhook()
		cancel()
		stop(context.Canceled)
	}
}

// ran reports whether this client has run anything.
func (c *process) ran() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine != nil
}

// host returns the host of a workspace: this client's own, or that of a run
// that is taken over.
func (c *process) host(dir string) (*gate.Host, error) { return c.machine.Host(dir) }

// expected are the tools that a program is expected to call, each once.
func expected(p core.Program) []string {
	var tools []string
	if p.Plan != nil {
		for _, call := range p.Plan.Calls {
			tools = append(tools, call.Tool)
		}
	} else { // as its plan will have it
		for _, task := range p.Tasks {
			tools = append(tools, task.Tool)
		}
	}
	slices.Sort(tools)
	return slices.Compact(tools)
}

// canRun says why a run cannot go on on this machine: its folder is not here, or
// a server that it calls is configured by files that are not trusted here. Otherwise
// prepare starts the servers that the run is expected to call; it does not wait for them.
func (c *process) canRun(run core.Run, p core.Program) (prepare func(), err error) {
	if fi, err := os.Stat(run.Workspace); err != nil || !fi.IsDir() {
		return nil, core.Errorf(core.CodeInvalidConfig, "the folder %s of the run is not on this machine", run.Workspace).WithRun(run.ID)
	}
	h, err := c.host(run.Workspace)
	if err != nil {
		return nil, err
	}
	tools := map[string]string{} // by server, one of each
	for _, tool := range expected(p) {
		if err := h.Trusts(tool); err != nil {
			return nil, core.AsError(err).WithRun(run.ID)
		}
		if server, _, ok := core.SplitTool(tool); ok {
			tools[server] = tool
		}
	}
	return func() {
		for _, tool := range tools {
			go func() {
				defer core.Recover(c.base.Logger, "a server was started for a run that is taken up", nil, "workflow_id", run.ID)
				h.PrepareServer(c.life, tool)
			}()
		}
	}, nil
}
