package service_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
)

// Scenario 16: a server is killed; another one takes up what has something to
// do, and leaves alone what waits for a person.
func TestSupervise_TakesOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.server()
	sleeping := first.start(sleeper("700"))
	decided := first.execute(writes, api.StatusApprovalRequired)
	denied := first.execute(writes, api.StatusApprovalRequired)
	aborted := first.execute(writes, api.StatusApprovalRequired)
	waiting := first.execute(writes, api.StatusApprovalRequired)
	first.until(sleeping, func(r core.Run) bool { return r.JournalSeq > 0 })
	first.kill()
	second := m.server()
	for r, approve := range map[core.ID]bool{decided.CheckpointID: true, denied.CheckpointID: false} {
		if _, err := second.store.Decide(t.Context(), core.Decision{ApprovalID: r, Approved: approve, By: me, At: m.clock.Now()}, store.Renewal{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.store.RequestAbort(t.Context(), aborted.WorkflowID, core.AbortRequest{By: me, At: m.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	second.supervise()
	second.until(sleeping, is(core.RunComplete))
	second.until(decided.WorkflowID, is(core.RunComplete))
	second.until(denied.WorkflowID, is(core.RunFailed))
	second.until(aborted.WorkflowID, is(core.RunAborted))
	if run := second.until(waiting.WorkflowID, is(core.RunWaiting)); run.Epoch != 1 {
		t.Errorf("epoch %d: nobody had decided", run.Epoch)
	}
	if got, err := second.decide(waiting.WorkflowID, api.Decision{Approve: true}); err != nil || got.Status != api.StatusComplete {
		t.Errorf("%v %+v", err, got)
	}
	// A decision for a run of a dead server, made while the other one watches.
	third := m.server()
	late := third.execute(writes, api.StatusApprovalRequired)
	third.kill()
	if _, err := second.store.Decide(t.Context(), core.Decision{ApprovalID: late.CheckpointID, Approved: true, By: me, At: m.clock.Now()}, store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	second.until(late.WorkflowID, is(core.RunComplete))
}

// A run that cannot be taken up does not spin, and keeps nobody else from it.
func TestSupervise_PoisonedRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	now := m.clock.Now()
	id := newID()
	run := core.Run{ID: id, Kind: "agent", Workspace: m.ws, Side: core.SideServer, State: core.RunRunning, CreatedAt: now, UpdatedAt: now}
	if err := p.store.Commit(p.ctx(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: "agent", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	other := m.server()
	good := other.start(sleeper("300"))
	other.until(good, func(r core.Run) bool { return r.JournalSeq > 0 })
	other.kill()
	p.supervise()
	p.until(good, is(core.RunComplete))
	p.until(id, func(r core.Run) bool { return r.Epoch > 0 })
	m.clock.stand() // so that its pause does not end, however slow the disk is
	before := p.m.claims.Load()
	for range 20 { // each wakes it
		if err := p.store.Record(t.Context(), core.AuditRow{Reason: "a change"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.m.claims.Load() - before; n > 2 {
		t.Errorf("claimed %d times more", n)
	}
}

// However many runs cannot be taken up, those after them are.
func TestSupervise_ManyPoisonedRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	var wg sync.WaitGroup
	for range 210 { // more than are looked for at once
		now := m.clock.Now().Add(-time.Hour)
		run := core.Run{ID: newID(), Kind: "agent", Workspace: m.ws, Side: core.SideServer, State: core.RunRunning, CreatedAt: now, UpdatedAt: now}
		wg.Go(func() { // together they share what they cost
			if err := p.store.Commit(p.ctx(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: "agent", Version: 1}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	other := m.server()
	good := other.start(sleeper("300"))
	other.until(good, func(r core.Run) bool { return r.JournalSeq > 0 })
	other.kill()
	p.supervise()
	p.until(good, is(core.RunComplete))
}

// A server that has lost its standing becomes a runner again and goes on.
func TestSupervise_LostRunner(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	id := p.start(sleeper("3000"))
	run := p.until(id, func(r core.Run) bool { return r.JournalSeq > 0 })
	p.supervise()
	p.m.mu.Lock()
	old := p.m.runners[0]
	p.m.mu.Unlock()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	close(old.lost)
	if got := p.until(id, is(core.RunComplete)); got.Runner == run.Runner {
		t.Errorf("the runner is still %s", got.Runner)
	}
	if len(p.m.runners) != 2 {
		t.Errorf("%d runners", len(p.m.runners))
	}
}

// TestReregister: of two who have seen that a server has lost its standing, the one that
// looks after runs and a call that is made for a client, one makes it a runner again.
func TestReregister(t *testing.T) {
	t.Parallel()
	p := newMachine(t).server()
	p.until(p.start(sleeper("1")), is(core.RunComplete))
	lost := p.m.runners[0]
	for range 2 {
		now, err := service.Reregister(p.ctx(), p.Service, lost)
		if err != nil || len(p.m.runners) != 2 || now.ID() != p.m.runners[1].ID() || p.RunnerID() != now.ID() {
			t.Fatalf("%d runners, %v", len(p.m.runners), err)
		}
		if alive, err := p.m.Alive(p.ctx(), now.ID()); err != nil || !alive {
			t.Errorf("the new one is dead: %v", err)
		}
	}
}

// Runs that only wait leave memory; whoever waits for them is answered when
// somebody decides, here or at another server.
func TestSupervise_WaitingRunsLeaveMemory(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	service.SetParkAfter(p.Service, time.Millisecond)
	p.supervise()
	other := m.server()
	for name, decider := range map[string]*client{"Here": p.client, "Elsewhere": other.client} {
		told := make(chan api.Result, 1)
		ids := make(chan core.ID, 1)
		go func() {
			r, err := p.Execute(p.ctx(), api.ExecuteRequest{Code: writes, By: me, Wait: -1, HoldApprovals: true, Started: func(id core.ID) { ids <- id }})
			if err != nil {
				t.Error(err)
			}
			told <- r
		}()
		id := <-ids
		p.until(id, is(core.RunWaiting))
		for service.Held(p.Service) > 0 {
			if err := p.store.Record(t.Context(), core.AuditRow{Reason: "time goes by"}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := decider.decide(id, api.Decision{Approve: true}); err != nil || got.Status != api.StatusComplete {
			t.Fatalf("%s: %v %+v", name, err, got)
		}
		if r := <-told; r.Status != api.StatusSuccess { // as if it had stayed
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Who waits for a run when its server stops is answered; the run goes on at the
// next one.
func TestClose_AnswersAndLeaves(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	ids := make(chan core.ID, 1)
	told := make(chan api.Result, 1)
	go func() {
		r, err := p.Execute(p.ctx(), api.ExecuteRequest{Code: sleeper("3600000"), By: me, Wait: -1, Started: func(id core.ID) { ids <- id }})
		if err != nil {
			t.Error(err)
		}
		told <- r
	}()
	id := <-ids
	p.until(id, func(r core.Run) bool { return r.JournalSeq > 0 })
	began := time.Now()
	p.close()
	if r := <-told; r.Status != api.StatusRunning || r.WorkflowID != id {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > hung/2 {
		t.Errorf("it took %s to stop", took)
	}
	next := m.server()
	if run := next.until(id, is(core.RunInterrupted)); run.ExpiresAt != nil {
		t.Errorf("expires %v", run.ExpiresAt)
	}
	m.clock.forward(48 * time.Hour) // it waits for nobody, so it waits for as long as it takes
	if _, err := next.store.Expire(t.Context(), m.clock.Now()); err != nil {
		t.Fatal(err)
	}
	next.supervise()
	next.until(id, is(core.RunComplete))
}

// A DAG's hour is renewed by each decision; the client has a day.
func TestDecide_RenewsTheHour(t *testing.T) {
	t.Parallel()
	for name, ttl := range map[string]time.Duration{"server": time.Hour, "client": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			var c *client
			if name == "server" {
				c = m.server().client
			} else {
				c = m.client()
			}
			task := func(id string, deps ...string) core.TaskSpec {
				return core.TaskSpec{ID: id, Tool: "workspace:list_directory", Arguments: []byte(`{"path":"."}`), DependsOn: deps}
			}
			r, err := c.Execute(c.ctx(), api.ExecuteRequest{
				Tasks: []core.TaskSpec{task("t1"), task("t2", "t1"), task("t3", "t2")}, RunOptions: core.RunOptions{PerLayer: true}, By: me, Wait: -1,
			})
			if err != nil || r.Status != api.StatusLayerComplete {
				t.Fatalf("%v %+v", err, r)
			}
			m.clock.forward(ttl - 5*time.Minute)
			r, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
			if err != nil || r.Status != api.StatusLayerComplete {
				t.Fatalf("%v %+v", err, r)
			}
			m.clock.forward(ttl - 5*time.Minute) // twice the time since the start
			r, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
			if err != nil || r.Status != api.StatusComplete {
				t.Fatalf("%v %+v", err, r)
			}
		})
	}
}

// Nobody decides in time about a run that has left memory: whoever waits for it
// is told.
func TestSupervise_ExpiresOutOfMemory(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	service.SetParkAfter(p.Service, time.Millisecond)
	told := make(chan api.Result, 1)
	ids := make(chan core.ID, 1)
	go func() {
		r, err := p.Execute(p.ctx(), api.ExecuteRequest{Code: writes, By: me, Wait: -1, HoldApprovals: true, Started: func(id core.ID) { ids <- id }})
		if err != nil {
			t.Error(err)
		}
		told <- r
	}()
	p.until(<-ids, is(core.RunWaiting))
	for service.Held(p.Service) > 0 {
		if err := p.store.Record(t.Context(), core.AuditRow{Reason: "time goes by"}); err != nil {
			t.Fatal(err)
		}
	}
	m.clock.forward(6 * time.Minute)
	if r := <-told; r.ErrorCode != core.CodeApprovalExpired {
		t.Errorf("%+v", r)
	}
}

// Another server takes a run over while somebody waits for it here: the answer
// is what came of it there.
func TestWait_TakenOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	told := make(chan api.Result, 1)
	ids := make(chan core.ID, 1)
	go func() {
		r, err := p.Execute(p.ctx(), api.ExecuteRequest{Code: sleeper("3000"), By: me, Wait: -1, Started: func(id core.ID) { ids <- id }})
		if err != nil {
			t.Error(err)
		}
		told <- r
	}()
	id := <-ids
	p.until(id, func(r core.Run) bool { return r.JournalSeq > 0 })
	p.m.mu.Lock()
	if err := p.m.runners[0].Close(); err != nil { // and it does not know
		t.Error(err)
	}
	p.m.mu.Unlock()
	other := m.server()
	got, err := other.Continue(other.ctx(), api.ContinueRequest{ID: id, By: me, Wait: -1})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	if r := <-told; r.Status != api.StatusSuccess || string(r.Result) != `"slept"` { // the word of a first execution, wherever it ended
		t.Errorf("%+v", r)
	}
}

// mad is a store that panics when it is asked for the program of one run.
type mad struct {
	store.Store

	run core.ID
}

func (m mad) Program(ctx context.Context, id core.ID) (core.Program, error) {
	if id == m.run {
		panic("out of range")
	}
	return m.Store.Program(ctx, id)
}

// A run at which whoever takes it up panics ends no process: the others go on. One
// that this lies in ends as failed.
func TestSupervise_Panics(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	now := m.clock.Now().Add(-time.Hour)
	run := core.Run{ID: newID(), Kind: core.KindDAG, Workspace: m.ws, Side: core.SideServer, State: core.RunRunning, CreatedAt: now, UpdatedAt: now, DAGVersion: 1}
	odd := run
	odd.ID = newID()
	program := core.Program{Kind: core.KindDAG, Version: 1, Added: []core.Addition{{From: 99}}}
	for _, r := range []core.Run{run, odd} {
		if err := p.store.Commit(p.ctx(), store.Step{Run: r, Create: true, Program: &program}); err != nil {
			t.Fatal(err)
		}
	}
	p.m.Store = mad{p.m.Store, odd.ID}
	other := m.server()
	good := other.start(sleeper("300"))
	other.until(good, func(r core.Run) bool { return r.JournalSeq > 0 })
	other.kill()
	p.supervise()
	p.until(good, is(core.RunComplete))
	if r := p.until(run.ID, is(core.RunFailed)); r.Error == nil || r.Error.Code != core.CodeInternal {
		t.Errorf("%v", r.Error)
	}
}
