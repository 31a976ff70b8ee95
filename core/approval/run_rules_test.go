package approval_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

func waiting(change ...func(*core.Run)) core.Run {
	r := core.Run{ID: "bbbbbbbb-2", State: core.RunWaiting, CreatedAt: now, UpdatedAt: now, ExpiresAt: at(time.Hour)}
	for _, f := range change {
		f(&r)
	}
	return r
}

func in(s core.RunState) func(*core.Run) { return func(r *core.Run) { r.State = s } }

func TestRunAt(t *testing.T) {
	t.Parallel()
	for s, expires := range map[core.RunState]bool{
		core.RunWaiting: true, core.RunInterrupted: true, core.RunRunning: approval.MayExpire(core.RunRunning), core.RunComplete: false, core.RunFailed: false,
	} {
		r := waiting(in(s))
		if got := approval.RunAt(r, now.Add(time.Hour-1)); got.State != s || got.EndedAt != nil {
			t.Errorf("%s is %s before its expiry", s, got.State)
		}
		got := approval.RunAt(r, now.Add(time.Hour))
		if expires != (got.State == core.RunExpired) || expires && !got.EndedAt.Equal(*r.ExpiresAt) {
			t.Errorf("%s is %s at its expiry", s, got.State)
		}
		r.ExpiresAt = nil
		if got := approval.RunAt(r, now.Add(1e6*time.Hour)); got.State != s {
			t.Errorf("%s is %s, and never expires", s, got.State)
		}
	}
}

func TestOutlast(t *testing.T) {
	t.Parallel()
	never := func(r *core.Run) { r.ExpiresAt = nil }
	held := func(r *core.Run) { r.ExpiresAt, r.HeldMS = nil, time.Hour.Milliseconds() }
	for name, c := range map[string]struct {
		run         core.Run
		until, want *time.Time
	}{
		"Later":    {waiting(), at(2 * time.Hour), at(2 * time.Hour)},
		"Sooner":   {waiting(), at(time.Minute), at(time.Hour)},
		"ForEver":  {waiting(), nil, nil},
		"Never":    {waiting(never), at(time.Minute), nil},
		"HasEnded": {waiting(in(core.RunComplete)), at(2 * time.Hour), at(time.Hour)},
		"Held":     {waiting(held), at(2 * time.Hour), at(2 * time.Hour)},
		"HeldMore": {waiting(held), at(time.Minute), nil},
	} {
		approval.Outlast(&c.run, c.until, *at(0))
		if diff := cmp.Diff(c.want, c.run.ExpiresAt); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestUndecided(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a    core.Approval
		run  core.Run
		at   time.Duration
		want core.Code
	}{
		"Waits":             {question(), waiting(), 0, ""},
		"RunExpired":        {question(), waiting(), time.Hour, core.CodeWorkflowExpired},
		"RunEnded":          {question(), waiting(in(core.RunComplete)), 0, core.CodeNotWaiting},
		"Decided":           {question(state(core.ApprovalApproved)), waiting(in(core.RunExpired)), 0, ""},
		"Denied":            {question(state(core.ApprovalDenied)), waiting(), time.Hour, ""},
		"SupersededEnded":   {question(state(core.ApprovalSuperseded)), waiting(in(core.RunComplete)), 0, ""},
		"SupersededExpired": {question(state(core.ApprovalSuperseded)), waiting(in(core.RunExpired)), 0, core.CodeWorkflowExpired},
	} {
		if got := core.CodeOf(approval.Undecided(c.a, c.run, now.Add(c.at))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRule(t *testing.T) {
	t.Parallel()
	then := now.Add(-time.Second)
	first := &core.AbortRequest{By: core.Actor{Who: "bob"}, At: now, Reason: "mine"}
	asked := &core.AbortRequest{By: ann, At: then, Reason: "no"}
	no := core.Decision{By: ann, At: then, Reason: "no", Abort: true}
	yes := core.Decision{By: ann, At: then, Approved: true}
	for name, c := range map[string]struct {
		a     core.Approval
		run   core.Run
		d     core.Decision
		want  core.Run
		write bool
	}{
		"Yes":     {question(), waiting(), yes, waiting(func(r *core.Run) { r.UpdatedAt, r.ExpiresAt = then, at(9*time.Hour) }), true},
		"Running": {question(), waiting(in(core.RunRunning)), yes, waiting(in(core.RunRunning), func(r *core.Run) { r.UpdatedAt = then }), true},
		"Abort": {question(), waiting(), no, waiting(func(r *core.Run) {
			r.UpdatedAt, r.ExpiresAt, r.Abort = then, at(9*time.Hour), asked
		}), true},
		"AbortsAlready": {question(), waiting(func(r *core.Run) { r.Abort = first }), no, waiting(func(r *core.Run) {
			r.UpdatedAt, r.ExpiresAt, r.Abort = then, at(9*time.Hour), first
		}), true},
		"Same":         {question(state(core.ApprovalApproved)), waiting(), yes, waiting(), false},
		"SameAndAbort": {question(state(core.ApprovalDenied)), waiting(), no, waiting(func(r *core.Run) { r.UpdatedAt, r.Abort = then, asked }), true},
		"HasEnded":     {question(state(core.ApprovalDenied)), waiting(in(core.RunFailed)), no, waiting(in(core.RunFailed)), false},
	} {
		_, write, err := approval.Rule(core.Guard{}, c.a, &c.run, c.d, at(9*time.Hour), now)
		if diff := cmp.Diff(c.want, c.run); err != nil || write != c.write || diff != "" {
			t.Errorf("%s: %v %v %s", name, write, err, diff)
		}
	}
	run := waiting()
	if _, write, err := approval.Rule(core.Guard{}, question(), &run, yes, nil, now.Add(time.Hour)); core.CodeOf(err) != core.CodeApprovalExpired || write || !cmp.Equal(run, waiting()) {
		t.Errorf("%v %v %+v", write, err, run)
	}
}
