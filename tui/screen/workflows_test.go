package screen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/state"
)

// selectRun moves the cursor to a run.
func selectRun(t *testing.T, s *Screen, id core.ID) {
	t.Helper()
	press(s, "1", "g")
	for range s.o.State.Runs() {
		if s.sel.Run == id {
			return
		}
		press(s, "j")
	}
	t.Fatalf("%s cannot be selected", id)
}

func TestWorkflows_Abort(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	selectRun(t, s, runWaiting)
	wantIntents(t, press(s, "x", `"too slow"`))
	wantShown(t, s, "━ Abort 1 run? ━", "┃ reason (may stay empty): too slow", "esc: keeps it running")
	wantIntents(t, press(s, "enter"))
	wantShown(t, s, "Abort checkout-sync 7f3a91c2?")
	wantIntents(t, press(s, "enter", "space", "n"))
	wantIntents(t, press(s, "x", `"too slow"`, "enter", "y"), Abort{Run: runWaiting, Reason: "too slow"})
	wantIntents(t, press(s, "x", "esc", "y"), Copy{What: "1 id", Text: string(runWaiting)})

	selectRun(t, s, runFailed)
	wantIntents(t, press(s, "x"))
	wantShown(t, s, "it has ended already")
}

// TestWorkflows_OpenNext: the keys of a decision open what the run waits for, and say so
// where it waits for nothing.
func TestWorkflows_OpenNext(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	selectRun(t, s, runNotes)
	wantIntents(t, press(s, "a"))
	wantShown(t, s, "Approve tool permission?", "gh:create_release")
	press(s, "esc")
	wantIntents(t, press(s, "i"), LoadAudit{})
	press(s, "esc")
	wantIntents(t, press(s, "d"))
	wantShown(t, s, "Approve tool permission?")
	press(s, "esc")
	selectRun(t, s, runFailed)
	press(s, "a")
	wantShown(t, s, "this run waits for no decision")
}

func TestWorkflows_Marks(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	ids := s.o.State.Runs()
	press(s, "space", "j", "j", "v")
	wantShown(t, s, "3 marked")
	wantIntents(t, press(s, "x", "enter", "y"), Abort{Run: ids[0]}, Abort{Run: ids[1]}, Abort{Run: ids[2]})
	if strings.Contains(s.Plain(fixtureNow), "3 marked") {
		t.Error("the marks stay on what was aborted")
	}
	wantIntents(t, press(s, "y"), Copy{What: "1 id", Text: string(ids[2])})
}

// TestWorkflows_AgainMarked: R is about all that is marked, also where one of it has nothing to do again.
func TestWorkflows_AgainMarked(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	r, _ := st.Run(runETL)
	r.State, r.Error = core.RunFailed, core.Errorf(core.CodeScript, "thrown")
	r.Kind = core.KindCode
	st.PutRuns(r)
	s := newScreen(t, st, 80, 24)
	for _, id := range []core.ID{runETL, runFailed, runInterrupted} {
		selectRun(t, s, id)
		press(s, "space")
	}
	wantIntents(t, press(s, "R"), Retry{runFailed}, Continue{runInterrupted})
	if strings.Contains(s.Plain(fixtureNow), " marked") {
		t.Error("the marks stay")
	}
}

// TestWorkflows_ByItself: a script that threw without a call having failed has nothing to retry,
// and nothing on the screen says so.
func TestWorkflows_ByItself(t *testing.T) {
	t.Parallel()
	st := emptyState()
	r := core.Run{ID: runFailed, Name: "mine.ts", Kind: core.KindCode, State: core.RunFailed, CreatedAt: fixtureNow, Error: &core.Error{Code: core.CodeScript, Message: "Error: mine"}}
	st.PutRuns(r)
	s := newScreen(t, st, 100, 30)
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "R retries") {
		t.Error(frame)
	}
	wantIntents(t, press(s, "1", "R"))
	wantShown(t, s, "mine.ts failed in its own code")
	r.Error.Failures = []core.Failure{{Code: core.CodeToolFailed}}
	st.PutRuns(r)
	wantShown(t, s, "R retries")
	wantIntents(t, press(s, "R"), Retry{runFailed})
}

