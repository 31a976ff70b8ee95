package engine_test

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
	"go.uber.org/goleak"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/analyze"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

const childArg = "engine-test-sandbox-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(sandbox.ChildMain(os.Stdin, os.Stdout, analyze.Code))
	}
	if len(os.Args) == 3 && os.Args[1] == mortalArg {
		os.Exit(mortalMain(os.Args[2]))
	}
	os.Exit(verify(m))
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	skiptest.Overlap()
	code := m.Run()
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// hung is longer than anything takes on the busiest machine with the slowest disk.
const hung = 3 * time.Minute

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// aheadClock is what the clock of a bench is to its engines.
type aheadClock struct{ b *bench }

func (c aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.b.ahead.Load())) }

func newID() core.ID { return core.ID(uuid.NewString()) }

// tool is what a fake tool does.
type tool struct {
	readOnly bool
	// ask makes its calls need a permission.
	ask bool
	// deny rejects its calls.
	deny *core.Error
	run  func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
}

// host is a workspace of fake tools that counts what is called. It outlives
// engines, as the world does.
type host struct {
	once func(engine.Call) bool // nil: no question is asked each time
	asks string                 // added to the digest of a permission that is asked for
	risk core.Risk              // of it
	// riskOf is the risk of a call, in the place of risk.
	riskOf func(engine.Call) core.Risk
	mu     sync.Mutex
	tools  map[string]tool
	log    []string
	// slow makes Try decline, so that every check goes the long way.
	slow bool
	// needs are servers that need an installation; Apply fulfils it.
	needs    map[string]bool
	applyErr error
	applied  []string // permissions to remember, and how
	onCall   func(call engine.Call)
	// flow, when set, is what hook flows make of a call before it is judged.
	flow func(call engine.Call) (core.Passage, *core.Error)
	// unanswered are the calls of which flows were told that they have no answer.
	unanswered []string
	onApply    func()
}

func (h *host) Try(call engine.Call) (engine.Verdict, bool) {
	if h.slow || h.meets(call) {
		return engine.Verdict{}, false
	}
	return h.verdict(call), true
}

func (h *host) meets(call engine.Call) bool {
	return h.flow != nil && call.Passage == nil && !call.Planned
}

func (h *host) Check(_ context.Context, call engine.Call) engine.Verdict {
	if !h.meets(call) {
		return h.verdict(call)
	}
	p, deny := h.flow(call)
	if deny != nil {
		return engine.Verdict{Deny: deny}
	}
	if len(p.Flows) == 0 { // none matches
		return h.verdict(call)
	}
	call.Passage = &p
	if len(p.Args) > 0 {
		call.Args = p.Args
		call.Digest, _ = core.Digest(p.Args)
	}
	v := h.verdict(call)
	v.Passage = &p
	return v
}

func (h *host) Unanswered(call engine.Call, err *core.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unanswered = append(h.unanswered, call.Tool+string(call.Args)+" "+call.Passage.Flows[0].Flow+" "+string(err.Code))
}

func (h *host) verdict(call engine.Call) engine.Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	server, _, _ := core.SplitTool(call.Tool)
	var v engine.Verdict
	if h.needs[server] {
		v.Ask = append(v.Ask, engine.Ask{
			Type: core.ApproveDependency, Subject: server, Tool: server, Digest: "pkg:" + server, Description: "install " + server,
		})
	}
	t, ok := h.tools[call.Tool]
	if !ok {
		return engine.Verdict{Deny: core.Errorf(core.CodeNoSuchTool, "there is no tool %s", call.Tool)}
	}
	v.Side = core.SideClient
	v.Known, v.ReadOnly, v.Repeatable = true, t.readOnly, t.readOnly
	v.Deny = t.deny
	byFlow := call.Passage != nil && len(call.Passage.Asks) > 0
	risk := h.risk
	if h.riskOf != nil {
		risk = h.riskOf(call)
	}
	if (t.ask || byFlow) && !(call.Planned && h.flow != nil) {
		v.Ask = append(v.Ask, engine.Ask{
			Type: core.ApproveTool, Subject: call.Tool + "#" + call.Digest, Tool: call.Tool, Digest: call.Digest + h.asks, Risk: risk, Description: "allow " + call.Tool,
			Context: map[string]any{"arguments": call.Args},
			Once:    h.once != nil && h.once(call) || byFlow,
		})
	}
	return v
}

// allows makes a tool one that nobody is asked about.
func (h *host) allows(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tools[name]
	t.ask = false
	h.tools[name] = t
}

