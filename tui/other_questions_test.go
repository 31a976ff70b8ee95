package tui

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// TestModel_Unasked: a no that ends the run takes its other questions with it, and the person
// is told; whichever is read first, the end of the run or that of the questions.
func TestModel_Unasked(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"AfterTheAnswer": false, "BeforeTheAnswer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			list := []core.Approval{h.approval(0), h.approval(0), h.approval(0)}
			list[1].ID, list[2].ID = "a2", "a3"
			h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunWaiting)); s.PutApprovals(list...) })
			h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
				return api.Result{Status: api.StatusRunning}, nil
			}
			h.hold = early
			h.want(screen.Decide{Approvals: list[:1]})
			gone := append([]core.Approval(nil), list...)
			gone[0].State, gone[1].State, gone[2].State = core.ApprovalDenied, core.ApprovalSuperseded, core.ApprovalSuperseded
			h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunFailed)) })
			h.learn(func(s *state.State) { s.PutApprovals(gone...) })
			h.release()
			h.tick(time.Second)
			h.shows("std:fetch: denied; the run failed, so 2 more are not asked")
		})
	}
}

// TestModel_ApprovedByIt: what a yes for the run permits as well was approved by it, also where
// the run is complete before that is read; what else waited was not asked.
func TestModel_ApprovedByIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run   core.RunState
		other string // the tool of the last question
		want  string
	}{
		"GoesOn":   {core.RunRunning, "std:fetch", "std:fetch: approved, and the tool for this run; 2 more approved by it"},
		"Complete": {core.RunComplete, "std:fetch", "std:fetch: approved, and the tool for this run; 2 more approved by it"},
		"Both":     {core.RunComplete, "std:post", "std:fetch: approved, and the tool for this run; 1 more approved by it; the run is complete, so 1 more is not asked"},
		"Failed":   {core.RunFailed, "std:fetch", "std:fetch: approved, and the tool for this run; the run failed, so 2 more are not asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			list := []core.Approval{h.approval(0), h.approval(0), h.approval(0)}
			list[1].ID, list[2].ID, list[2].Tool = "a2", "a3", c.other
			h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunWaiting)); s.PutApprovals(list...) })
			h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
				return api.Result{Status: api.StatusRunning}, nil
			}
			h.want(screen.Decide{Approvals: list[:1], Approve: true, Answer: &core.Answer{Remember: core.RememberRun}})
			gone := append([]core.Approval(nil), list...)
			gone[0].State, gone[1].State, gone[2].State = core.ApprovalApproved, core.ApprovalSuperseded, core.ApprovalSuperseded
			h.learn(func(s *state.State) { s.PutRuns(h.run1(c.run)); s.PutApprovals(gone...) })
			h.tick(time.Second)
			h.shows(c.want)
		})
	}
}

// TestModel_DeniedLater: what a run does after a denial is not told of an earlier yes.
func TestModel_DeniedLater(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	list := []core.Approval{h.approval(0), h.approval(0)}
	list[1].ID, list[1].Tool = "a2", "std:post"
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunWaiting)); s.PutApprovals(list...) })
	h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
		return api.Result{Status: api.StatusRunning}, nil
	}
	h.want(screen.Decide{Approvals: list[:1], Approve: true, Answer: &core.Answer{Remember: core.RememberRun}})
	list[0].State = core.ApprovalApproved
	h.learn(func(s *state.State) { s.PutApprovals(list[0]) })
	h.want(screen.Decide{Approvals: list[1:]})
	h.shows("std:post: denied")
	list[1].State = core.ApprovalSuperseded
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunFailed)); s.PutApprovals(list[1]) })
	h.tick(time.Second)
	h.shows("std:post: denied")
	h.hides("not asked")
}

// TestModel_UnaskedLater: what ends long after the decision has another reason.
func TestModel_UnaskedLater(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	list := []core.Approval{h.approval(0), h.approval(0)}
	list[1].ID = "a2"
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunWaiting)); s.PutApprovals(list...) })
	h.want(screen.Decide{Approvals: list[:1]})
	h.tick(consequenceWithin + time.Second)
	list[1].State = core.ApprovalSuperseded
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunFailed)); s.PutApprovals(list[1]) })
	if len(h.m.others) != 0 {
		t.Error("the decision is still waited on")
	}
}

// TestModel_DenyMarked: a no to several calls of a run, of which the first has ended it, is no
// failure of the others.
func TestModel_DenyMarked(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	list := []core.Approval{h.approval(0), h.approval(0), h.approval(0)}
	list[1].ID, list[2].ID = "a2", "a3"
	h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
		if len(h.backend.continued) > 1 {
			return api.Result{}, core.Errorf(core.CodeNotWaiting, "it is over")
		}
		return api.Result{Status: api.StatusRunning}, nil
	}
	h.want(screen.Decide{Approvals: list})
	h.shows("1 denied; that ended the run, so 2 more are not asked")
	h.backend.continued = nil
	h.want(screen.Decide{Approvals: list, Approve: true})
	h.shows("1 of 3 approved. tool perm std:fetch does not wait any more: it is over")
}

// TestModel_RuleElsewhere: the rule for a call of another workspace is refused when it is asked
// for, with what to do instead.
func TestModel_RuleElsewhere(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *Options) { o.Workspace = "/src/shop" })
	a := h.approval(0)
	a.Workspace = "/src/blog"
	h.learn(func(s *state.State) {
		s.SetLink(core.SideClient, state.Link{State: state.LinkLive})
		s.PutRuns(h.run1(core.RunWaiting))
		s.PutApprovals(a)
	})
	h.typed("2\r")
	h.tick(time.Second)
	h.typed("Aw")
	if len(h.backend.calls) != 0 {
		t.Errorf("the rule was worked out: %q", h.backend.calls)
	}
	h.shows("no rule: it is for /src/blog; there: pml permissions allow std")
}