// TestWorkflows_FilterRefused: a filter that is none keeps its line open, so that no key behind it
// goes to what the filter before had left.
func TestWorkflows_FilterRefused(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, press(s, "1", "/", `"status:nonsense"`, "enter", "R"))
	wantShown(t, s, "status:nonsenseR")
	press(s, "esc")
	if strings.Contains(s.Plain(fixtureNow), "nonsense") {
		t.Error("esc leaves it")
	}
}

func TestWorkflows_Again(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	selectRun(t, s, runFailed)
	wantIntents(t, press(s, "R"), Retry{runFailed})
	selectRun(t, s, runInterrupted)
	wantIntents(t, press(s, "R"), Continue{runInterrupted})
	selectRun(t, s, runETL)
	wantIntents(t, press(s, "R"))
	selectRun(t, s, runInterrupted)
	wantIntents(t, press(s, "p"), Replan{runInterrupted})
	s.typed = decide.Guard{} // the editor was there
	selectRun(t, s, runETL)
	wantIntents(t, press(s, "ctrl+y"), Copy{What: "a command", Text: "pml workflows show " + string(runETL)})
	press(s, "enter")
	if s.panes.focus != PanelDAG {
		t.Error("enter does not open the DAG")
	}
	press(s, "esc")
	if s.panes.focus != PanelWorkflows {
		t.Error("esc does not lead back")
	}
}

func TestWorkflows_Filter(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "/", `"status:fai"`)
	wantShown(t, s, "1 of 13 ", "words of its columns and tools", "invoice-ocr")
	press(s, `"x"`)
	wantShown(t, s, "there is no status")
	press(s, "backspace", "enter")
	wantShown(t, s, "1 of 13", "/ filter: status:fai")
	press(s, "/", `" name~nosuch"`, "enter")
	wantShown(t, s, "0 of 13 match status:fai name~nosuch. esc clears the filter.")
	press(s, "esc")
	wantShown(t, s, "checkout-sync")
	press(s, "/", `"failed"`, "esc")
	wantShown(t, s, "checkout-sync")
}

func TestWorkflows_Sort(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	first := func() string {
		for line := range strings.SplitSeq(s.Plain(fixtureNow), "\n") {
			if strings.Contains(line, "STATUS") {
				continue
			}
			for _, r := range s.o.State.Runs() {
				if strings.Contains(line, r.Short()) && strings.HasPrefix(line, "┃") {
					return s.o.State.Name(r)
				}
			}
		}
		return ""
	}
	if got := first(); got != "crawl-competitor" {
		t.Errorf("first by age is %s", got)
	}
	wantShown(t, s, "sort age, newest first")
	press(s, "S", "g")
	wantShown(t, s, "sort age, oldest first")
	if got := first(); got != "old-report.ts" {
		t.Errorf("first by age, oldest first, is %s", got)
	}
	for range state.SortKeys {
		press(s, "s")
	}
	wantShown(t, s, "sort age")
	for !strings.Contains(s.Plain(fixtureNow), "sort name, a to z") {
		press(s, "s")
	}
}

// TestEvents_Times: each press of the key changes how times are shown, at every width.
func TestEvents_Times(t *testing.T) {
	t.Parallel()
	for w, presses := range map[int]int{80: 3, 160: 2} {
		s := newScreen(t, fixtureState(), w, 45)
		press(s, "5", "z")
		before := s.Plain(fixtureNow)
		seen := map[string]bool{before: true}
		for range presses - 1 {
			press(s, "t")
			if frame := s.Plain(fixtureNow); seen[frame] {
				t.Errorf("%d columns: a press changed nothing", w)
			} else {
				seen[frame] = true
			}
		}
		if press(s, "t"); s.Plain(fixtureNow) != before {
			t.Errorf("%d columns: %d presses do not lead back", w, presses)
		}
	}
}

