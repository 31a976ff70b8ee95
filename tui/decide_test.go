package tui

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

func TestModel_Decide(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	a := h.approval(time.Minute)
	answer := &core.Answer{Remember: core.RememberRun}
	h.want(screen.Decide{Approvals: []core.Approval{a}, Approve: true, Abort: true, Reason: "ok", Answer: answer, Pin: "123456"})
	want := []api.ContinueRequest{{
		ID: runA, By: core.Actor{Who: "ada", Via: core.ViaTUI},
		Decision: &api.Decision{Approve: true, Checkpoint: askA, ExpectDigest: a.Digest, Reason: "ok", Answer: answer, Pin: "123456", Presence: core.PresenceTerminal},
	}}
	if diff := cmp.Diff(want, h.backend.continued); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]core.ID{runA}, h.feed.touched); diff != "" {
		t.Error(diff)
	}
	h.shows("tool perm std:fetch: approved")
	if got := verbOf(screen.Decide{Approve: true, Answer: &core.Answer{Arguments: []byte(`{"a":1}`)}}); got != "approved with changed arguments" {
		t.Error(got)
	}
	if got := verbOf(screen.Decide{Approve: true, Answer: &core.Answer{Remember: core.RememberSession}}); got != "approved, and the tool for this session" {
		t.Error(got)
	}
	h.want(screen.Decide{Approvals: []core.Approval{a}, Abort: true})
	if d := h.backend.continued[1].Decision; !d.Abort || d.Approve {
		t.Errorf("aborting: %+v", d)
	}
}

func TestModel_DecideRefused(t *testing.T) {
	t.Parallel()
	decided := core.Errorf(core.CodeAlreadyDecided, "it was decided")
	decided.Decided = &core.DecidedBy{Actor: core.Actor{Who: "bob\x1b[2J", Via: core.ViaCLI}, At: began.Add(-time.Second), Reason: "no"}
	tests := []struct {
		name string
		r    api.Result
		err  error
		want string
	}{
		{"Decided", api.Result{}, decided, `too late: denied by bob\x1b[2J/cli 14:02:30: tool perm std:fetch, because: no`},
		{"DecidedTheSame", api.Result{Status: api.StatusRunning, Decided: &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaMCP}, At: began}}, nil,
			"already approved by agent (bob) 14:02:31: tool perm std:fetch"},
		{"DecidedTheSameElsewhere", api.Result{Status: api.StatusRunning, Decided: &core.DecidedBy{Actor: core.Actor{Who: "ada", Via: core.ViaTUI}, At: began.Add(-time.Minute)}}, nil,
			"already approved by ada/tui 14:01:31: tool perm"},
		{"Mine", api.Result{Status: api.StatusRunning, Decided: &core.DecidedBy{Actor: core.Actor{Who: "ada", Via: core.ViaTUI}, At: began}}, nil, "std:fetch: approved"},
		{"Expired", api.Result{}, core.Errorf(core.CodeApprovalExpired, "x"), "tool perm std:fetch had expired; it can be asked again"},
		{"Digest", api.Result{}, core.Errorf(core.CodeDigestMismatch, "x"), "is not what was on screen any more"},
		{"Denied", api.Result{}, core.Errorf(core.CodePermissionDenied, "nobody may").WithNext("pml", "a b"), "tool perm std:fetch: nobody may. Try pml 'a b'"},
		{"NotWaiting", api.Result{}, core.Errorf(core.CodeNotWaiting, "it is over"), "does not wait any more: it is over"},
		{"Failed", api.Result{Status: api.StatusError, Error: "boom\n"}, nil, `std:fetch: approved; it failed: boom\n`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) { return tt.r, tt.err }
			h.want(screen.Decide{Approvals: []core.Approval{h.approval(0)}, Approve: true})
			h.shows(tt.want)
			if len(h.feed.touched) != 1 {
				t.Error("the run was not read again")
			}
		})
	}
}

// TestModel_DecideInstall: who lets a server be installed is told that this takes its time.
func TestModel_DecideInstall(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	a := h.approval(0)
	a.Type, a.Tool, a.Subject = core.ApproveDependency, "memory", "memory"
	h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) { return api.Result{Status: api.StatusRunning}, nil }
	h.want(screen.Decide{Approvals: []core.Approval{a}, Approve: true})
	h.shows("dependency memory: approved; it is being installed")
	h.want(screen.Decide{Approvals: []core.Approval{a}})
	h.hides("it is being installed")
}

// TestModel_TooLate: the words say what the other one decided, as far as that is
// certain.
func TestModel_TooLate(t *testing.T) {
	t.Parallel()
	decided := core.Errorf(core.CodeAlreadyDecided, "it was decided")
	decided.Decided = &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaCLI}, At: began}
	for name, d := range map[string]screen.Decide{
		"approved": {Abort: true},
		"denied":   {Approve: true},
		"decided":  {Approve: true, Answer: &core.Answer{Remember: core.RememberRun}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) { return api.Result{}, decided }
			d.Approvals = []core.Approval{h.approval(0)}
			h.want(d)
			h.shows("too late: " + name + " by bob/cli 14:02:31: tool perm std:fetch")
		})
	}
}

