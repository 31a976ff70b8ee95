package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// EveryCommit runs programs of every kind upon surroundings, stops pml before and after each
// commit of a run, goes on in a new process, and compares what the world saw: the same result,
// and each side effect once. A person who is asked about a call that may have run looks and
// answers what is true. every says how many commits lie between two stops; with twice, the
// second process dies as well, at each of its commits. Of share programs one is run, of all 1;
// PML_TEST_REQUIRE=all runs all.
func EveryCommit(t *testing.T, open Opener, every, share int, twice bool) {
	t.Helper()
	for i, c := range crashCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			skiptest.Share(t, i, share)
			w := NewWorld(t, open(t))
			want := newCrash(t, w, c).run(0, 0, 0)
			if want.commits < 2 || want.writes() == 0 {
				t.Fatalf("%d commits, %v: the case shows nothing", want.commits, want.log)
			}
			points := 0
			for n := 1; n <= want.commits; n++ {
				seconds := 1
				if twice {
					seconds = want.commits + 1
				}
				for m := range seconds {
					if n%every == 1%every {
						newCrash(t, w, c).run(n, 0, m).like(t, want, fmt.Sprintf("before commit %d, then %d", n, m))
						points++
					}
					if n%every == (1+every/2)%every {
						newCrash(t, w, c).run(0, n, m).like(t, want, fmt.Sprintf("after commit %d, then %d", n, m))
						points++
					}
				}
			}
			t.Logf("%d commits, %d points", want.commits, points)
		})
	}
}

// crash is one run of a case in a world of its own.
type crash struct {
	*testing.T
	w *World
	c crashCase

	program core.Program
	outcome
	flows crashFlows
	model Model
}

// crashFlows is what is known of the hook flows that the calls of a crash meet.
type crashFlows struct {
	mu   sync.Mutex
	runs int
	// kept are the calls that are journaled with what flows made of them: none runs for
	// them again. approved are the digests that a person has said yes to.
	kept     map[string]bool
	approved map[string]bool
}

// flow is what the flow of a case makes of a call.
func (k *crash) flow(call engine.Call) (core.Passage, *core.Error) {
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	if k.flows.kept[call.ID] {
		k.Errorf("a flow runs a second time for %s %s", call.ID, call.Tool)
	}
	k.flows.runs++
	flow := core.PassedFlow{Flow: "f", RunID: NewID(), Node: "call", Changed: true}
	return core.Passage{Flows: []core.PassedFlow{flow}, Args: json.RawMessage(k.c.flow(string(call.Args), k.flows.runs))}, nil
}

// keep looks at what the last process has journaled.
func (k *crash) keep(p *Process, id core.ID) {
	records, err := p.Store.Journal(k.Context(), id, 0)
	if err != nil {
		k.Fatal(err)
	}
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	for _, r := range records {
		if r.Passage != nil {
			k.flows.kept[r.CallID] = true
		}
	}
}

// sent checks that a call is sent as a person has approved it.
func (k *crash) sent(call engine.Call) {
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	if call.Tool == "a:ask" && k.c.edit == "" && !k.flows.approved[call.Digest] {
		k.Errorf("%s %s is sent and nobody has approved it", call.Tool, call.Args)
	}
}

// outcome is what is to be the same however often pml dies.
type outcome struct {
	state   core.RunState
	result  string
	log     []string // calls with side effects, sorted
	commits int
	asked   int // questions about calls that may have run
	chance  bool
}

func (o outcome) writes() int { return len(o.log) }

func (o outcome) like(t *testing.T, want outcome, when string) {
	t.Helper()
	if o.state != want.state || o.result != want.result {
		t.Errorf("%s: %s %s, want %s %s", when, o.state, o.result, want.state, want.result)
	}
	if o.chance {
		if len(o.log) != len(want.log) {
			t.Errorf("%s: %d side effects, want %d: %v", when, len(o.log), len(want.log), o.log)
		}
		return
	}
	if !slices.Equal(want.log, o.log) {
		t.Errorf("%s: side effects %v, want %v", when, o.log, want.log)
	}
}

