package service_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
)

var agent = core.Actor{Who: "agent", Via: core.ViaMCP}

// refusals are the rows of refused attempts, and all rows are a chain.
func (c *client) refusals() []core.AuditRow {
	c.t.Helper()
	rows, err := c.Audit(c.ctx(), api.AuditQuery{})
	if err != nil {
		c.t.Fatal(err)
	}
	if report, err := c.VerifyAudit(c.ctx()); err != nil || !report.OK || report.Rows != len(rows) {
		c.t.Fatalf("%v %+v of %d rows", err, report, len(rows))
	}
	return slices.DeleteFunc(rows, func(r core.AuditRow) bool { return r.Outcome != core.OutcomeRefused })
}

// attempts is how many refused attempts rows stand for.
func attempts(rows []core.AuditRow) (n int) {
	for _, r := range rows {
		n += max(1, r.Count)
	}
	return n
}

// Whoever decides what is not theirs to decide, something else than was shown,
// or what somebody else has decided, is in the audit log; who only repeats, or
// comes too late, is not.
func TestRefused_Decisions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	p := m.server()
	alice, bob := p.in(api.Scope{Owner: "alice", By: core.Actor{Who: "alice", Via: core.ViaHTTP}}), p.in(api.Scope{Owner: "bob", By: core.Actor{Who: "bob", Via: core.ViaHTTP}})
	tool := core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"}
	tests := []struct {
		name   string
		by     core.Actor
		d      func(id core.ID) api.Decision
		want   core.Code
		row    bool
		before func(run, id core.ID)
	}{
		{"Agent", agent, func(id core.ID) api.Decision { return api.Decision{Approve: true, Checkpoint: id} }, core.CodeAwaitingHuman, true, nil},
		{"Digest", me, func(id core.ID) api.Decision {
			return api.Decision{Approve: true, Checkpoint: id, ExpectDigest: "sha256:11"}
		}, core.CodeDigestMismatch, true, nil},
		{"UnknownApproval", me, func(core.ID) api.Decision { return api.Decision{Checkpoint: newID()} }, core.CodeNotFound, true, nil},
		{"SomebodyElse", core.Actor{Who: "ben", Via: core.ViaTUI}, func(id core.ID) api.Decision { return api.Decision{Approve: true, Checkpoint: id} }, core.CodeAlreadyDecided, true, func(run, id core.ID) {
			if _, err := p.store.Decide(p.ctx(), core.Decision{ApprovalID: id, By: me, At: m.clock.Now()}, store.Renewal{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"OneTwice", me, func(id core.ID) api.Decision { return api.Decision{Approve: true, Checkpoint: id} }, core.CodeAlreadyDecided, false, func(run, id core.ID) {
			if _, err := p.store.Decide(p.ctx(), core.Decision{ApprovalID: id, By: me, At: m.clock.Now()}, store.Renewal{}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		run, id := alice.ask("alice", tool)
		if tt.before != nil {
			tt.before(run, id)
		}
		seen := len(alice.refusedOf(run))
		d := tt.d(id)
		d.Presence = core.PresenceTerminal
		_, err := alice.Continue(alice.ctx(), api.ContinueRequest{ID: run, Decision: &d, By: tt.by})
		code(t, err, tt.want)
		rows := alice.refusedOf(run)[seen:]
		if len(rows) != map[bool]int{true: 1}[tt.row] {
			t.Errorf("%s: %+v", tt.name, rows)
			continue
		}
		if !tt.row {
			continue
		}
		r := rows[0]
		if r.By != tt.by || r.Workspace != m.ws || !strings.HasPrefix(r.Reason, string(tt.want)) || r.At.IsZero() || r.Count != 0 {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if named := d.Checkpoint == id; named != (r.ApprovalID == id && r.Tool == "a:b" && r.Digest == "sha256:00" && r.Type == core.ApproveTool) {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if got := bob.refusedOf(run); len(got) > 0 {
			t.Errorf("%s: bob sees %+v", tt.name, got)
		}
	}

	// A run of somebody else and one that never was are the same: a row of no run.
	run, _ := alice.ask("alice", tool)
	before := len(alice.refusals())
	_, err := bob.Continue(bob.ctx(), api.ContinueRequest{ID: run, Decision: &api.Decision{Approve: true}})
	code(t, err, core.CodeNotFound)
	if err := bob.Refused(bob.ctx(), run, core.Actor{}, "requestState"); err != nil {
		t.Fatal(err)
	}
	if got := len(alice.refusals()); got != before || len(bob.refusals()) != 0 {
		t.Errorf("alice sees %d rows, before %d", got, before)
	}
	rows := p.refusals()
	for _, r := range rows[len(rows)-2:] {
		if r.RunID != "" || r.By.Who != "bob" || !strings.Contains(r.Reason, string(run)) {
			t.Errorf("%+v", r)
		}
	}
	if err := alice.Refused(alice.ctx(), run, core.Actor{}, "requestState"); err != nil {
		t.Fatal(err)
	}
	if got := alice.refusals(); len(got) != before+1 || got[before].RunID != run || got[before].Reason != "requestState" {
		t.Errorf("%+v", got)
	}
}

func (c *client) refusedOf(run core.ID) []core.AuditRow {
	c.t.Helper()
	return slices.DeleteFunc(c.refusals(), func(r core.AuditRow) bool { return r.RunID != run })
}

// Who tries again and again has a row a minute, also over several processes, and
// no attempt is lost for the log.
func TestRefused_Bounded(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.clock.stand()
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	first, second := m.client(), m.client()
	run, id := first.ask("", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
	const tries, processes = 100, 3
	try := func(c *client) {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, By: agent, Decision: &api.Decision{Approve: true, Checkpoint: id}})
		code(t, err, core.CodeAwaitingHuman)
	}
	var all sync.WaitGroup
	for _, c := range []*client{first, second} {
		all.Go(func() {
			for range tries {
				try(c)
			}
		})
	}
	all.Wait()
	if rows := first.refusals(); len(rows) != 1 || rows[0].Count != 0 {
		t.Fatalf("%+v", rows)
	}
	second.close() // what it has counted is not lost with it
	third := m.client()
	for range tries {
		try(third)
	}
	m.clock.forward(time.Minute)
	rows := third.refusals()
	if len(rows) != 2 || rows[1].RunID != run || rows[1].ApprovalID != id {
		t.Fatalf("%+v", rows)
	}
	// Attempts of the first process are in its memory yet; they are due a minute
	// after the last row.
	m.clock.forward(time.Minute)
	if rows = first.refusals(); attempts(rows) != processes*tries || len(rows) > 3 {
		t.Errorf("%d rows for %d attempts, want %d: %+v", len(rows), attempts(rows), processes*tries, rows)
	}
	// Somebody else, and another way, are rows of their own.
	if err := first.Refused(first.ctx(), run, core.Actor{}, "requestState"); err != nil {
		t.Fatal(err)
	}
	if got := first.refusals(); len(got) != len(rows)+1 || got[len(rows)].By != me {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(filepath.Join(m.home, "refused-client.json")); err != nil || len(data) > 4096 {
		t.Errorf("%v, %d bytes", err, len(data))
	}
}

// Ids that nobody has cannot make the log longer either.
func TestRefused_ManyIds(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.clock.stand()
	c := m.client()
	for range 50 {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: newID(), By: agent, Decision: &api.Decision{Approve: true}})
		code(t, err, core.CodeNotFound)
	}
	m.clock.forward(time.Hour)
	if rows := c.refusals(); len(rows) != 2 || attempts(rows) != 50 || rows[0].RunID != "" {
		t.Errorf("%d attempts: %+v", attempts(rows), rows)
	}
}

// failing is a store whose audit log cannot be written for a while.
type failing struct {
	store.Store
	full atomic.Bool
	rows func() []core.AuditRow // instead of the store's
}

func (f *failing) Record(ctx context.Context, rows ...core.AuditRow) error {
	if f.full.Load() {
		return core.Errorf(core.CodeStoreFailed, "no space")
	}
	return f.Store.Record(ctx, rows...)
}

func (f *failing) Audit(ctx context.Context, a store.AuditFilter) ([]core.AuditRow, error) {
	if f.rows == nil {
		return f.Store.Audit(ctx, a)
	}
	rows := slices.DeleteFunc(f.rows(), func(r core.AuditRow) bool { return r.Seq <= a.After })
	return rows[:min(len(rows), max(a.Limit, 0)+map[bool]int{true: len(rows)}[a.Limit <= 0])], nil
}

// over is a client of a store over another client's.
func (m *machine) over(s store.Store) *client {
	return newClient(m.t, service.Open(service.Options{
		Home: env.Home{Dir: m.home}, Workspace: env.Workspace{Dir: m.ws, Source: "cwd"}, Environ: func(string) (string, bool) { return "", false }, Store: s,
		Sandbox: sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand()}), Clock: m.clock, NewID: newID,
		Logger: slog.New(slog.DiscardHandler), Version: "test", By: me,
	}), s)
}

// A refusal stands when its row cannot be written; the row comes with the next.
func TestRefused_StoreFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.clock.stand()
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	below := m.client()
	s := &failing{Store: below.store}
	c := m.over(s)
	run, _ := c.ask("", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
	s.full.Store(true)
	for range 3 {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, By: agent, Decision: &api.Decision{}})
		code(t, err, core.CodeAwaitingHuman)
	}
	if err := c.Refused(c.ctx(), run, core.Actor{}, "x"); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("%v", err)
	}
	s.full.Store(false)
	if rows := c.refusals(); len(rows) != 2 || attempts(rows) != 4 {
		t.Errorf("%d attempts: %+v", attempts(rows), rows)
	}
	// A file that makes no sense counts nothing, one that cannot be read is an error.
	m.writeHome("refused-client.json", "{")
	m.clock.forward(time.Hour)
	if err := c.Refused(c.ctx(), run, core.Actor{}, "x"); err != nil {
		t.Error(err)
	}
}