func TestEvents_PauseAndFollow(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	s := newScreen(t, st, 80, 24)
	press(s, "5", "space")
	add := func(seq int64) {
		st.AddEvents(core.Event{Seq: seq, Side: core.SideClient, Type: core.EventTaskLog, RunID: runNotes, At: fixtureNow, Message: "late line"})
		s.Changed(fixtureNow)
	}
	add(18403)
	add(18404)
	wantShown(t, s, "paused at 18 402, 2 new")
	if strings.Contains(s.Plain(fixtureNow), "late line") {
		t.Error("the list grows while it is paused")
	}
	press(s, "space")
	wantShown(t, s, "late line", "following  12 seen")
	press(s, "k")
	add(18405)
	if at, _ := s.panels[PanelEvents].(*eventsPanel).current(s.env(fixtureNow)); at.Seq != 18403 {
		t.Errorf("the cursor is on %d, want 18403", at.Seq)
	}
	press(s, "enter")
	wantShown(t, s, "event 18403", `"seq": 18403`)
	press(s, "esc", "G")
	wantShown(t, s, "following")
}

// TestEvents_Once: an event whose message is that of its error says it once.
func TestEvents_Once(t *testing.T) {
	t.Parallel()
	failed := core.Errorf(core.CodeToolFailed, "task ocr failed: exit 1")
	for message, want := range map[string]string{"": failed.Message, failed.Message: failed.Message, "exit 1": failed.Message, "enough": "enough  " + failed.Message} {
		if got := eventWhat(&core.Event{Type: core.EventWorkflowFailed, Message: message, Error: failed}, ""); got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}

func TestEvents_Narrow(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "5", "z", "T", "T")
	wantShown(t, s, "task_error", "problems")
	if strings.Contains(s.Plain(fixtureNow), "checkpoint") {
		t.Error("a checkpoint is no problem")
	}
	press(s, "esc", "W")
	frame := s.Plain(fixtureNow)
	if !strings.Contains(frame, "only 7f3a91c2") || strings.Contains(frame, "task_error") {
		t.Errorf("not only the events of checkout-sync:\n%s", frame)
	}
	intents := press(s, "o")
	if len(intents) != 1 {
		t.Fatalf("save gives %v", intents)
	}
	saved, ok := intents[0].(Save)
	if !ok || saved.Name != "events-20261122-140231.jsonl" || strings.Count(saved.Text, "\n") != 1 || !strings.Contains(saved.Text, `"seq":18402`) {
		t.Errorf("saved %+v", saved)
	}
}

func TestEvents_Gap(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.AddGap(state.Gap{Side: core.SideServer, At: ago(0), Away: 6e9, Seq: 18371})
	s := newScreen(t, st, 100, 30)
	press(s, "5", "z")
	wantShown(t, s, "server reconnected 14:02:31 after 6s, resumed from seq 18 371")
	st.AddEvents(core.Event{Seq: 18403, Side: core.SideClient, Type: core.EventTaskLog, RunID: runNotes, At: fixtureNow, Message: "behind the gap"})
	frame := s.Plain(fixtureNow)
	if strings.Index(frame, "18402") > strings.Index(frame, "reconnected") || strings.Index(frame, "reconnected") > strings.Index(frame, "behind the gap") {
		t.Errorf("the gap is in the wrong place:\n%s", frame)
	}
}

func TestAudit_Rows(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	press(s, "6", "z", "j", "j")
	wantShown(t, s, "✗ denied", "ci@runner/cli", `not on a Friday\x1b[1m`)
	intents := press(s, "ctrl+y")
	wantIntents(t, intents, Copy{What: "a command", Text: "pml approvals show a2000002-0000-4000-8000-000000000000"})
	press(s, "/", `"rule"`, "enter")
	wantShown(t, s, "1 of 4 rows", "gh:list_*/rule")
	press(s, "esc", "enter")
	wantShown(t, s, `"outcome"`)
}

