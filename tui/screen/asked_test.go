package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// plannedWorkflow is a call that a person is asked about before it is begun.
func plannedWorkflow() core.Workflow {
	w := edgedWorkflow()
	w.State = core.RunWaiting
	w.Layers = []core.Layer{{Tasks: []core.Task{{ID: "n1", Tool: "gh:create_release", State: core.TaskQueued}}}}
	w.Approvals[0].CallIDs, w.Approvals[0].PlannedFor = nil, core.PlannedFor("n1")
	return w
}

// TestDAG_AskedBeforehand: a task that is asked about waits, though nothing was
// journaled of it yet.
func TestDAG_AskedBeforehand(t *testing.T) {
	t.Parallel()
	for _, byCall := range []bool{false, true} {
		w := plannedWorkflow()
		if byCall {
			w.Approvals[0].CallIDs, w.Approvals[0].PlannedFor = []string{"n1"}, ""
		}
		for _, width := range []int{110, 60} { // boxes, and a list
			p, e, c := dagOf(t, w, width, 22)
			got := c.Plain()
			if !strings.Contains(got, "waiting 1") || strings.Contains(got, "○") || strings.Contains(got, "queued") {
				t.Errorf("%d columns:\n%s", width, got)
			}
			if p.model.tasks[0].State != core.TaskQueued {
				t.Error("what was read has changed")
			}
			task := newTask()
			task.draw(c.Area(), e, true)
			if got := c.Plain(); !strings.Contains(got, "! waiting tool perm 3:06") {
				t.Errorf("the task:\n%s", got)
			}
		}
	}
}

// TestDAG_AskedBeforehandKeys: what is asked about a task before the first layer is
// decided from its row, whichever way the approval names it, also for the call that
// analysis expects of a script.
func TestDAG_AskedBeforehandKeys(t *testing.T) {
	t.Parallel()
	for _, predicted := range []bool{false, true} {
		w := plannedWorkflow()
		w.Layers[0].Tasks[0].Predicted = predicted
		if got := layersText(w, paint.NewTheme(paint.Ansi, paint.NoColor, false)); got != "L1 !  " {
			t.Errorf("the line of the run: %q", got)
		}
		for key, says := range map[string]string{"a": "Approve once", "d": "d denies it"} {
			p := newPerson(t, 110, 30)
			p.st.PutWorkflow(w)
			selectRun(t, p.s, w.ID)
			p.press("3")
			p.wait(decide.Quiet)
			if got := p.frame(); strings.Contains(got, "predicted") || !strings.Contains(got, "waiting 1") {
				t.Errorf("\n%s", got)
			}
			p.press(key)
			p.sees(says)
			p.press("esc", "enter")
			p.sees("! waiting tool perm")
			p.press(key)
			p.sees(says)
		}
	}
}

// TestAgain_Expired: a run that waits for nothing but what has expired says so,
// and R asks again from wherever it is selected.
func TestAgain_Expired(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	w := plannedWorkflow()
	p.change("a2000003-0000-4000-8000-000000000000", func(a *core.Approval) { a.State = core.ApprovalSuperseded })
	p.st.PutWorkflow(w)
	selectRun(t, p.s, w.ID)
	p.press("R")
	p.wants()
	p.sees("nothing here has failed, expired or been interrupted")
	p.wait(5 * time.Minute)
	p.sees("expired, R again")
	p.wait(decide.Quiet)
	for _, panel := range []string{"1", "3", "4"} {
		p.press(panel, "R")
		p.wants(Renew{ID: w.Approvals[0].ID})
		p.got = nil
	}
	p.press("3")
	p.sees("expired, R again")
	if lines := strings.Split(strings.TrimRight(p.frame(), "\n"), "\n"); !strings.HasPrefix(strings.TrimSpace(lines[len(lines)-1]), "R ") {
		t.Errorf("the footer lacks it: %s", lines[len(lines)-1])
	}

	again := p.approval(w.Approvals[0].ID)
	again.ID, again.ExpiresAt = "a9000000-0000-4000-8000-000000000000", in(time.Hour)
	p.change(w.Approvals[0].ID, func(a *core.Approval) { a.State, a.RenewedBy = core.ApprovalExpired, again.ID })
	p.st.PutApprovals(again)
	p.wait(time.Second)
	p.wait(decide.Quiet)
	p.press("1", "R")
	p.wants()
	p.sees("tool perm 54:59")
	again.ExpiresAt = in(time.Minute)
	p.st.PutApprovals(again)
	p.wait(time.Second)
	p.wait(time.Minute)
	p.wait(decide.Quiet)
	p.press("R")
	p.wants(Renew{ID: again.ID})
	p.got = nil

	w.State = core.RunAborted
	p.st.PutRuns(w.Run)
	p.press("R")
	p.wants()
}

// TestDAG_InVain: what was recorded as expired is still what the task waits for.
func TestDAG_InVain(t *testing.T) {
	t.Parallel()
	w := plannedWorkflow()
	w.Approvals[0].State, w.Approvals[0].ExpiresAt = core.ApprovalExpired, in(-time.Minute)
	p, e, c := dagOf(t, w, 110, 22)
	if got := c.Plain(); !strings.Contains(got, "expired, R again") || !strings.Contains(got, "waiting 1") {
		t.Errorf("\n%s", got)
	}
	if list, _ := p.do(keys.Approve, e); len(list) != 1 || list[0] != (say{Note, waitsForNobody}) {
		t.Errorf("approve: %#v", list)
	}
}

// TestAgain_LeftAlone: a run that waits and asks nothing, as after a replan where nobody runs it, is
// gone on with.
func TestAgain_LeftAlone(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 160, 45)
	w := plannedWorkflow()
	w.ID, w.Name, w.State, w.UpdatedAt, w.Approvals = "9f3a0000-0000-4000-8000-000000000009", "alone", core.RunWaiting, p.now.Add(-time.Minute), nil
	p.st.PutRuns(w.Run)
	p.st.PutWorkflow(w)
	selectRun(t, p.s, w.ID)
	p.press("R")
	p.wants(Continue{w.ID})
	p.sees("R goes on")
}
