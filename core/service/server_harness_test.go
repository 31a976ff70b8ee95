package service_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// mortal is the store of a process that can be killed: from then on it changes
// nothing, and its runner is dead.
type mortal struct {
	store.Store
	dead   atomic.Bool
	claims atomic.Int32
	noRun  atomic.Int32 // so many looks at a run fail yet

	mu      sync.Mutex
	runners []*losable
}

func (m *mortal) Run(ctx context.Context, id core.ID) (core.Run, error) {
	if m.noRun.Add(-1) >= 0 {
		return core.Run{}, core.Errorf(core.CodeStoreBusy, "not now")
	}
	return m.Store.Run(ctx, id)
}

// losable is a runner whose standing can be lost.
type losable struct {
	store.Runner
	lost chan struct{}
}

func (r *losable) Lost() <-chan struct{} { return r.lost }

func (m *mortal) Register(ctx context.Context) (store.Runner, error) {
	r, err := m.Store.Register(ctx)
	if err != nil {
		return nil, err
	}
	l := &losable{Runner: r, lost: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runners = append(m.runners, l)
	return l, nil
}

func (m *mortal) Commit(ctx context.Context, step store.Step) error {
	if m.dead.Load() {
		return core.Errorf(core.CodeFenced, "this process was killed")
	}
	return m.Store.Commit(ctx, step)
}

func (m *mortal) Claim(ctx context.Context, id core.ID, runner string) (core.Run, error) {
	m.claims.Add(1)
	if m.dead.Load() {
		return core.Run{}, core.Errorf(core.CodeFenced, "this process was killed")
	}
	return m.Store.Claim(ctx, id, runner)
}

// process is a server of pml.
type process struct {
	*client
	m         *mortal
	supervise func()
	stop      func() // of Supervise

	eventsMu sync.Mutex
	events   []core.Event
}

func (p *process) publish(_ core.Kind, events []core.Event) {
	p.eventsMu.Lock()
	defer p.eventsMu.Unlock()
	p.events = append(p.events, events...)
}

// published is what this process has told of its runs.
func (p *process) published() []core.Event {
	p.eventsMu.Lock()
	defer p.eventsMu.Unlock()
	return slices.Clone(p.events)
}

// server starts a process that runs programs for others. Two of them share a
// store as two servers share a database.
func (m *machine) server() *process {
	m.t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: m.home, Clock: m.clock, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	p := &process{m: &mortal{Store: s}}
	environ := func(name string) (string, bool) { v, ok := m.environ[name]; return v, ok }
	p.client = newClient(m.t, service.Open(service.Options{
		Home: env.Home{Dir: m.home}, Workspace: env.Workspace{Dir: m.ws, Source: "cwd"}, Environ: environ, Store: p.m, Side: core.SideServer,
		Sandbox: sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand(), Warm: -1, Reuse: true, Limits: sandbox.Limits{CPU: hung}}), Clock: m.clock, NewID: newID,
		LookPath: func(name string) (string, error) { return "", errors.New("no " + name) },
		Logger:   slog.New(slog.DiscardHandler), Version: "test", By: me, Publish: p.publish,
	}), p.m)
	var once sync.Once
	p.close = func() {
		once.Do(func() {
			if p.stop != nil {
				p.stop()
			}
			if err := p.Close(); err != nil {
				m.t.Error(err)
			}
		})
	}
	m.t.Cleanup(p.close)
	p.supervise = func() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := p.Supervise(ctx); err != nil {
				m.t.Error(err)
			}
		}()
		p.stop = sync.OnceFunc(func() { cancel(); <-done })
	}
	return p
}

// kill ends the process as kill -9 does, as far as others can see.
func (p *process) kill() {
	p.m.dead.Store(true)
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for _, r := range p.m.runners {
		if err := r.Close(); err != nil {
			p.t.Error(err)
		}
	}
}

// in is the process as somebody sees it.
func (p *process) in(scope api.Scope) *client {
	p.t.Helper()
	v, err := p.In(scope)
	if err != nil {
		p.t.Fatal(err)
	}
	return newClient(p.t, v, p.store)
}

// until waits until a run is in a state.
func (c *client) until(id core.ID, want func(core.Run) bool) core.Run {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), hung)
	defer cancel()
	changes, err := c.store.Watch(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		run, err := c.store.Run(ctx, id)
		if err != nil {
			c.t.Fatal(err)
		}
		if want(run) {
			return run
		}
		select {
		case <-changes:
		case <-ctx.Done():
			c.t.Fatalf("the run is %s", run.State)
		}
	}
}

func is(state core.RunState) func(core.Run) bool {
	return func(r core.Run) bool { return r.State == state }
}

// sleeper runs for as many milliseconds, and has written before.
func sleeper(ms string) string {
	return `await mcp.workspace.read_file({path: "a.txt"}); await new Promise((r) => setTimeout(r, ` + ms + `)); return "slept";`
}

// start executes without waiting.
func (c *client) start(code string) core.ID {
	c.t.Helper()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: code, By: me})
	if err != nil || r.WorkflowID == "" {
		c.t.Fatalf("%v %+v", err, r)
	}
	return r.WorkflowID
}