// The whole log is checked, page by page: at its beginning and where pages meet.
func TestVerifyAudit_Pages(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := &failing{Store: m.client().store}
	var whole []core.AuditRow
	var prev core.AuditRow
	for range 2500 {
		row, err := approval.Chain(prev, core.AuditRow{At: m.clock.Now(), Outcome: core.OutcomeRefused, By: me})
		if err != nil {
			t.Fatal(err)
		}
		whole, prev = append(whole, row), row
	}
	c := m.over(s)
	for name, tt := range map[string]struct {
		change func([]core.AuditRow) []core.AuditRow
		bad    int64
	}{
		"Whole":   {func(r []core.AuditRow) []core.AuditRow { return r }, 0},
		"Sides":   {func(r []core.AuditRow) []core.AuditRow { r[7].Side = core.SideServer; return r }, 0},
		"Begins":  {func(r []core.AuditRow) []core.AuditRow { return r[3:] }, 4},
		"Meet":    {func(r []core.AuditRow) []core.AuditRow { return slices.Delete(r, 1000, 1001) }, 1002},
		"Last":    {func(r []core.AuditRow) []core.AuditRow { r[2499].Reason = "other"; return r }, 2500},
		"Counted": {func(r []core.AuditRow) []core.AuditRow { r[5].Count = 2; return r }, 6},
	} {
		s.rows = func() []core.AuditRow { return tt.change(slices.Clone(whole)) }
		report, err := c.VerifyAudit(c.ctx())
		if err != nil || report.OK != (tt.bad == 0) || report.Bad != tt.bad || tt.bad == 0 && report.Rows != 2500 {
			t.Errorf("%s: %v %+v", name, err, report)
		}
	}
}

