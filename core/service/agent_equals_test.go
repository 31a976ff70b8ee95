package service_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// TestAgent_ProviderOnce: agents that start together ask each whether they may send what they
// work on to their provider; one answer is for all that wait: a yes in the workspace, a no in
// the tree. Of each the audit log has a row.
func TestAgent_ProviderOnce(t *testing.T) {
	t.Parallel()
	const both = `const r = await Promise.allSettled(["a", "b", "c"].map(goal => mcp.agent.delegate({goal}))); return r.map(x => x.status).join()`
	for _, yes := range []bool{true, false} {
		m := newMachine(t)
		m.writeHome("config.json", `{"models": {"home": {"protocol": "openai", "model": "m", "base_url": "https://models.example.org/v1"}}}`)
		model := &scripted{base: "https://models.example.org/v1"}
		m.models = model
		var st *meddling
		c := m.clientOn(func(s store.Store) store.Store { st = newMeddling(s); return st })
		other, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "alone"}, By: me, Wait: -1})
		if err != nil || len(other.Pending) != 1 {
			t.Fatalf("%v %+v", err, other)
		}
		r := c.execute(both, api.StatusApprovalRequired)
		c.awaitOpen(4)
		st.awaitLooks(c.ctx(), t, 4)
		shown, err := c.Approvals(c.ctx(), false)
		if err != nil || len(approval.Alike(shown)) != 4 {
			t.Fatalf("%v: they have %d rows", err, len(shown))
		}
		got, err := c.decide(r.WorkflowID, api.Decision{Approve: yes})
		if err != nil || got.Status != api.StatusSuccess && got.Status != api.StatusComplete {
			t.Fatalf("%v: %v %+v", yes, err, got)
		}
		want, left := `"fulfilled,fulfilled,fulfilled"`, 0
		if !yes {
			want, left = `"rejected,rejected,rejected"`, 1
		}
		if string(got.Result) != want {
			t.Errorf("%v: %s, want %s", yes, got.Result, want)
		}
		c.awaitOpen(left)
		rows, err := c.Audit(c.ctx(), api.AuditQuery{})
		if err != nil || len(rows) != 4-left {
			t.Errorf("%v: %v %d rows in the audit log", yes, err, len(rows))
		}
		for _, ap := range shown { // who decides all that are shown gets no error for those that are answered already
			req := api.ContinueRequest{ID: ap.RunID, Decision: &api.Decision{Approve: yes, Checkpoint: ap.ID, ExpectDigest: ap.Digest}, By: me, Wait: -1}
			if _, err := c.Continue(c.ctx(), req); err != nil {
				t.Errorf("%v, again: %v", yes, err)
			}
		}
	}
}

// meddling is a store in which something happens before what a test waits for.
type meddling struct {
	store.Store
	looks     chan struct{}                    // gets one for each look whether somebody has said yes to a provider; nil: none
	commit    func(store.Step)                 // before a step is kept; nil: nothing
	approvals func(store.ApprovalFilter) error // in place of a list
	decide    func(core.Decision) error        // in place of a decision
}

func (m *meddling) Commit(ctx context.Context, step store.Step) error {
	if m.commit != nil {
		m.commit(step)
	}
	return m.Store.Commit(ctx, step)
}

func newMeddling(s store.Store) *meddling {
	return &meddling{Store: s, looks: make(chan struct{}, 100)}
}

func (m *meddling) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if m.approvals != nil {
		if err := m.approvals(f); err != nil {
			return nil, err
		}
	}
	list, err := m.Store.Approvals(ctx, f)
	if m.looks != nil && f.Digest != "" && slices.Equal(f.States, []core.ApprovalState{core.ApprovalApproved}) {
		m.looks <- struct{}{}
	}
	return list, err
}

// awaitLooks waits until the runs behind so many questions about a provider have looked for an
// answer both times: before they ask and, since one may come meanwhile, behind it. One that
// looks behind a decision takes its question back, and that is another test.
func (m *meddling) awaitLooks(ctx context.Context, t *testing.T, questions int) {
	t.Helper()
	for i := range 2 * questions {
		select {
		case <-m.looks:
		case <-ctx.Done():
			t.Fatalf("%d looks for an answer, want two for each of %d questions", i, questions)
		}
	}
}

func (m *meddling) Decide(ctx context.Context, d core.Decision, r store.Renewal) (core.Approval, error) {
	if m.decide != nil {
		if err := m.decide(d); err != nil {
			return core.Approval{}, err
		}
	}
	return m.Store.Decide(ctx, d, r)
}

// asksProvider reports whether a step opens a question about a provider.
func asksProvider(s store.Step) bool {
	return slices.ContainsFunc(s.Open, func(a core.Approval) bool { return core.IsProvider(a.Tool) })
}