func (h *host) Apply(_ context.Context, a core.Approval, _ func(string)) error {
	if h.onApply != nil {
		h.onApply()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.Type == core.ApproveTool && a.Answer != nil {
		h.applied = append(h.applied, a.Tool+" "+string(a.Answer.Remember))
	}
	if h.applyErr != nil {
		return h.applyErr
	}
	delete(h.needs, a.Subject)
	return nil
}

// mayPrompt asks for the key of a model as long as that is among the needs.
func (h *host) mayPrompt(_ context.Context, _ core.Run, name string) (string, engine.Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := engine.Verdict{Known: true, ReadOnly: true, Repeatable: true}
	if h.needs[core.ModelTool] {
		v.Ask = []engine.Ask{{Type: core.ApproveKeys, Subject: core.ModelTool, Tool: core.ModelTool + "/host", Risk: core.RiskLow, Digest: "key", Description: "The model " + name + " needs KEY."}}
	}
	return "", v
}

func (h *host) Call(ctx context.Context, call engine.Call, _ func(string)) (json.RawMessage, error) {
	h.mu.Lock()
	if call.Make == nil {
		h.log = append(h.log, fmt.Sprintf("%s%s", call.Tool, call.Args))
	}
	t, hook := h.tools[call.Tool], h.onCall
	h.mu.Unlock()
	if hook != nil {
		hook(call)
	}
	if call.Side != core.SideClient { // that it was judged for
		return nil, core.Errorf(core.CodeInternal, "%s is made for %q", call.Tool, call.Side)
	}
	switch {
	case t.run != nil:
		return t.run(ctx, call.Args)
	case call.Make != nil:
		return call.Make(ctx)
	}
	return call.Args, nil
}

func (h *host) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.log...)
}

// bench is a store, a host and engines upon them.
type bench struct {
	t    testing.TB
	dir  string
	host *host
	// as stands for host, when set.
	as     engine.Host
	logger *slog.Logger
	limits engine.Limits
	// commitGrace bounds the commits of an engine that stops, when set.
	commitGrace time.Duration
	// ahead is how far the engine's clock goes before the real one.
	ahead *atomic.Int64
	pool  *sandbox.Pool
	// holds is the engine's Holds, when set.
	holds func(ctx context.Context, runner string) error
	// ask answers the requests of agents.
	ask func(ctx context.Context, run core.Run, name string, req model.Request) (model.Answer, error)
	// wrap, when set, stands between an engine and the store.
	wrap func(store.Store) store.Store
}

func newHost() *host {
	return &host{tools: map[string]tool{
		"a:read":  {readOnly: true},
		"a:write": {},
		"a:ask":   {ask: true},
		"a:fail": {run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, core.Errorf(core.CodeToolFailed, "it failed")
		}},
		"b:read": {readOnly: true},

		"agent:delegate": {}, "agent:decide": {readOnly: true},
	}, needs: map[string]bool{}}
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{
		t: t, dir: t.TempDir(),
		host: newHost(), ahead: new(atomic.Int64),
		limits: engine.Limits{
			Calls: 20000, Concurrency: 64, Timeout: hung, CallTimeout: hung, ApprovalTTL: time.Hour,
			ResumeTTL: time.Hour, StopGrace: hung, IdleChild: time.Hour,
		},
	}
	b.pool = sandbox.NewPool(sandbox.Options{Command: []string{os.Args[0], childArg}, Limits: sandbox.Limits{CPU: hung}})
	t.Cleanup(func() {
		if err := b.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) store() *bolt.Store {
	b.t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: b.dir, Clock: clock{}, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// process is one life of pml: an engine with its own store handle and runner.
type process struct {
	*engine.Engine
	st     store.Store
	runner store.Runner
	close  func()
}

func (b *bench) process() *process {
	b.t.Helper()
	var st store.Store = b.store()
	runner, err := st.Register(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if b.wrap != nil {
		st = b.wrap(st)
	}
	var h engine.Host = b.host
	if b.as != nil {
		h = b.as
	}
	logger := b.logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p := &process{st: st, runner: runner}
	p.Engine = engine.New(engine.Options{
		Store: st, Claims: st, Runner: runner.ID(), Holds: b.holds, Sandbox: b.pool,
		Hosts: func(string) (engine.Host, error) { return h, nil },
		Clock: aheadClock{b}, NewID: newID, Limits: func(string) (engine.Limits, error) { return b.limits, nil }, Logger: logger,
		CommitGrace: b.commitGrace, Ask: b.asks(), MayPrompt: b.host.mayPrompt,
		Agent: func(_ context.Context, _ core.Run, tool string, args json.RawMessage) (core.AgentSpec, error) {
			spec, err := agent.Wanted(tool, args)
			spec.System, spec.MaxTokens, spec.Iterations = "You are an agent.", 1000, max(spec.Iterations, 5)
			return spec, err
		},
		Suggest: func(_ context.Context, run core.Run, intent string) (engine.Suggestion, error) {
			if lists := run.Options.AllowedLists(); !strings.HasPrefix(intent, "write") || len(lists) > 0 {
				return engine.Suggestion{Tools: fmt.Sprint("mcp.a.write(n), within ", lists)}, nil
			}
			return engine.Suggestion{Tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "a:ask", "t1")}}, nil
		},
		Faults: func(_, value json.RawMessage) []core.Fault {
			if value[0] == '{' {
				return nil
			}
			return []core.Fault{{Message: "it is no object"}}
		},
	})
	var once sync.Once
	p.close = func() {
		once.Do(func() {
			if err := p.Engine.Close(); err != nil {
				b.t.Error(err)
			}
			if err := runner.Close(); err != nil {
				b.t.Error(err)
			}
			if err := st.Close(); err != nil {
				b.t.Error(err)
			}
		})
	}
	b.t.Cleanup(p.close)
	return p
}

func (b *bench) dag(p *process, tasks []core.TaskSpec, opts core.RunOptions) *engine.Handle {
	b.t.Helper()
	return b.start(p, core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks}, opts)
}

