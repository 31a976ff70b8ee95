package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/analyze"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Hung is longer than anything takes on the busiest machine with the slowest disk.
const Hung = 3 * time.Minute

const childArg = "engine-test-sandbox-child"

// Child is the process in which scripts run, when this one was started as that. TestMain of a
// package that has a World calls it first.
func Child() {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(sandbox.ChildMain(os.Stdin, os.Stdout, analyze.Code))
	}
}

// ChildCommand is the command line of the process in which scripts run: this program again, see [Child], or the pml
// that PML_TEST_SANDBOX names. Behind the race detector an interpreter of scripts is ten times slower;
// core/sandbox has the tests of what runs in that process.
func ChildCommand() []string {
	if pml := os.Getenv("PML_TEST_SANDBOX"); pml != "" {
		return []string{pml, "__sandbox"}
	}
	return []string{os.Args[0], childArg}
}

// NewID is an id as the program makes them.
func NewID() core.ID { return core.ID(uuid.NewString()) }

// World is what outlives the processes of a test: the surroundings with what is kept there,
// and a workspace of fake tools.
type World struct {
	T testing.TB
	// Open opens the surroundings as one more process.
	Open func() Surroundings
	// Wrap, when set, stands between an engine and its surroundings.
	Wrap func(Surroundings) Surroundings
	Host *Host
	// As stands for Host, when set.
	As     engine.Host
	Logger *slog.Logger
	Limits engine.Limits
	// Workspace is that of the runs that are started here.
	Workspace string
	// CommitGrace bounds the commits of an engine that stops, when set.
	CommitGrace time.Duration
	// Ahead is how far the engine's clock goes before the real one.
	Ahead *atomic.Int64
	Pool  *sandbox.Pool
	// Holds is the engine's Holds, when set.
	Holds func(ctx context.Context, runner string) error
	// Ask answers the requests of agents; nil: there is no model.
	Ask func(ctx context.Context, run core.Run, name string, req model.Request) (model.Answer, error)
}

// NewWorld is a world with nothing in it; open opens its surroundings for each process.
func NewWorld(t testing.TB, open func() Surroundings) *World {
	t.Helper()
	w := &World{
		T: t, Open: open, Host: NewHost(), Ahead: new(atomic.Int64), Workspace: "/w", Logger: slog.New(slog.DiscardHandler),
		Limits: engine.Limits{
			Calls: 20000, Concurrency: 64, Timeout: Hung, CallTimeout: Hung, ApprovalTTL: time.Hour,
			ResumeTTL: time.Hour, StopGrace: Hung, IdleChild: time.Hour,
		},
	}
	w.Pool = scripts()
	return w
}

// scripts is the pool of all worlds that have no other: starting a process for each test took
// three quarters of the processor time of the engine's tests.
var scripts = sync.OnceValue(func() *sandbox.Pool {
	return sandbox.NewPool(sandbox.Options{Command: ChildCommand(), Keep: 4, Warm: -1, Reuse: true, Limits: sandbox.Limits{CPU: Hung}})
})

// Close ends the processes that all worlds share. TestMain calls it behind the tests.
func Close() error { return scripts().Close() }

// Sandbox gives the world another pool.
func (w *World) Sandbox(o sandbox.Options) {
	w.T.Helper()
	pool := sandbox.NewPool(o)
	w.Pool = pool
	w.T.Cleanup(func() {
		if err := pool.Close(); err != nil {
			w.T.Error(err)
		}
	})
}

// Now is the time of the engine's clock.
func (w *World) Now() time.Time { return time.Now().Add(time.Duration(w.Ahead.Load())) }

// Process is one life of pml: an engine with its own hold on the surroundings.
type Process struct {
	*engine.Engine
	Store  Surroundings
	Runner store.Runner

	t    testing.TB
	once sync.Once
}

// Process starts pml once more.
func (w *World) Process() *Process {
	w.T.Helper()
	return w.ProcessOn(w.Open())
}

// ProcessOn is Process upon what was opened for it.
func (w *World) ProcessOn(open Surroundings) *Process {
	w.T.Helper()
	p := &Process{Store: open, t: w.T}
	var err error
	if p.Runner, err = p.Store.Register(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	st := p.Store
	if w.Wrap != nil {
		st = w.Wrap(st)
	}
	p.Engine = engine.New(w.options(st, p.Runner.ID()))
	w.T.Cleanup(p.Close)
	return p
}

// Close ends the process as one ends that is told to.
func (p *Process) Close() {
	p.once.Do(func() {
		for _, end := range []func() error{p.Engine.Close, p.Runner.Close, p.Store.Close} {
			if err := end(); err != nil {
				p.t.Error(err)
			}
		}
	})
}

// options are those of an engine whose agents get five iterations, and find what they intend
// among the tools of Host.
func (w *World) options(st engine.Store, runner string) engine.Options {
	var host engine.Host = w.Host
	if w.As != nil {
		host = w.As
	}
	return engine.Options{
		Store: st, Runner: runner, Holds: w.Holds, Sandbox: w.Pool, Hosts: func(string) (engine.Host, error) { return host, nil },
		Clock: clock{w}, NewID: NewID, Limits: func(string) (engine.Limits, error) { return w.Limits, nil }, Logger: w.Logger,
		CommitGrace: w.CommitGrace, Ask: w.asks(), MayPrompt: w.Host.MayPrompt, Agent: agentOf, Suggest: suggest, Faults: faults,
	}
}

// clock is the clock of a world.
type clock struct{ w *World }

func (c clock) Now() time.Time { return c.w.Now() }

func agentOf(_ context.Context, _ core.Run, tool string, args json.RawMessage) (core.AgentSpec, error) {
	spec, err := agent.Wanted(tool, args)
	spec.System, spec.MaxTokens, spec.Iterations = "You are an agent.", 1000, max(spec.Iterations, 5)
	return spec, err
}

func suggest(_ context.Context, run core.Run, intent string) (engine.Suggestion, error) {
	if lists := run.Options.AllowedLists(); !strings.HasPrefix(intent, "write") || len(lists) > 0 {
		return engine.Suggestion{Tools: fmt.Sprint("mcp.a.write(n), within ", lists)}, nil
	}
	return engine.Suggestion{Tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "a:ask", "t1")}}, nil
}

