package temporal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// workerEnv makes this program a worker: its value is the workerConfig.
const workerEnv = "PML_TEST_TEMPORAL_WORKER"

// workerConfig is what a worker is told as it starts.
type workerConfig struct {
	Address, Name, Blobs string
	Log                  string // the effects of all calls
}

// order is what a worker is asked on its standard input, a line each.
type order struct {
	N        int            `json:"n"`
	Do       string         `json:"do"` // start, look or decide
	Run      core.ID        `json:"run"`
	Key      string         `json:"key,omitempty"`
	Program  core.Program   `json:"program,omitzero"`
	Source   string         `json:"source,omitempty"`
	Decision *core.Decision `json:"decision,omitempty"`
}

// reply is the answer, a line each.
type reply struct {
	N         int             `json:"n"`
	Err       *core.Error     `json:"err,omitempty"`
	Run       core.Run        `json:"run,omitzero"`
	Approvals []core.Approval `json:"approvals,omitempty"`
}

// workerMain is the worker, if this process was started as one: an engine on the store with a
// supervisor, as serve has it.
func workerMain() {
	raw := os.Getenv(workerEnv)
	if raw == "" {
		return
	}
	var c workerConfig
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		panic(err)
	}
	effects, err := os.OpenFile(c.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	w := &workerProcess{
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), busy: map[core.ID]bool{}, places: make(chan struct{}, 8),
	}
	ctx := context.Background()
	w.try("open the store", func() error {
		w.store, err = temporal.Open(ctx, temporal.Options{
			Address: c.Address, Namespace: "default", Name: c.Name, Blobs: temporal.Folder(c.Blobs), Clock: wall{}, NewID: enginetest.NewID, Logger: w.log, Keys: suiteKeys(),
		})
		return err
	})
	w.try("register", func() error { w.runner, err = w.store.Register(ctx); return err })
	w.start(effects)
	go w.supervise(ctx)
	w.serve(ctx)
	os.Exit(0)
}

// start is the engine with its upstream.
func (w *workerProcess) start(effects *os.File) {
	host := &recorder{Host: enginetest.NewHost(), log: effects}
	host.Tools["a:hang"] = enginetest.Tool{ReadOnly: true}
	w.pool = sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand(), Limits: sandbox.Limits{CPU: time.Minute}})
	w.Engine = engine.New(engine.Options{
		Store: w.store, Runner: w.runner.ID(), Holds: w.holds, Sandbox: w.pool, Hosts: func(string) (engine.Host, error) { return host, nil },
		Clock: wall{}, NewID: enginetest.NewID, Logger: w.log,
		Limits: func(string) (engine.Limits, error) {
			return engine.Limits{
				Calls: 1000, Concurrency: 16, Timeout: time.Hour, CallTimeout: time.Hour, ApprovalTTL: time.Hour, ResumeTTL: time.Hour,
				StopGrace: time.Minute, IdleChild: time.Minute, StoreRetry: time.Minute,
			}, nil
		},
	})
}

// workerProcess is what a worker is made of.
type workerProcess struct {
	*engine.Engine
	log    *slog.Logger
	store  *temporal.Store
	pool   *sandbox.Pool
	places chan struct{}

	mu     sync.Mutex
	runner store.Runner
	busy   map[core.ID]bool // runs that are being taken up
}

// try does what a start needs until it works: the server may be away.
func (w *workerProcess) try(what string, f func() error) {
	for {
		err := f()
		if err == nil {
			return
		}
		w.log.Warn("cannot "+what, "error", err)
		pause(200 * time.Millisecond) // as a real process that starts without its server
	}
}

// holds is engine.Options.Holds.
func (w *workerProcess) holds(ctx context.Context, id string) error {
	w.mu.Lock()
	r := w.runner
	w.mu.Unlock()
	if r.ID() != id {
		return core.Errorf(core.CodeFenced, "this process is not the runner %s any more", id)
	}
	return r.Holds(ctx)
}

// supervise takes up runs that nobody runs, as core/service does.
func (w *workerProcess) supervise(ctx context.Context) {
	changes, err := w.store.WatchOthers(ctx)
	if err != nil {
		panic(err)
	}
	for runner := w.runner; ; {
		w.takeUp(ctx)
		backstop := time.NewTimer(5 * time.Second)
		select {
		case <-changes:
		case <-runner.Gone():
		case <-backstop.C:
		case <-runner.Lost():
			w.try("register anew", func() error {
				fresh, err := w.store.Register(ctx)
				if err == nil {
					runner = fresh
				}
				return err
			})
			w.mu.Lock()
			w.runner = runner
			w.mu.Unlock()
			w.SetRunner(runner.ID())
		}
		backstop.Stop()
	}
}