func (b *bench) code(p *process, source string, opts core.RunOptions) *engine.Handle {
	b.t.Helper()
	c, err := b.pool.Compile(b.t.Context(), source, "test.ts")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.start(p, core.Program{Kind: core.KindCode, Version: 1, Source: source, Script: c.Script, Plan: c.Plan, Sandbox: sandbox.Version}, opts)
}

func (b *bench) start(p *process, program core.Program, opts core.RunOptions) *engine.Handle {
	b.t.Helper()
	now := time.Now().UTC()
	h, err := p.Start(b.t.Context(), core.Run{
		ID: newID(), Side: core.SideClient, Workspace: "/w", Kind: program.Kind, CreatedAt: now, UpdatedAt: now,
		Options: opts, RequestedBy: core.Actor{Who: "test", Via: core.ViaCLI},
	}, program)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// wait waits for a condition, at most for as long as a test may take.
func (b *bench) wait(h *engine.Handle, done func(engine.Status) bool) engine.Status {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), hung)
	defer cancel()
	s, err := h.Wait(ctx, done)
	if err != nil {
		b.t.Fatalf("waiting for the run: %v; it is %s with %d pending", err, s.Run.State, len(s.Pending))
	}
	if s.Err != nil {
		b.t.Fatalf("the run stopped: %v", s.Err)
	}
	return s
}

// decide decides the only open approval of a type.
func (b *bench) decide(p *process, h *engine.Handle, typ core.ApprovalType, approve bool, answer *core.Answer) {
	b.t.Helper()
	list, err := p.st.Approvals(b.t.Context(), store.ApprovalFilter{RunID: h.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, ap := range list {
		if ap.Type == typ {
			_, err := p.st.Decide(b.t.Context(), core.Decision{
				ApprovalID: ap.ID, Approved: approve, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Answer: answer,
			}, store.Renewal{})
			if err != nil {
				b.t.Fatal(err)
			}
			return
		}
	}
	b.t.Fatalf("no open approval of type %s among %v", typ, list)
}

func task(id, tool string, deps ...string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id)), DependsOn: deps}
}

func (b *bench) now() time.Time { return aheadClock{b}.Now() }

// handleOf waits until an engine runs a run that another one has started.
func (b *bench) handleOf(p *process, id core.ID) *engine.Handle {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), hung)
	defer cancel()
	changes, err := p.st.Watch(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for {
		if h := p.Handle(id); h != nil {
			return h
		}
		select {
		case <-changes:
		case <-ctx.Done():
			b.t.Fatalf("nobody has started the run %s", id)
		}
	}
}

// asks is ask as the engine wants it, nil without one.
func (b *bench) asks() func(context.Context, core.Run, string, string, model.Request) (model.Answer, error) {
	if b.ask == nil {
		return nil
	}
	return func(ctx context.Context, run core.Run, _, name string, req model.Request) (model.Answer, error) {
		if _, v := b.host.mayPrompt(ctx, run, name); len(v.Ask) > 0 {
			b.t.Errorf("%s is asked without its key", name)
		}
		return b.ask(ctx, run, name, req)
	}
}
