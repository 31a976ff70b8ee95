package cli_test

import (
	"io"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// elsewhere is a run whose approval somebody else decides while it is asked about here.
func elsewhere(state core.ApprovalState, pending ...core.Approval) *fake {
	p := pending[0]
	was := p
	was.State = state
	was.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaTUI}, At: at}
	return &fake{
		pending: pending, faster: map[core.ID]core.Approval{p.ID: was},
		events: []core.Event{
			{Seq: 1, Type: core.EventApprovalResolved, RunID: p.RunID, ApprovalID: "another"},
			{Seq: 2, Type: core.EventApprovalResolved, RunID: p.RunID, ApprovalID: p.ID},
		},
	}
}

// While a question is on the screen somebody else decides it: the question is over at
// once, without a key, pml says who it was, and the run goes on by what they decided.
func TestFaster(t *testing.T) {
	t.Parallel()
	const note = "the approval 52e3f18c was already approved by bob (via tui) at "
	for _, tt := range []struct {
		name  string
		state core.ApprovalState
		args  []string
		code  int
		says  string
	}{
		{"Approve", core.ApprovalApproved, []string{"approve", "7f3a91"}, 0, note},
		{"Continue", core.ApprovalApproved, []string{"continue", "7f3a91", "--approve"}, 0, note},
		{"Otherwise", core.ApprovalDenied, []string{"approve", "7f3a91"}, 12, "was already denied by bob (via tui)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			silent, end := io.Pipe()
			defer end.Close()
			s := (&shell{tty: true, input: silent, fake: elsewhere(tt.state, permission(core.RiskMedium))}).run(tt.args...).want(t, tt.code)
			s.has(t, "err", "[l]ater: \n", tt.says)
			if got := s.decisions(); len(got) != 0 {
				t.Errorf("decided here as well: %+v", got)
			}
			if went := len(s.fake.went); went != 1 && tt.code == 0 || went != 0 && tt.code != 0 {
				t.Errorf("went on %d times", went)
			}
		})
	}
}

// The question of a run that this command has started goes the same way.
func TestFaster_Execute(t *testing.T) {
	t.Parallel()
	silent, end := io.Pipe()
	defer end.Close()
	p := permission(core.RiskMedium)
	f := elsewhere(core.ApprovalApproved, p)
	f.results = []api.Result{
		waiting(p),
		{Status: api.StatusComplete, WorkflowID: runA},
	}
	s := (&shell{tty: true, input: silent, fake: f}).run("execute", "--code", "return 1").want(t, 0)
	s.has(t, "err", "note: the approval 52e3f18c was already approved by bob")
}

// One that has expired here is asked again elsewhere, and approved there: that ends the question, too.
func TestFaster_AskedAgain(t *testing.T) {
	t.Parallel()
	silent, end := io.Pipe()
	defer end.Close()
	p := permission(core.RiskMedium)
	f := elsewhere(core.ApprovalApproved, p)
	old, again := p, f.faster[p.ID]
	again.ID = appB
	old.State, old.RenewedBy = core.ApprovalExpired, again.ID
	f.faster = map[core.ID]core.Approval{old.ID: old, again.ID: again}
	f.events = []core.Event{{Seq: 1, Type: core.EventApprovalResolved, RunID: p.RunID, ApprovalID: again.ID}}
	f.results = []api.Result{waiting(p), {Status: api.StatusComplete, WorkflowID: runA}}
	s := (&shell{tty: true, input: silent, fake: f}).run("execute", "--code", "return 1").want(t, 0)
	s.has(t, "err", "note: the approval "+again.ID.Short()+" was already approved by bob")
}

// Nobody waits for an answer any more, since the run was replanned: that ends the question, and the run goes on.
func TestFaster_NotNeeded(t *testing.T) {
	t.Parallel()
	silent, end := io.Pipe()
	defer end.Close()
	p := permission(core.RiskMedium)
	f := elsewhere(core.ApprovalSuperseded, p)
	was := f.faster[p.ID]
	was.DecidedBy = nil
	f.faster[p.ID] = was
	f.results = []api.Result{waiting(p), {Status: api.StatusComplete, WorkflowID: runA}}
	s := (&shell{tty: true, input: silent, fake: f}).run("execute", "--code", "return 1").want(t, 0)
	s.has(t, "err", "note: the approval 52e3f18c is not needed any more")
}