func (w *workerProcess) takeUp(ctx context.Context) {
	ids, err := w.store.Orphans(ctx, w.Runner(), 0)
	if err != nil {
		w.log.Warn("cannot look for orphans", "error", err)
	}
	for _, id := range ids {
		w.mu.Lock()
		skip := w.busy[id] || w.Handle(id) != nil
		if !skip {
			w.busy[id] = true
		}
		w.mu.Unlock()
		if skip {
			continue
		}
		go func() {
			w.places <- struct{}{}
			_, err := w.Resume(ctx, id)
			<-w.places
			w.mu.Lock()
			delete(w.busy, id)
			w.mu.Unlock()
			if code := core.CodeOf(err); err != nil && code != core.CodeFenced && code != core.CodeNotWaiting {
				w.log.Warn("cannot take up a run", "run", id, "error", err)
			}
		}()
	}
}

// serve answers orders until its standard input ends.
func (w *workerProcess) serve(ctx context.Context) {
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	answer := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(r)
	}
	answer(reply{}) // it is up
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			panic(err)
		}
		go func() {
			r, err := w.obey(ctx, o)
			if r.N = o.N; err != nil {
				r.Err = core.AsError(err)
			}
			answer(r)
		}()
	}
}

func (w *workerProcess) obey(ctx context.Context, o order) (r reply, err error) {
	switch o.Do {
	case "start":
		if o.Source != "" {
			c, err := w.pool.Compile(ctx, o.Source, "test.ts")
			if err != nil {
				return r, err
			}
			o.Program = core.Program{Kind: core.KindCode, Version: 1, Source: o.Source, Script: c.Script, Plan: c.Plan, Sandbox: sandbox.Version}
		}
		now := time.Now().UTC()
		_, err = w.Start(ctx, core.Run{
			ID: o.Run, IdempotencyKey: o.Key, Side: core.SideClient, Workspace: "/w", Kind: o.Program.Kind, CreatedAt: now, UpdatedAt: now, RequestedBy: core.Actor{Who: "test", Via: core.ViaCLI},
		}, o.Program)
	case "look":
		r.Approvals, err = w.store.Approvals(ctx, store.ApprovalFilter{RunID: o.Run, Into: &r.Run, Now: time.Now()})
	case "decide":
		_, err = w.store.Decide(ctx, *o.Decision, store.Renewal{})
	default:
		err = core.Errorf(core.CodeInternal, "no order %q", o.Do)
	}
	return r, err
}

// recorder is an upstream whose every call has one effect: a line in a file, which is there
// for good when the call returns.
type recorder struct {
	*enginetest.Host
	log *os.File
}

// effect is one line.
type effect struct {
	Run  core.ID   `json:"run"`
	Call string    `json:"call"` // its tool and its arguments
	At   time.Time `json:"at"`
	PID  int       `json:"pid"`
}

// Call implements engine.Host. It takes some time before the effect and after it, as upstreams
// do, so that kills meet both.
func (r *recorder) Call(ctx context.Context, call engine.Call, _ func(string)) (json.RawMessage, error) {
	if !idle(ctx) {
		return nil, context.Cause(ctx)
	}
	if err := call.Before(ctx); err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	line, err := json.Marshal(effect{Run: call.RunID, Call: call.Tool + string(call.Args), At: time.Now(), PID: os.Getpid()})
	if err == nil {
		_, err = r.log.Write(append(line, '\n'))
	}
	if err == nil {
		err = r.log.Sync()
	}
	if err != nil {
		panic(fmt.Sprint("the world cannot be written: ", err))
	}
	if call.Tool == "a:hang" && r.calls(call.RunID) == 1 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	idle(ctx)
	return call.Args, nil
}

// calls counts what a run has done.
func (r *recorder) calls(run core.ID) int {
	raw, err := os.ReadFile(r.log.Name())
	if err != nil {
		panic(err)
	}
	return strings.Count(string(raw), string(run))
}

// idle waits for up to 20 ms.
func idle(ctx context.Context) bool {
	t := time.NewTimer(time.Duration(rand.IntN(20)) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