func faults(_, value json.RawMessage) []core.Fault {
	if value[0] == '{' {
		return nil
	}
	return []core.Fault{{Message: "it is no object"}}
}

// asks is Ask as the engine wants it, nil without one.
func (w *World) asks() func(context.Context, core.Run, string, string, model.Request) (model.Answer, error) {
	if w.Ask == nil {
		return nil
	}
	return func(ctx context.Context, run core.Run, _, name string, req model.Request) (model.Answer, error) {
		if _, v := w.Host.MayPrompt(ctx, run, name); len(v.Ask) > 0 {
			w.T.Errorf("%s is asked without its key", name)
		}
		return w.Ask(ctx, run, name, req)
	}
}

// Compile makes the program of a script.
func (w *World) Compile(source string) core.Program {
	w.T.Helper()
	c, err := w.Pool.Compile(w.T.Context(), source, "test.ts")
	if err != nil {
		w.T.Fatal(err)
	}
	return core.Program{Kind: core.KindCode, Version: 1, Source: source, Script: c.Script, Plan: c.Plan, Sandbox: sandbox.Version}
}

// NewRun is the header of a run of this world.
func (w *World) NewRun(program core.Program, opts core.RunOptions) core.Run {
	now := time.Now().UTC()
	return core.Run{
		ID: NewID(), Side: core.SideClient, Workspace: w.Workspace, Kind: program.Kind, CreatedAt: now, UpdatedAt: now,
		Options: opts, RequestedBy: core.Actor{Who: "test", Via: core.ViaCLI},
	}
}

// Start starts a program.
func (w *World) Start(p *Process, program core.Program, opts core.RunOptions) *engine.Handle {
	w.T.Helper()
	h, err := p.Start(w.T.Context(), w.NewRun(program, opts), program)
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// Code starts a script.
func (w *World) Code(p *Process, source string) *engine.Handle {
	w.T.Helper()
	return w.Start(p, w.Compile(source), core.RunOptions{})
}

// Resume takes a run up.
func (w *World) Resume(p *Process, id core.ID) *engine.Handle {
	w.T.Helper()
	h, err := p.Resume(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// Wait waits for a condition, at most for as long as a test may take.
func (w *World) Wait(h *engine.Handle, done func(engine.Status) bool) engine.Status {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), Hung)
	defer cancel()
	s, err := h.Wait(ctx, done)
	if err != nil {
		w.T.Fatalf("waiting for the run: %v; it is %s with %d pending", err, s.Run.State, len(s.Pending))
	}
	if s.Err != nil {
		w.T.Fatalf("the run stopped: %v", s.Err)
	}
	if s.Run.State.Final() && !done(s) {
		w.T.Fatalf("the run ended before what the test waits for: it is %s, %v", s.Run.State, s.Run.Error)
	}
	return s
}

// Complete waits for the end of a run and for its result.
func (w *World) Complete(h *engine.Handle, want string) {
	w.T.Helper()
	s := w.Wait(h, engine.Ended)
	if s.Run.State != core.RunComplete || string(s.Run.Result) != want {
		w.T.Errorf("%s %s %v, want complete %s", s.Run.State, s.Run.Result, s.Run.Error, want)
	}
}

// Pending is a Wait condition: the run waits for n decisions.
func Pending(n int) func(engine.Status) bool {
	return func(s engine.Status) bool {
		return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == n
	}
}

// Decide decides the only open approval of a type.
func (w *World) Decide(st Surroundings, run core.ID, typ core.ApprovalType, approve bool, answer *core.Answer) {
	w.T.Helper()
	list, err := st.Approvals(w.T.Context(), store.ApprovalFilter{RunID: run, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, ap := range list {
		if ap.Type == typ {
			_, err := st.Decide(w.T.Context(), core.Decision{
				ApprovalID: ap.ID, Approved: approve, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Answer: answer,
			}, store.Renewal{})
			if err != nil {
				w.T.Fatal(err)
			}
			return
		}
	}
	w.T.Fatalf("no open approval of type %s among %v", typ, list)
}

// Task is a task of a DAG, with its id as its argument.
func Task(id, tool string, deps ...string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id)), DependsOn: deps}
}