// After a question that somebody else has ended, the next one is read as always: what
// was typed for the first is no answer to it.
func TestFaster_Next(t *testing.T) {
	t.Parallel()
	first, second := permission(core.RiskMedium), permission(core.RiskMedium)
	first.ID = appA
	typed, keyboard := io.Pipe()
	s := &shell{tty: true, input: typed, fake: elsewhere(core.ApprovalApproved, first, second)}
	asked := 0
	s.dropTyped = func() {
		if asked++; asked == 2 {
			go func() { // what comes before the question is on the screen is dropped
				for {
					if _, err := io.WriteString(keyboard, "y\n"); err != nil {
						return
					}
				}
			}()
		}
	}
	defer typed.Close()
	s.run("continue", "7f3a91", "--approve").want(t, 0)
	if got := s.decisions(); len(got) != 1 || got[0].Checkpoint != second.ID {
		t.Errorf("decided %+v\n%s", got, s.err)
	}
}

// A no that somebody else was faster than, while its reason was asked for, is said not to count:
// the command fails, though the run may go well.
func TestFaster_TooLate(t *testing.T) {
	t.Parallel()
	typed, keyboard := io.Pipe()
	defer typed.Close()
	f := elsewhere(core.ApprovalApproved, permission(core.RiskMedium))
	f.release = make(chan struct{})
	s := &shell{tty: true, input: typed, fake: f}
	asked := 0
	s.dropTyped = func() {
		switch asked++; asked {
		case 1:
			go func() { _, _ = io.WriteString(keyboard, "n\n") }()
		case 2: // the reason
			close(f.release)
		}
	}
	s.run("approve", "7f3a91").want(t, 12).has(t, "err", "already approved by bob", "your no came too late")
	if got := s.decisions(); len(got) != 0 {
		t.Errorf("decided here as well: %+v", got)
	}
}

// TestFaster_Inbox: without an id an answer that came too late is as much a failure, after all
// else was asked.
func TestFaster_Inbox(t *testing.T) {
	t.Parallel()
	f := &fake{pending: []core.Approval{permission(core.RiskMedium)}, errs: []error{core.Errorf(core.CodeAlreadyDecided, "bea was faster")}}
	s := &shell{tty: true, stdin: "y\n", fake: f}
	s.dropTyped = func() { // right before the answer
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pending = nil
	}
	s.run("approve").want(t, 12).has(t, "err", "bea was faster")
}

// What was approved before is said once: nothing was approved now.
func TestFaster_ApprovedBefore(t *testing.T) {
	t.Parallel()
	p := permission(core.RiskMedium)
	p.State, p.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaTUI}, At: at}
	f := &fake{pending: []core.Approval{p}, workflow: core.Workflow{Run: core.Run{ID: runA}}}
	s := (&shell{tty: true, fake: f}).run("approve", "52e3").want(t, 0).has(t, "err", "note: the approval 52e3f18c was already approved by bob")
	if strings.Count(s.err, "approved") != 1 {
		t.Error(s.err)
	}
}

// TestRenewed: a yes to what had expired counts for the question that asks the same again, and both pml approve
// and the prompt of a run name it: the audit log has that id.
func TestRenewed(t *testing.T) {
	t.Parallel()
	p := permission(core.RiskMedium)
	done := api.Result{Status: api.StatusComplete, WorkflowID: p.RunID}
	f := &fake{pending: []core.Approval{p}, renewed: "0a0a0a0a-0000-4000-8000-000000000000", results: []api.Result{done}}
	(&shell{tty: true, stdin: "y\n", fake: f}).run("approve", "52e3f18c").want(t, 0).has(t, "err", "(0a0a0a0a, as which 52e3f18c was asked again: it had expired)")
	f = &fake{pending: []core.Approval{p}, settles: true, renewed: f.renewed, results: []api.Result{waiting(p), done}}
	(&shell{tty: true, stdin: "y\n", fake: f}).run("run", "--code", "x").want(t, 0).has(t, "err", "note: 52e3f18c had expired; it was asked again as 0a0a0a0a")
}