// newCrash is a case in a world beside that of the others of its case: upon the same
// surroundings, with tools and a workspace of its own, by which its approvals are told apart.
func newCrash(t *testing.T, base *World, c crashCase) *crash {
	t.Helper()
	w := *base
	w.Workspace, w.Host = "/"+string(NewID()), NewHost()
	w.Host.Needs["b"], w.Host.Needs[core.ModelTool] = true, c.key
	w.Host.Tools["a:boom"] = Tool{ReadOnly: true, Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, core.Errorf(core.CodeToolFailed, "boom")
	}}
	k := &crash{T: t, w: &w, c: c, flows: crashFlows{kept: map[string]bool{}, approved: map[string]bool{}}}
	if c.flow != nil {
		w.Host.Flow, w.Host.OnCall = k.flow, k.sent
	}
	k.chance = c.chance
	k.program = core.Program{Kind: core.KindDAG, Version: 1, Tasks: c.tasks}
	if c.goals != nil {
		w.Ask = (&ByGoal{Scripts: c.goals}).Answer
	}
	switch {
	case c.code != "":
		k.program = w.Compile(c.code)
	case c.ask != nil:
		k.program, w.Ask = AgentProgram(c.spec), c.ask
	case c.goals != nil:
		k.program = AgentProgram(c.spec)
	case c.agent != nil:
		k.program, w.Ask = AgentProgram(c.spec), k.model.Answer(c.agent)
	default:
		g, err := engine.Graph(k.program)
		if err != nil {
			k.Fatal(err)
		}
		k.program.Plan = g.Plan()
	}
	return k
}

// run starts the program; its store fails before or after the n-th commit, and
// that of the second process before its again-th. Zero never fails.
func (k *crash) run(before, after, again int) outcome {
	k.Helper()
	var faulty *Faulty
	k.w.Wrap = func(s Surroundings) Surroundings {
		faulty = NewFaulty(s)
		if before > 0 {
			faulty.FailBefore(before)
		}
		if after > 0 {
			faulty.FailAfter(after)
		}
		return faulty
	}
	p := k.w.Process()
	run := k.w.NewRun(k.program, k.c.opts)
	id := run.ID
	h, err := p.Start(k.Context(), run, k.program)
	for life := 1; ; life++ {
		if err == nil && k.drive(p, h) {
			break
		}
		if life > 3 {
			k.Fatalf("life %d: the run %s does not go on: %v", life, id, err)
		}
		p.Close()
		k.w.Wrap = nil
		if life == 1 && again > 0 {
			k.w.Wrap = func(s Surroundings) Surroundings {
				f := NewFaulty(s)
				f.FailBefore(again)
				return f
			}
		}
		p = k.w.Process()
		if _, missing := p.Store.Run(k.Context(), id); missing != nil {
			if core.CodeOf(missing) != core.CodeNotFound || before != 1 {
				k.Fatal(missing)
			}
			p.Close()
			return k.run(0, 0, 0) // it was never there: whoever asked for it asks again
		}
		k.keep(p, id)
		k.model.Keep(k, p, id)
		h, err = k.resume(p, id)
		if ended, rerr := p.Store.Run(k.Context(), id); err != nil && rerr == nil && ended.State.Final() {
			k.finish(ended)
			p.Close()
			return k.outcome
		}
	}
	ended, err := p.Store.Run(k.Context(), id)
	if err != nil {
		k.Fatal(err)
	}
	k.commits = faulty.Commits()
	k.rows(p, id)
	k.finish(ended)
	p.Close()
	return k.outcome
}

// resume goes on with a run, or gives an agent that has ended what it is still to get.
func (k *crash) resume(p *Process, id core.ID) (*engine.Handle, error) {
	n := k.given(p, id)
	if run, err := p.Store.Run(k.Context(), id); err == nil && run.State == core.RunComplete && n < len(k.c.more) {
		return p.Extend(k.Context(), id, k.c.more[n], ByMe)
	}
	return p.Resume(k.Context(), id)
}