// TestAudit_Open: enter shows a row field by field, which the keys of a text scroll, and its
// JSON at the end.
func TestAudit_Open(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.SetAudit([]core.AuditRow{{
		Seq: 7, At: ago(time.Minute), RunID: runNotes, Type: core.ApproveTool, Tool: "fs:write_file", Outcome: core.ApprovalApproved, Reason: "it is right\x1b[1m",
		By: core.Actor{Who: "ann", Via: core.ViaTUI}, Asked: core.PresenceTerminal, Digest: "sha256:77", Hash: "abc",
		Arguments: raw(map[string]any{"path": "a.txt", "content": "one\ntwo"}), Sent: raw(map[string]any{"path": "b.txt"}),
	}})
	s := newScreen(t, st, 100, 30)
	press(s, "6", "enter")
	wantShown(t, s, "audit: row 7", "when        2026-11-22 14:01:31", "what        approved  tool perm", "tool        fs:write_file",
		"path     a.txt", "| two", "sent        path  b.txt", `reason      it is right\x1b[1m`, "by          ann via tui", "asked via   terminal",
		"run         release-notes 7f3a77e1", "hash        abc", "1-22/")
	press(s, "G")
	wantShown(t, s, `"hash": "abc"`)
	press(s, "g")
	wantShown(t, s, "when        2026-11-22 14:01:31")
	press(s, "esc")
	wantShown(t, s, "6 Audit", "1/1")
}

// TestAudit_BothHalves: the cursor is on a row, and not on a number that both logs
// have.
func TestAudit_BothHalves(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	row := func(side core.Side, seq int64, minute int, why string) core.AuditRow {
		return core.AuditRow{Side: side, Seq: seq, At: ago(time.Duration(minute) * time.Minute), Outcome: core.OutcomeRefused, Count: 3, By: core.Actor{Who: why, Via: core.ViaMCP}}
	}
	st.SetAudit([]core.AuditRow{row(core.SideClient, 1, 9, "one"), row(core.SideServer, 1, 8, "two"), row(core.SideClient, 2, 7, "three")})
	s := newScreen(t, st, 160, 45)
	press(s, "6", "z", "j")
	wantShown(t, s, "refused ×3", "agent (two)", "2/3")
	press(s, "enter")
	wantShown(t, s, "row server 1", `"side": "server"`)
	st.SetAudit(append(st.Audit(), row(core.SideServer, 2, 6, "four"))) // one more above it
	press(s, "esc")
	wantShown(t, s, "3/4")
	press(s, "j")
	wantShown(t, s, "4/4")
	press(s, "/", `"server"`, "enter")
	wantShown(t, s, "2 of 4 rows")
}

func TestHelp_SearchAndRun(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, press(s, "?", `"read again"`, "enter"), Refresh{})
	wantIntents(t, press(s, "?", `"approve once"`, "enter"))
	wantShown(t, s, "with its own key")
	press(s, "?", `"q"`, "esc")
	wantShown(t, s, "Here: runs")
	press(s, "esc")
	if len(s.overlay) > 0 {
		t.Error("the help is still open")
	}
}

func TestPalette(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	selectRun(t, s, runWaiting)
	wantIntents(t, press(s, ":", `"doctor"`, "enter"), Command{"doctor"})
	wantIntents(t, press(s, ":", `"workflows show "`, "tab", "enter"), Command{"workflows show 7f3a91c2"})
	wantIntents(t, press(s, ":", `"workf"`, "down", "enter"), Command{"workflows show 7f3a91c2"})
	wantIntents(t, press(s, ":", `"pml version"`, "ctrl+y", "esc"), Copy{What: "a command", Text: "pml version"})
	wantIntents(t, press(s, ":", `"servers add"`, "enter"), LoadServers{})
	wantShown(t, s, ": pml servers add", "type a name, -- and its command")
	press(s, "esc")
	wantIntents(t, press(s, ":", `"trust"`, "enter"), Command{"trust"})
	press(s, ":", `"permissions  rm "`, "tab")
	wantShown(t, s, ": pml permissions rm")
	press(s, "esc")
	wantIntents(t, press(s, ":", `"continue 7f3a91c2 --approve"`, "enter"))
	wantShown(t, s, "Run this?", "pml continue 7f3a91c2 --approve")
	wantIntents(t, press(s, "enter", "esc"))
	wantIntents(t, press(s, ":", `"serve"`, "enter"))
	wantShown(t, s, "needs a terminal of its own")
	press(s, "esc")

	s.ShowOutput("audit ls", "line 1\n\x1b[31mline 2", 1, fixtureNow)
	wantShown(t, s, "pml audit ls", "exit code 1", `\x1b[31mline 2`)
	wantIntents(t, press(s, "y"), Copy{What: "the output", Text: "line 1\n\x1b[31mline 2"})
	press(s, "esc")
	s.ShowOutput("retry x", "", 0, fixtureNow)
	wantShown(t, s, "✓ 14:02:31 done: pml retry x")
}