// TestAgent_ProviderMeanwhile: a yes to a provider that is given at the very moment when
// another agent asks, after it has looked and before its question is seen, is for that one as
// well: nobody is asked again.
func TestAgent_ProviderMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{base: "https://models.example.org/v1"}
	first := m.client()
	agent := api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "count"}, By: me, Wait: -1}
	asked, err := first.Execute(first.ctx(), agent)
	if err != nil || len(asked.Pending) != 1 {
		t.Fatalf("%v %+v", err, asked)
	}
	var once atomic.Bool
	second := m.clientOn(func(s store.Store) store.Store {
		return &meddling{Store: s, commit: func(step store.Step) {
			if asksProvider(step) && !once.Swap(true) {
				if got, err := first.decide(asked.WorkflowID, api.Decision{Approve: true}); err != nil || got.Status != api.StatusComplete {
					t.Errorf("%v %+v", err, got)
				}
			}
		}}
	})
	r, err := second.Execute(second.ctx(), agent)
	if err != nil {
		t.Fatal(err)
	}
	second.awaitOpen(0)
	if r, err = second.Continue(second.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1}); err != nil || !agentIn(t, r).Success {
		t.Errorf("%v %+v", err, r)
	}
	rows, err := second.Audit(second.ctx(), api.AuditQuery{})
	if err != nil || len(rows) != 2 || rows[0].Outcome != core.ApprovalApproved || rows[1].Outcome != core.ApprovalSuperseded {
		t.Errorf("%v: want one yes, and a question that was taken back: %+v", err, rows)
	}
}

// TestAgent_ProviderRuleMeanwhile: a yes that is to become a rule becomes one, also where it is
// given at the very moment when the agent looks whether it has to ask.
func TestAgent_ProviderRuleMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{base: "https://models.example.org/v1"}
	var looks atomic.Int32
	c := m.clientOn(func(s store.Store) store.Store {
		return &meddling{Store: s, approvals: func(f store.ApprovalFilter) error {
			if f.Digest == "" || !slices.Contains(f.States, core.ApprovalApproved) || looks.Add(1) != 2 {
				return nil
			}
			open, err := s.Approvals(t.Context(), store.ApprovalFilter{Digest: f.Digest, States: []core.ApprovalState{core.ApprovalOpen}})
			if err != nil || len(open) != 1 {
				t.Errorf("%v: %d questions are open", err, len(open))
				return err
			}
			_, err = s.Decide(t.Context(), core.Decision{ApprovalID: open[0].ID, Approved: true, By: me, At: m.clock.Now(), Answer: &core.Answer{Remember: core.RememberRule}}, store.Renewal{})
			return err
		}}
	})
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "count"}, By: me, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	c.awaitOpen(0)
	if r, err = c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1}); err != nil || !agentIn(t, r).Success {
		t.Errorf("%v %+v", err, r)
	}
	c.close() // what it carries out is done
	if text, err := os.ReadFile(filepath.Join(m.ws, ".pml.json")); err != nil || !strings.Contains(string(text), "pml:model/models.example.org") {
		t.Errorf("no rule: %v %s", err, text)
	}
}

// TestAgent_ProviderOnceFails: where the answer about a provider cannot be carried to the
// others that ask the same, it counts for the one that it was given to; the others stay
// open, and are decided by themselves.
func TestAgent_ProviderOnceFails(t *testing.T) {
	t.Parallel()
	const both = `const r = await Promise.allSettled(["a", "b"].map(goal => mcp.agent.delegate({goal}))); return r.map(x => x.status).join()`
	for name, fail := range map[string]func(m *meddling, fails *atomic.Bool){
		"List": func(m *meddling, fails *atomic.Bool) {
			m.approvals = func(f store.ApprovalFilter) error {
				if fails.Load() && f.Digest != "" && slices.Contains(f.States, core.ApprovalOpen) {
					return core.Errorf(core.CodeStoreFailed, "no list")
				}
				return nil
			}
		},
		"Decide": func(m *meddling, fails *atomic.Bool) {
			decided := 0
			m.decide = func(core.Decision) error {
				if decided++; fails.Load() && decided == 2 {
					return core.Errorf(core.CodeStoreFailed, "no decision")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.writeHome("config.json", `{"models": {"home": {"protocol": "openai", "model": "m", "base_url": "https://models.example.org/v1"}}}`)
			model := &scripted{base: "https://models.example.org/v1"}
			m.models = model
			var fails atomic.Bool
			fails.Store(true)
			var st *meddling
			c := m.clientOn(func(s store.Store) store.Store {
				st = newMeddling(s)
				fail(st, &fails)
				return st
			})
			r := c.execute(both, api.StatusApprovalRequired)
			c.awaitOpen(2)
			st.awaitLooks(c.ctx(), t, 2)
			got, err := c.decide(r.WorkflowID, api.Decision{Approve: true})
			if err != nil || got.Status != api.StatusApprovalRequired || len(got.Pending) != 1 {
				t.Fatalf("%v %+v", err, got)
			}
			c.awaitOpen(1)
			fails.Store(false)
			got, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
			if err != nil || string(got.Result) != `"fulfilled,fulfilled"` || model.requests() != 2 {
				t.Errorf("%v %+v, %d requests", err, got, model.requests())
			}
		})
	}
}

// awaitOpen waits until as many questions are open.
func (c *client) awaitOpen(want int) {
	c.t.Helper()
	ctx := c.ctx()
	changes, err := c.store.Watch(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		list, err := c.Approvals(ctx, false)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(list) == want {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			c.t.Fatalf("%d questions are open, want %d", len(list), want)
		}
	}
}