// given counts what an agent was given.
func (k *crash) given(p *Process, id core.ID) int {
	if k.c.more == nil {
		return 0
	}
	program, err := p.Store.Program(k.Context(), id)
	if err != nil {
		k.Fatal(err)
	}
	return len(program.Agent.More)
}

func (k *crash) finish(run core.Run) {
	k.state, k.result, k.log = run.State, string(run.Result), nil
	if k.program.Kind == core.KindAgent { // its runs have other ids, and a request may be lost
		r := AgentResult(k, engine.Status{Run: run})
		k.result = fmt.Sprintf("%s %v %d calls, %d runs, %d iterations\n%s", r.Stop, r.Success, r.Calls, len(r.Runs), r.Iterations, r.Result)
	}
	if run.Error != nil {
		k.result = run.Error.Error()
	}
	for _, line := range k.w.Host.Called() {
		if strings.HasPrefix(line, "a:write") || strings.HasPrefix(line, "a:ask") {
			k.log = append(k.log, line)
		}
	}
	slices.Sort(k.log)
}

// drive answers questions until the run has ended; false when pml died. It
// reads them from the store: a run that also sleeps is not at a pause.
func (k *crash) drive(p *Process, h *engine.Handle) bool {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), Hung)
	defer cancel()
	changes, err := p.Store.Watch(ctx)
	if err != nil {
		k.Fatal(err)
	}
	for {
		s, changed := h.Status()
		if s.Stopped && s.Err == nil && s.Run.State == core.RunComplete && k.given(p, h.ID) < len(k.c.more) {
			var err error
			if h, err = p.Extend(k.Context(), h.ID, k.c.more[k.given(p, h.ID)], ByMe); err != nil {
				return false
			}
			continue
		}
		if s.Stopped {
			return s.Err == nil && s.Run.State.Final()
		}
		open, err := p.Store.Approvals(k.Context(), store.ApprovalFilter{Workspace: k.w.Workspace, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
		if err != nil {
			k.Fatal(err)
		}
		for _, ap := range open { // also of the runs of an agent
			k.answer(p, ap)
		}
		select {
		case <-changes:
		case <-changed:
		case <-ctx.Done():
			k.Fatalf("the run is %s, %d pending, called %v", s.Run.State, len(s.Pending), k.w.Host.Called())
		}
	}
}

// answer decides as a person would who can see what has happened.
func (k *crash) answer(p *Process, ap core.Approval) {
	k.Helper()
	d := core.Decision{
		ApprovalID: ap.ID, Approved: k.c.deny == "" || !strings.Contains(ap.Description, k.c.deny),
		By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(),
	}
	if ap.Type == core.ApproveTool && k.c.edit != "" {
		digest, err := core.Digest(json.RawMessage(k.c.edit))
		if err != nil {
			k.Fatal(err)
		}
		d.Answer = &core.Answer{Arguments: json.RawMessage(k.c.edit), Digest: digest}
	}
	if ap.Type == core.ApproveTool && k.c.remember != "" {
		d.Answer = &core.Answer{Remember: k.c.remember}
	}
	if ap.Type == core.ApproveTool && k.c.shape > 0 {
		d.Answer = &core.Answer{Shape: LoopOf(k, ap, k.c.shape)}
	}
	if ap.Type == core.ApproveInDoubt {
		k.asked++
		var about struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(ap.Context, &about); err != nil {
			k.Fatal(err)
		}
		d.Approved, d.Answer = true, &core.Answer{InDoubt: core.RunAgain}
		if slices.Contains(k.w.Host.Called(), about.Tool+string(about.Arguments)) {
			d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: about.Arguments}
		}
	}
	k.flows.mu.Lock()
	k.flows.approved[ap.Digest] = true
	k.flows.mu.Unlock()
	_, err := p.Store.Decide(k.Context(), d, store.Renewal{})
	if err != nil && core.CodeOf(err) != core.CodeNotWaiting { // the run may have ended meanwhile
		k.Fatal(err)
	}
	if err == nil && ap.Type == core.ApproveTool && k.c.free {
		k.w.Host.Allows(ap.Tool)
	}
}
