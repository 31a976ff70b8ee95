// Package storetest is the suite that every implementation of store.Store passes.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// Clock is a clock that moves when it is told to.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// start is the time at which a Clock begins.
var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// NewClock returns a clock that stands at a fixed time.
func NewClock() *Clock { return &Clock{now: start} }

// Now implements core.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Harness is an empty store under test.
type Harness struct {
	Store store.Store
	Clock *Clock
	// Reopen returns another store on the same data, as another process would
	// have it. The first one stays open, unless Single is set: then the suite
	// closes it before it asks for another.
	Reopen func(t *testing.T) store.Store
	// Single is set for a store that only one process can have open.
	Single bool
	// EventsByRun is set for a store that lists the events of one run only.
	EventsByRun bool
	// FailCommit lets the next commit of Store fail at a point, and only that
	// one: whichever operation it belongs to returns an error. Tests that need it
	// are skipped where it is nil.
	FailCommit func(at FailPoint)
}

// FailPoint says where a commit fails.
type FailPoint int

const (
	// BeforeCommit: nothing of the transaction is kept.
	BeforeCommit FailPoint = iota + 1
	// AfterCommit: all of it is kept, and whoever asked for it does not learn so.
	AfterCommit
)

// String names the point for tests.
func (p FailPoint) String() string {
	if p == AfterCommit {
		return "After"
	}
	return "Before"
}

// kit are the helpers of one test.
type kit struct {
	Harness
	t *testing.T
	n int
}

var (
	human = core.Actor{Who: "ann", Via: core.ViaCLI}
	other = core.Actor{Who: "bob", Via: core.ViaTUI}
)

func (k *kit) ctx() context.Context { return k.t.Context() }

// id returns an id that is like a UUID and readable.
func (k *kit) id() core.ID {
	k.n++
	return core.ID(fmt.Sprintf("%08x-0000-4000-8000-%012x", k.n*0x01010101, k.n))
}

// another returns a store on the same data for somebody else: that of another
// process where there can be one.
func (k *kit) another() store.Store {
	k.t.Helper()
	if k.Single {
		return k.Store
	}
	return k.Reopen(k.t)
}

// fresh returns a store that has just been opened on the same data.
func (k *kit) fresh() store.Store {
	k.t.Helper()
	if k.Single {
		if err := k.Store.Close(); err != nil {
			k.t.Fatal(err)
		}
	}
	s := k.Reopen(k.t)
	if k.Single {
		k.Store = s
	}
	return s
}

// failCommit is FailCommit, or a skip.
func (k *kit) failCommit(at FailPoint) {
	k.t.Helper()
	if k.FailCommit == nil {
		skiptest.Missing(k.t, "this store has no hook that lets a commit fail")
	}
	k.FailCommit(at)
}

func (k *kit) now() time.Time { return k.Clock.Now() }

func (k *kit) in(d time.Duration) *time.Time {
	t := k.now().Add(d)
	return &t
}

// run is a header as an engine would start it.
func (k *kit) run() core.Run { return k.runAs(k.id()) }

func (k *kit) runAs(id core.ID) core.Run {
	return core.Run{
		ID: id, Side: core.SideClient, Workspace: "/w", Kind: core.KindCode, State: core.RunRunning,
		CreatedAt: k.now(), UpdatedAt: k.now(), Runner: "r1", Epoch: 1, DAGVersion: 1, RequestedBy: human,
	}
}

// create commits a new run.
func (k *kit) create(change ...func(*store.Step)) core.Run {
	k.t.Helper()
	step := store.Step{Run: k.run(), Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1"}}
	for _, f := range change {
		f(&step)
	}
	k.commit(step)
	return k.get(step.Run.ID)
}

// waiting commits a new run that waits for one approval.
func (k *kit) waiting(change ...func(*core.Approval)) (core.Run, core.Approval) {
	k.t.Helper()
	var a core.Approval
	run := k.create(func(s *store.Step) {
		a = k.approval(s.Run.ID)
		for _, f := range change {
			f(&a)
		}
		s.Run.State, s.Run.ExpiresAt = core.RunWaiting, k.in(24*time.Hour)
		s.Open = []core.Approval{a}
	})
	return run, a
}

func (k *kit) approval(run core.ID) core.Approval { return k.approvalAs(k.id(), run) }

func (k *kit) approvalAs(id, run core.ID) core.Approval {
	return core.Approval{
		ID: id, RunID: run, Workspace: "/w", Side: core.SideClient, Type: core.ApproveTool, Subject: "c1",
		Tool: "fs:write", Risk: core.RiskMedium, Description: "write a file", Context: json.RawMessage(`{"tool":"fs:write"}`),
		Digest: "sha256:aa", RequestedBy: human, State: core.ApprovalOpen, CreatedAt: k.now(), ExpiresAt: k.in(5 * time.Minute),
	}
}

func (k *kit) commit(step store.Step) {
	k.t.Helper()
	if err := k.Store.Commit(k.ctx(), step); err != nil {
		k.t.Fatalf("commit: %v", err)
	}
}

func (k *kit) get(id core.ID) core.Run {
	k.t.Helper()
	r, err := k.Store.Run(k.ctx(), id)
	if err != nil {
		k.t.Fatalf("run: %v", err)
	}
	return r
}

func (k *kit) getApproval(id core.ID) core.Approval {
	k.t.Helper()
	as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{ID: id})
	if err != nil || len(as) != 1 {
		k.t.Fatalf("approval %s: %d found, %v", id, len(as), err)
	}
	return as[0]
}

func (k *kit) events(f store.EventFilter) []core.Event {
	k.t.Helper()
	if k.EventsByRun && f.RunID == "" {
		return k.eventsByRun(f)
	}
	es, err := k.Store.Events(k.ctx(), f)
	if err != nil {
		k.t.Fatalf("events: %v", err)
	}
	return es
}

// eventsByRun are the events of all runs, one run after the other.
func (k *kit) eventsByRun(f store.EventFilter) (all []core.Event) {
	k.t.Helper()
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{})
	if err != nil {
		k.t.Fatalf("runs: %v", err)
	}
	for _, run := range runs {
		f.RunID = run.ID
		all = append(all, k.events(f)...)
	}
	return all
}

func (k *kit) audit() []core.AuditRow {
	k.t.Helper()
	rows, err := k.Store.Audit(k.ctx(), store.AuditFilter{})
	if err != nil {
		k.t.Fatalf("audit: %v", err)
	}
	return rows
}

// wantCode fails unless err has the code.
func (k *kit) wantCode(err error, want core.Code) {
	k.t.Helper()
	if got := core.CodeOf(err); got != want {
		k.t.Errorf("code %q, want %q (%v)", got, want, err)
	}
}

func record(seq int64, call string) core.Record {
	return core.Record{Seq: seq, Kind: core.RecordSettled, CallID: call, Tool: "fs:read", Outcome: core.OutcomeSuccess,
		Args: json.RawMessage(`{"b":1,"a":2}`), Result: json.RawMessage(`"ok"`), At: start}
}