func TestModel_DecideMany(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	a, b := h.approval(0), h.approval(0)
	b.ID, b.RunID = askB, runB
	h.want(screen.Decide{Approvals: []core.Approval{a, b}, Approve: true})
	h.shows("2 approved")
	h.backend.onContinue = func(r api.ContinueRequest) (api.Result, error) {
		if r.ID == runA {
			return api.Result{}, core.Errorf(core.CodeApprovalExpired, "x")
		}
		return api.Result{Status: api.StatusRunning}, nil
	}
	h.want(screen.Decide{Approvals: []core.Approval{a, b}})
	h.shows("1 of 2 denied. tool perm std:fetch had expired")
}

func TestModel_WrongPinIsGivenOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
		return api.Result{}, core.Errorf(core.CodeAuth, "the PIN is wrong")
	}
	h.want(screen.Decide{Approvals: []core.Approval{h.approval(0), h.approval(0), h.approval(0)}, Approve: true, Pin: "1"})
	if n := len(h.backend.continued); n != 1 {
		t.Errorf("a wrong PIN was given %d times", n)
	}
	h.shows("0 of 3 approved. tool perm std:fetch: the PIN is wrong")
	h.want(screen.Decide{Approvals: []core.Approval{h.approval(0)}, Approve: true}) // it was set since the terminal began
	h.shows("needs the PIN that is set here meanwhile: decide again, and type it")
}

func TestModel_Remember(t *testing.T) {
	t.Parallel()
	rule := api.Rule{List: "allow", Pattern: "std:fetch", Change: api.Change{File: ".pml.json", After: []byte("{}"), Digest: "d"}}
	t.Run("OK", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.backend.onContinue = func(r api.ContinueRequest) (api.Result, error) {
			if len(h.backend.written) != 1 {
				t.Error("decided before the rule was written")
			}
			return api.Result{Status: api.StatusRunning}, nil
		}
		h.want(screen.Remember{Approval: h.approval(0), Rule: rule, Pin: "p"})
		d := h.backend.continued[0].Decision
		if !d.Approve || d.Pin != "p" || d.Answer == nil || d.Answer.Remember != core.RememberRule || d.Checkpoint != askA || d.ExpectDigest == "" {
			t.Errorf("%+v", d)
		}
		h.shows("the rule is remembered")
	})
	t.Run("Others", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		list := []core.Approval{h.approval(0), h.approval(0), h.approval(0), h.approval(0), h.approval(0)}
		list[1].ID, list[2].ID, list[3].ID, list[4].ID, list[4].Tool = "a2", "a3", "a4", "a5", "std:other"
		h.learn(func(s *state.State) { s.PutApprovals(list...) })
		h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
			h.backend.approvals = list[3:]
			return api.Result{Status: api.StatusRunning}, nil
		}
		h.want(screen.Remember{Approval: list[0], Rule: rule})
		h.shows("the rule is remembered, 2 more answered; 1 still to be decided: 2")
	})
	t.Run("ThereAlready", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		same := rule
		same.Change.Before = same.Change.After
		h.want(screen.Remember{Approval: h.approval(0), Rule: same})
		if len(h.backend.written) != 0 || len(h.backend.continued) != 1 {
			t.Errorf("%d writes, %d decisions", len(h.backend.written), len(h.backend.continued))
		}
	})
	t.Run("NotWritten", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.backend.onWrite = func(string) (bool, error) { return false, core.Errorf(core.CodeDigestMismatch, "the file has changed") }
		h.want(screen.Remember{Approval: h.approval(0), Rule: rule})
		if len(h.backend.continued) != 0 {
			t.Error("decided without the rule")
		}
		h.shows("nothing was decided, the rule was not written: the file has changed")
	})
	t.Run("NotTrusted", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.backend.onWrite = func(string) (bool, error) { return false, nil }
		h.want(screen.Remember{Approval: h.approval(0), Rule: rule})
		h.shows("the rule counts once the workspace is trusted: pml trust")
	})
	t.Run("TooLate", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) {
			return api.Result{}, core.Errorf(core.CodeApprovalExpired, "x")
		}
		h.want(screen.Remember{Approval: h.approval(0), Rule: rule})
		h.shows("the rule was written, but tool perm std:fetch had expired")
	})
}