// An owner's part of a long log has all that is theirs, and the whole chain is
// checked for them.
func TestAudit_OwnersPages(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	alice, bob := p.in(api.Scope{Owner: "alice"}), p.in(api.Scope{Owner: "bob"})
	mine, _ := alice.ask("alice", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
	theirs, _ := bob.ask("bob", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
	var rows []core.AuditRow
	for i := range 2500 {
		row := core.AuditRow{Outcome: core.OutcomeRefused, By: me, RunID: theirs}
		switch {
		case i%1000 == 999:
			row.RunID = mine
		case i%2 == 0:
			row.RunID = ""
		}
		rows = append(rows, row)
	}
	if err := p.store.Record(p.ctx(), rows...); err != nil {
		t.Fatal(err)
	}
	got, err := alice.Audit(alice.ctx(), api.AuditQuery{})
	if err != nil || len(got) != 2 || got[0].Seq != 1000 || got[1].Seq != 2000 || got[0].RunID != mine {
		t.Errorf("%v %+v", err, got)
	}
	if got, err = alice.Audit(alice.ctx(), api.AuditQuery{Since: api.Since{Any: 1000}, Limit: 1}); err != nil || len(got) != 1 || got[0].Seq != 2000 {
		t.Errorf("%v %+v", err, got)
	}
	if got, err = bob.Audit(bob.ctx(), api.AuditQuery{Limit: 3}); err != nil || len(got) != 3 || got[0].RunID != theirs {
		t.Errorf("%v %+v", err, got)
	}
	if report, err := alice.VerifyAudit(alice.ctx()); err != nil || !report.OK || report.Rows != 2 {
		t.Errorf("%v %+v", err, report)
	}
	// A store that does not answer is an error, and no shorter list.
	p.m.noRun.Store(1)
	if _, err := alice.Audit(alice.ctx(), api.AuditQuery{}); core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("%v", err)
	}
}