// TestPalette_NoCommand: what begins with no command of pml takes the first offer with
// enter, and a command is left as it was typed.
func TestPalette_NoCommand(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	s.o.Commands = []string{"status"}
	selectRun(t, s, runWaiting)
	wantIntents(t, press(s, ":", `"verify"`, "enter"), Command{"audit verify"})
	wantIntents(t, press(s, ":", `"verify"`, "ctrl+y", "esc"), Copy{What: "a command", Text: "pml audit verify"})
	wantIntents(t, press(s, ":", `"status"`, "enter"), Command{"status"})
	wantIntents(t, press(s, ":", `"nothing like it"`, "enter"), Command{"nothing like it"})
	press(s, ":", `"verify"`)
	wantShown(t, s, "> audit verify")
}

// TestPalette_Applies: it offers what can be done with what is selected.
func TestPalette_Applies(t *testing.T) {
	t.Parallel()
	e := hiddenEnv(t)
	offered := func() string {
		var lines []string
		for _, v := range newPalette(PanelWorkflows, newServers(), e).(*palette).offers(e) {
			lines = append(lines, v.line)
		}
		return strings.Join(lines, "\n")
	}
	a := e.State.Waiting(e.Now)[0]
	e.Sel.Run, e.Sel.Approval = a.RunID, a.ID
	if text := offered(); !strings.Contains(text, "abort ") || !strings.Contains(text, "approvals extend ") || strings.Contains(text, "approvals renew ") || strings.Contains(text, "resume") {
		t.Errorf("of what waits:\n%s", text)
	}
	e.Now = a.ExpiresAt.Add(time.Second)
	r, _ := e.State.Run(a.RunID)
	r.State = core.RunAborted
	e.State.PutRuns(r)
	if text := offered(); strings.Contains(text, "abort ") || strings.Contains(text, "replan ") || !strings.Contains(text, "approvals renew ") || strings.Contains(text, "approvals extend ") {
		t.Errorf("of what is over:\n%s", text)
	}
}

// TestVerbs_NoneDecides keeps enter from deciding: what the palette offers never
// does.
func TestVerbs_NoneDecides(t *testing.T) {
	t.Parallel()
	for _, v := range verbs {
		if strings.Contains(v.line, "--approve") || strings.HasPrefix(v.line, "continue") {
			t.Errorf("%q decides", v.line)
		}
	}
}

// TestHints_HaveKeys finds hints that no key carries out.
func TestHints_HaveKeys(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	for id := range panels {
		for _, act := range s.panels[id].hints(s.env(fixtureNow)) {
			if len(s.o.Keys.Keys(act)) == 0 || keys.Label(act) == "" {
				t.Errorf("%s: %q has no key or no label", panelNames[id], act)
			}
		}
	}
}

// TestWorkflows_Newer: runs that come in above the window are counted, until they were in it.
func TestWorkflows_Newer(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	manyRuns(st, 60)
	s := newScreen(t, st, 80, 24)
	s.Plain(fixtureNow)
	press(s, "G")
	if strings.Contains(s.Plain(fixtureNow), "newer") {
		t.Error("nothing has come yet")
	}
	for i := range 6 {
		st.PutRuns(core.Run{ID: core.ID(fmt.Sprintf("9000000%d-0000-4000-8000-000000000000", i)), Side: core.SideClient, State: core.RunRunning, Intent: "new", CreatedAt: fixtureNow.Add(time.Duration(i-8) * time.Second)})
	}
	s.Changed(fixtureNow)
	wantShown(t, s, "1 Runs  ↑ 6 newer")
	press(s, "g")
	s.Plain(fixtureNow)
	press(s, "G")
	if strings.Contains(s.Plain(fixtureNow), "newer") {
		t.Error("they were in view")
	}
}
