package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/state"
)

// TestCard_InDoubtIsNotPlainlyApproved: the button says that a way must be chosen
// first, and what is copied is no plain yes.
func TestCard_InDoubtIsNotPlainlyApproved(t *testing.T) {
	t.Parallel()
	p := atCard(t, apInDoubt, 80, 24)
	p.sees("[a] Approve: choose r or s first")
	p.sees("Risk HIGH: first say how it goes on, r or s; or deny it")
	p.sees("Deny fails the call")
	p.press("y")
	if c, ok := p.got[0].(Copy); !ok || strings.Contains(c.Text, "--approve") || !strings.Contains(c.Text, "--answer run-again") || !strings.Contains(c.Text, "--answer skip") {
		t.Errorf("copied %#v", p.got)
	}
	p.press("r")
	p.sees("[a] Approve: run again")
	p.press("j")
	p.sees("to approve press a, type 7f38")
	p.press("s", "enter")
	p.sees("[a] Approve: skip")
}

// TestCard_LostIsSaidWhileItIsTrue: a key that could do nothing without the link
// says so until the link is back.
func TestCard_LostIsSaidWhileItIsTrue(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 100, 30)
	p.st.Links.Client.State = state.LinkLost
	p.wait(time.Second)
	p.press("d")
	p.sees("decisions are off")
	p.st.Links.Client.State = state.LinkLive
	p.wait(time.Second)
	if frame := p.frame(); strings.Contains(frame, "decisions are off") {
		t.Errorf("still said:\n%s", frame)
	}
}

// TestCard_News: what a key brought about is seen on a card that covers the line
// for messages, until the next key.
func TestCard_News(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w, h int
		link state.LinkState
	}{"Full": {80, 24, state.LinkLive}, "Lost": {80, 24, state.LinkLost}, "Half": {160, 45, state.LinkLive}, "Small": {50, 12, state.LinkLive}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, c.w, c.h)
			p.st.Links.Client.State = c.link
			p.s.Say(Good, "said before", p.now)
			p.s.overlay.open(cardOf(apTool, p.s.env(p.now)))
			p.wait(decide.Quiet)
			if name != "Half" && strings.Contains(p.frame(), "said before") {
				t.Errorf("an older message is on the card:\n%s", p.frame())
			}
			p.press("y")
			p.s.Say(Good, "copied the command", p.now)
			if n := strings.Count(p.frame(), "copied the command"); n != 1 {
				t.Errorf("seen %d times:\n%s", n, p.frame())
			}
			p.press("j")
			if name != "Half" && strings.Contains(p.frame(), "copied the command") {
				t.Errorf("it stays:\n%s", p.frame())
			}
		})
	}
}

// TestTrail_ReadsTheLog: the trail of a card needs the audit log.
func TestTrail_ReadsTheLog(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("i")
	p.sees("Audit trail")
	p.wants(LoadAudit{})
}

// TestLayerText: layers count from 1, as in pml workflows ls.
func TestLayerText(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]core.Run{
		"":    {},
		"1/3": {TotalLayers: 3},
		"2/3": {TotalLayers: 3, CurrentLayer: 1},
		"3/3": {TotalLayers: 3, CurrentLayer: 3},

		"step 41":  {TotalLayers: 41, CurrentLayer: 41, Kind: core.KindCode, State: core.RunRunning},
		"41 steps": {TotalLayers: 41, CurrentLayer: 41, Kind: core.KindCode, State: core.RunComplete},
	} {
		if got := layerText(r); got != want {
			t.Errorf("layer %d of %d is %s, want %s", r.CurrentLayer, r.TotalLayers, got, want)
		}
	}
	for want, r := range map[string]core.Run{
		"layer 2/3": {TotalLayers: 3, CurrentLayer: 1}, "step 2": {TotalLayers: 3, CurrentLayer: 1, Kind: core.KindCode},
		"3 steps": {TotalLayers: 3, CurrentLayer: 3, Kind: core.KindCode, State: core.RunComplete},
		"iter 4":  {Agent: &core.AgentSpent{Iterations: 4}},
	} {
		if got := layerSaid(r); got != want {
			t.Errorf("a card says %s, want %s", got, want)
		}
	}
	gate := core.Approval{Type: core.ApproveLayer, Subject: "layer:1"}
	if got := aboutText(gate, " "); got != "layer 2" {
		t.Errorf("a gate is %q", got)
	}
	if got := aboutText(core.Approval{Type: core.ApproveTool, Tool: "a:b"}, ": "); got != "tool perm: a:b" {
		t.Errorf("a tool is %q", got)
	}
}

// TestFullName: the id of a run stands there once.
func TestFullName(t *testing.T) {
	t.Parallel()
	const id core.ID = "9323c4cf-0000-4000-8000-000000000001"
	if got := withID(state.Name(core.Run{ID: id, Kind: core.KindDAG}), id); got != "unnamed 9323c4cf" {
		t.Error(got)
	}
	if got := withID(state.Name(core.Run{ID: id, Intent: "tidy"}), id); got != "tidy 9323c4cf" {
		t.Error(got)
	}
}

// TestMayHaveRun: what was under way when its process ended neither runs nor has
// a clock.
func TestMayHaveRun(t *testing.T) {
	t.Parallel()
	w := edgedWorkflow()
	began := ago(90 * time.Second)
	task := &w.Layers[1].Tasks[1]
	task.State, task.StartedAt, task.DurationMS, task.EndedAt = core.TaskWaiting, &began, 0, nil
	task.Error = core.Errorf(core.CodeCancelled, "%s may have run: pml ended before it answered", task.Tool)
	w.State, w.Approvals = core.RunInterrupted, nil
	p, e, c := dagOf(t, w, 110, 22)
	e.Sel.Task = task.ID
	p.draw(c.Area(), e, true)
	if got := c.Plain(); strings.Count(got, "may have run") != 3 || strings.Contains(got, "1m30s") {
		t.Errorf("the DAG:\n%s", got)
	}
	panel, e, c := taskOf(t, task.ID, 80, 14)
	e.State.PutWorkflow(w)
	if got := panel.shown(e, c); !strings.Contains(got, "! may have run") {
		t.Errorf("the task:\n%s", got)
	}
}

// TestCard_SmallIsSaidWhileItIsTrue: a window that has grown is not called too small.
func TestCard_SmallIsSaidWhileItIsTrue(t *testing.T) {
	t.Parallel()
	p := atCard(t, apIntegrity, 40, 10)
	p.press("a")
	p.sees(tooSmall)
	p.s.Resize(80, 24)
	p.wait(time.Second)
	if frame := p.frame(); strings.Contains(frame, tooSmall) {
		t.Errorf("still said:\n%s", frame)
	}
}

// TestPrompt_Began: a prompt says how the text that it began with is got rid of, until it is touched;
// one that proposes a text says that typing replaces it.
func TestPrompt_Began(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "/", `"fai"`, "enter", "/")
	wantShown(t, s, "/ filter: fai", "ctrl+u clears it")
	press(s, `"l"`)
	wantShown(t, s, "/ filter: fail")
	wantHidden(t, s, "ctrl+u clears it")
	press(s, "esc")
	s.overlay.open(newProposal("since:", "1d"))
	wantShown(t, s, "since: 1d", "typing replaces it, end keeps it")
	press(s, `"7"`)
	wantShown(t, s, "since: 7")
	wantHidden(t, s, "typing replaces it")
}