func TestModel_Moves(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, i := range []screen.Intent{
		screen.Continue{Run: runA}, screen.Retry{Run: runA}, screen.Abort{Run: runA, Reason: "no more"},
		screen.Extend{ID: askA, By: 5 * time.Minute}, screen.Renew{ID: askA}, screen.AskRule{Approval: h.approval(0)},
	} {
		h.want(i)
	}
	want := []string{"retry 7f3a91c2 ada tui", "abort 7f3a91c2 ada tui no more", "extend a1000001 5m0s", "renew a1000001 ada", "rule a1000001"}
	if diff := cmp.Diff(want, h.backend.calls); diff != "" {
		t.Error(diff)
	}
	if r := h.backend.continued; len(r) != 1 || r[0].Decision != nil || r[0].Wait != 0 || !r[0].Follow || r[0].By.Via != core.ViaTUI {
		t.Errorf("continued: %+v", r)
	}
	if n := len(h.feed.touched); n != 5 {
		t.Errorf("%d runs were read again", n)
	}
	if w := h.m.state.Waiting(h.clock.Now()); len(w) != 2 {
		t.Errorf("what came back is not in the state: %+v", w)
	}
	h.backend.err = core.Errorf(core.CodeStoreBusy, "busy")
	h.want(screen.Retry{Run: runA})
	h.shows("7f3a91c2: busy")
	h.want(screen.Extend{ID: askA})
	h.shows("more time for a1000001: busy")
}

func TestModel_TakesOver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  core.Run
		want int
	}{
		{"DeadRunner", core.Run{ID: runA, Side: core.SideClient, State: core.RunRunning, Epoch: 2}, 1},
		{"LivingRunner", core.Run{ID: runA, Side: core.SideClient, State: core.RunRunning, Epoch: 1}, 0},
		{"Server", core.Run{ID: runA, Side: core.SideServer, State: core.RunRunning, Epoch: 2}, 0},
		{"Done", core.Run{ID: runA, Side: core.SideClient, State: core.RunComplete, Epoch: 2}, 0},
		{"Waits", core.Run{ID: runA, Side: core.SideClient, State: core.RunWaiting, Epoch: 2}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunWaiting)) })
			h.want(screen.Continue{Run: runA})
			h.learn(func(s *state.State) { s.PutRuns(tt.run) })
			if got := h.m.taken.running(h.m.state); len(got) != tt.want {
				t.Errorf("runs here: %v", got)
			}
			if len(h.m.running) != tt.want {
				t.Errorf("the screen was told of %v", h.m.running)
			}
			tt.run.State = core.RunComplete
			h.learn(func(s *state.State) { s.PutRuns(tt.run) })
			if len(h.m.running) != 0 {
				t.Errorf("after its end: %v", h.m.running)
			}
		})
	}
}

func TestModel_QuitWaitsForDecisions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.hold = true
	h.want(screen.Decide{Approvals: []core.Approval{h.approval(0)}, Approve: true})
	h.want(screen.Quit{})
	if len(h.held) != 1 {
		t.Fatalf("%d commands, want the decision alone", len(h.held))
	}
	h.shows("a decision is under way")
	h.release()
	if !h.quit {
		t.Error("did not quit after the decision")
	}
	again := newHarness(t, nil)
	again.hold = true
	again.want(screen.Decide{Approvals: []core.Approval{h.approval(0)}})
	again.want(screen.Quit{})
	again.hold = false
	again.want(screen.Quit{})
	if !again.quit {
		t.Error("who wants to quit twice has to wait")
	}
}

func TestFlights(t *testing.T) {
	t.Parallel()
	f := newFlights()
	for range 2 {
		if !f.begin() {
			t.Fatal("nothing may begin")
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-ctx.Done(); f.end() }()
	f.end()
	f.close(0, stop) // waits for the one that only stops
	if f.begin() {
		t.Error("began after the end")
	}
	empty := newFlights()
	empty.close(time.Hour, func() {})
}

// TestNamed: a layer counts from 1, and its type is said once.
func TestNamed(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]core.Approval{
		"layer 2":             {Type: core.ApproveLayer, Subject: "layer:1"},
		"layer":               {Type: core.ApproveLayer},
		"layer: odd":          {Type: core.ApproveLayer, Subject: "odd"},
		"tool perm: a:b":      {Type: core.ApproveTool, Tool: "a:b", Subject: "tool:a:b"},
		"dependency: layer:1": {Type: core.ApproveDependency, Subject: "layer:1"},
	} {
		if got := named(a, ": "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestModel_PinSetMeanwhile: a PIN that is set, or removed, while the terminal runs counts for the next card that
// is opened.
func TestModel_PinSetMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.learn(func(s *state.State) {
		s.SetLink(core.SideClient, state.Link{State: state.LinkLive})
		s.PutRuns(h.run1(core.RunWaiting))
		s.PutApprovals(h.approval(0))
		s.SetLoaded()
	})
	for _, need := range []bool{true, false} {
		h.backend.needPin = need
		for _, k := range []tea.KeyMsg{letter("2"), {Type: tea.KeyEnter}} {
			h.send(k)
		}
		h.tick(time.Minute)
		h.send(letter("a"))
		if need {
			h.shows("PIN: ")
			h.send(tea.KeyMsg{Type: tea.KeyEscape})
			h.send(tea.KeyMsg{Type: tea.KeyEscape})
		}
	}
	if n := len(h.backend.continued); n != 1 {
		t.Errorf("%d decisions", n)
	}
}
