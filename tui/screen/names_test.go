package screen

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/keys"
)

// TestTabs_Names: from 80 columns on every tab has its name, whichever has the focus, and
// stays where it is; the second line ends with the key that goes to what waits.
func TestTabs_Names(t *testing.T) {
	t.Parallel()
	for _, w := range []int{80, 90, 100, 120} {
		s := newScreen(t, fixtureState(), w, 24)
		s.Plain(fixtureNow)
		before := append([]tab{}, s.tabs...)
		for i, name := range tabNames {
			press(s, string(rune('1'+i)))
			frame := s.Plain(fixtureNow)
			lines := strings.Split(frame, "\n")
			checkFrame(t, frame, w, 24)
			if !strings.HasPrefix(strings.TrimSpace(lines[0]), "pml") {
				t.Errorf("%d columns: whose screen is it? %q", w, lines[0])
			}
			for k, each := range tabNames {
				if !strings.Contains(lines[0], string(rune('1'+k))+" "+each) {
					t.Errorf("%d columns, %s: no %s in %q", w, name, each, lines[0])
				}
			}
			if !strings.Contains(lines[0], "["+string(rune('1'+i))+" "+name) {
				t.Errorf("%d columns: %s has no focus in %q", w, name, lines[0])
			}
			if !strings.Contains(lines[1], "2 review") {
				t.Errorf("%d columns: no key in %q", w, lines[1])
			}
			for k := range s.tabs {
				if s.tabs[k] != before[k] {
					t.Errorf("%d columns: with %s the tab %d is at %+v, not %+v", w, name, k+1, s.tabs[k], before[k])
				}
			}
		}
	}
}

// TestMini_Panels: where there is room for one approval alone, the key of a panel says so.
func TestMini_Panels(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 40, 10)
	press(s, "7")
	wantWords(t, s.Plain(fixtureNow), "Servers needs 60x15")
	press(s, "2") // they are decided there
	wantWords(t, s.Plain(fixtureNow), "enter opens it, j the next")
	s = newScreen(t, emptyState(), 40, 10)
	press(s, "2")
	wantWords(t, s.Plain(fixtureNow), "Approve needs 60x15")
}

// TestDAG_Calls: the calls of a script, which only have numbers, are shown by what they
// call, in boxes, in the list and in what comes before and after.
func TestDAG_Calls(t *testing.T) {
	t.Parallel()
	w := core.Workflow{Run: core.Run{ID: "7f3a0000-0000-4000-8000-000000000000", Kind: core.KindCode, State: core.RunRunning}}
	w.Layers = []core.Layer{
		{Tasks: []core.Task{{ID: "c1", Tool: "notes:list_notes", State: core.TaskSuccess}}},
		{Index: 1, Tasks: []core.Task{{ID: "c2", Tool: "mail:send", Arguments: raw(map[string]any{"to": "ada"}), DependsOn: []string{"c1"}, State: core.TaskQueued, Layer: 1}}},
	}
	p, e, c := dagOf(t, w, 100, 24)
	e.Sel.Task = "c2"
	p.draw(c.Area(), e, true)
	wantWords(t, c.Plain(), "○ send ada ", "✓ list_notes ", "after     list_notes", "selected  send ada  mail:send")
	if strings.Contains(c.Plain(), "c1") {
		t.Errorf("a number:\n%s", c.Plain())
	}
	steps(p, e, c, keys.Graph)
	wantWords(t, c.Plain(), "✓ list_notes", "○ send ada ")
}

// TestCalls_OneName: the Task title and the rows of Events call a call of a script what the
// DAG calls it, with its id.
func TestCalls_OneName(t *testing.T) {
	t.Parallel()
	st := emptyState()
	w := core.Workflow{Run: core.Run{ID: "7f3a0000-0000-4000-8000-000000000000", Kind: core.KindCode, State: core.RunRunning, CreatedAt: fixtureNow}}
	for i, tick := range []string{"tick 4", "tick 5"} {
		id := "c" + itoa(i+1)
		w.Layers = append(w.Layers, core.Layer{Index: i, Tasks: []core.Task{{ID: id, Tool: "everything:echo", Layer: i, Arguments: raw(map[string]any{"message": tick}), State: core.TaskSuccess}}})
		st.AddEvents(core.Event{Seq: int64(i + 1), Type: core.EventTaskComplete, At: fixtureNow, RunID: w.ID, TaskID: id, Tool: "everything:echo"})
	}
	st.PutRuns(w.Run)
	st.PutWorkflow(w)
	s := newScreen(t, st, 160, 45)
	selectRun(t, s, w.ID)
	press(s, "5")
	wantShown(t, s, "c1  echo tick 4 (everything)", "c2  echo tick 5 (everything)")
	s.sel.Task = "c2"
	wantShown(t, s, "4 Task  L2 c2 echo tick 5")
}

// TestTask_AskedOfServer: a call that a question about its server holds up waits in the Task
// panel as it does in the DAG.
func TestTask_AskedOfServer(t *testing.T) {
	t.Parallel()
	st := emptyState()
	ask := core.Approval{ID: "a1", RunID: "7f3a0000-0000-4000-8000-000000000000", Type: core.ApproveIntegrity, Tool: "everything", Subject: "everything", State: core.ApprovalOpen, CreatedAt: fixtureNow, ExpiresAt: in(time.Minute)}
	w := core.Workflow{Run: core.Run{ID: ask.RunID, Kind: core.KindCode, State: core.RunWaiting, CreatedAt: fixtureNow}, Approvals: []core.Approval{ask}}
	w.Layers = []core.Layer{{Tasks: []core.Task{{ID: "c1", Tool: "everything:echo", State: core.TaskQueued, Predicted: true}}}}
	st.PutRuns(w.Run)
	st.PutApprovals(ask)
	st.PutWorkflow(w)
	s := newScreen(t, st, 160, 45)
	selectRun(t, s, w.ID)
	s.sel.Task = "c1"
	press(s, "4")
	wantShown(t, s, "! waiting integrity 1:00")
	wantHidden(t, s, "queued, predicted")
}

// TestHints_Copy: the label of the key that copies says what it copies.
func TestHints_Copy(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	for panel, word := range map[string]string{"1": "y copy id", "2": "y copy command", "4": "y copy ", "8": "y copy folder"} {
		press(s, panel)
		wantShown(t, s, word)
		if panel != "1" {
			wantHidden(t, s, "y copy id")
		}
	}
	s.ShowOutput("audit ls", "line", 0, fixtureNow)
	wantShown(t, s, "y copy text")
}

// TestRuns_Folders: where what is listed is of several folders, each row of Runs and Audit
// says of which, as those of Approvals do.
func TestRuns_Folders(t *testing.T) {
	t.Parallel()
	st := emptyState()
	for i, dir := range []string{"/src/day", "/src/fresh"} {
		id := core.ID("7f3a000" + itoa(i) + "-0000-4000-8000-000000000000")
		st.PutRuns(core.Run{ID: id, Kind: core.KindCode, Name: "one.js", State: core.RunComplete, Workspace: dir, CreatedAt: fixtureNow})
		st.SetAudit(append(st.Audit(), core.AuditRow{Seq: int64(i + 1), At: fixtureNow, RunID: id, Workspace: dir, Tool: "fs:read", Type: core.ApproveTool, Outcome: core.ApprovalApproved}))
	}
	s := newScreen(t, st, 80, 24)
	wantShown(t, s, "day: one.js", "fresh: one.js")
	press(s, "6")
	wantShown(t, s, "day: one.js", "fresh: one.", "RUN")
}

// TestMenu_Wide: what a choice does is not cut where there is room beside it.
func TestMenu_Wide(t *testing.T) {
	t.Parallel()
	does := strings.Repeat("word ", 20) + "end"
	s := newScreen(t, fixtureState(), 160, 45)
	s.overlay.open(&menu{title: "New flow", items: []menuItem{{"cache-reads", does}}})
	wantShown(t, s, "word end")
}

// TestTask_Below: where the open text leaves room, what belongs to it is shown below.
func TestTask_Below(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "summarize", 72, 20)
	wantWords(t, p.shown(e, c), "[Args]", " result ")
	p.tab = tabResult
	wantWords(t, p.shown(e, c), "[Result]", " args ")
	p, e, c = taskOf(t, "summarize", 72, 7)
	if got := p.shown(e, c); strings.Contains(got, "all shown") || !strings.Contains(got, "1-3/9") {
		t.Errorf("what is below the edge is not counted:\n%s", got)
	}
	p.do(keys.Last, e)
	if got := p.shown(e, c); !strings.Contains(got, "7-9/9") {
		t.Errorf("the end of the result is not reached:\n%s", got)
	}
	intents, _ := p.do(keys.CopyID, e)
	if got := intents[0].(Copy).Text; strings.Contains(got, "result") {
		t.Errorf("copied more than the arguments: %s", got)
	}
}

// TestTask_Edited: arguments that a person has changed are those that were sent, and then
// those that were proposed.
func TestTask_Edited(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 72, 24)
	w := edgedWorkflow()
	w.Layers[0].Tasks[0].Sent = raw(map[string]any{"repo": "acme/other"})
	e.State.PutWorkflow(w)
	got := p.shown(e, c)
	sent, proposed := strings.Index(got, "acme/other"), strings.Index(got, "acme/shop")
	if sent < 0 || proposed < sent {
		t.Errorf("not what was sent, then what was proposed:\n%s", got)
	}
	wantWords(t, got, " what was sent ", " what was proposed ", " result ")
}

// TestCard_Edited: the card and the trail of an approval with changed arguments say what was
// sent and who changed it.
func TestCard_Edited(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 100, 40)
	p.sees("what will be sent")
	p.change(apTool, func(a *core.Approval) { a.State, a.RenewedBy = core.ApprovalExpired, apHook })
	p.sees("what was asked about")
	p.change(apTool, func(a *core.Approval) { a.RenewedBy = "" })
	p.change(apTool, func(a *core.Approval) {
		a.State, a.Answer = core.ApprovalApproved, &core.Answer{Arguments: raw(map[string]any{"tag_name": "v3.0.0"})}
		a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}, At: p.now}
	})
	p.sees("what was approved, edited by ann via tui")
	p.sees("v3.0.0")
	p.sees("what was proposed, and not sent")
	if what := whatText(p.approval(apTool)); what != "changed: create_release v3.0.0 (gh)" {
		t.Errorf("its row: %s", what)
	}
	p.press("i")
	p.sees(`edited      by ann via tui before the yes; sent: {"tag_name":"v3.0.0"}`)
	p.sees("proposed ")
}

// TestAudit_What: a row says the call with what tells most of it, and what was sent where
// that is something else.
func TestAudit_What(t *testing.T) {
	t.Parallel()
	args := func(path string) []byte { return raw(map[string]any{"path": path}) }
	for _, tt := range []struct {
		row  core.AuditRow
		want string
	}{
		{core.AuditRow{Tool: "fs:write_file", Arguments: args("a.md")}, "write_file a.md"},
		{core.AuditRow{Tool: "fs:write_file", Arguments: args("a.md"), Sent: args("b.md")}, "write_file b.md"},
		{core.AuditRow{Tool: "fs:write_file"}, "fs:write_file"},
		{core.AuditRow{Reason: "trusted what the files grant"}, "trusted what the files grant"},
		{core.AuditRow{Reason: "trusted what the files of the workspace grant", Workspace: "/home/ann/shop"}, "trusted shop: what its files grant"},
	} {
		if got := auditWhat(&tt.row, &Env{State: emptyState()}); got != tt.want {
			t.Errorf("%+v: %q", tt.row, got)
		}
	}
}

// TestAudit_Days: a row that is not of today says its day, at every width.
func TestAudit_Days(t *testing.T) {
	t.Parallel()
	for _, w := range []int{60, 80, 160} {
		st := fixtureState()
		st.SetAudit([]core.AuditRow{{Seq: 1, At: ago(26 * time.Hour), Outcome: core.ApprovalApproved, Reason: "halted"}, {Seq: 2, At: ago(time.Minute), Outcome: core.ApprovalApproved}})
		s := newScreen(t, st, w, 24)
		press(s, "6")
		wantShown(t, s, "21 Nov 12:02", "14:01:31")
	}
}

// TestAuditGrew: what is decided is read as soon as somebody looks at the audit log.
func TestAuditGrew(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	if got := s.AuditGrew(); got != nil {
		t.Errorf("nobody looks at it: %v", got)
	}
	press(s, "6")
	if got := s.AuditGrew(); len(got) != 1 || got[0] != (LoadAudit{}) {
		t.Errorf("%v", got)
	}
}

// TestBulk_Unlike: what several approvals say in the same words is said once; what each
// would send, and its digest, are there for each.
func TestBulk_Unlike(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	list := writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/two.md", "docs/three.md")
	b := newBulk(list, p.s.env(p.now))
	text := b.pager.Text()
	for _, a := range list {
		for _, want := range []string{a.Digest, strings.TrimPrefix(a.Digest, "sha256:")} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	}
	if n := strings.Count(text, list[0].Description); n != 1 {
		t.Errorf("the question is there %d times:\n%s", n, text)
	}
	list[1].Description = "Something else?"
	text = newBulk(list, p.s.env(p.now)).pager.Text()
	if !strings.Contains(text, "Something else?") || strings.Count(text, list[0].Description) != 1 {
		t.Errorf("another question:\n%s", text)
	}
}

// TestRuns_FailedNext: a failed run says which key goes on with it.
func TestRuns_FailedNext(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {100, 30}, {160, 45}} {
		s := newScreen(t, fixtureState(), size[0], size[1])
		for line := range strings.Lines(s.Plain(fixtureNow)) {
			if strings.Contains(line, "failed ") && strings.Contains(line, "invoice-ocr") && !strings.Contains(line, "R retries") {
				t.Errorf("%v: %s", size, line)
			}
		}
	}
}

// TestRuns_InterruptedNext: an interrupted run says which key goes on with it.
func TestRuns_InterruptedNext(t *testing.T) {
	t.Parallel()
	st := emptyState()
	all := fixtureRuns()
	st.PutRuns(all[slices.IndexFunc(all, func(r core.Run) bool { return r.State == core.RunInterrupted })])
	wantShown(t, newScreen(t, st, 80, 24), "R goes on")
}

// TestCard_HeadWhole: at the head of a card nothing is cut in the middle, and a small one says
// how much is to be read in words that fit.
func TestCard_HeadWhole(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{40, 10}, {80, 24}, {100, 30}, {160, 45}} {
		for _, a := range fixtureApprovals() {
			st := emptyState()
			st.PutRuns(fixtureRuns()...)
			st.PutApprovals(a)
			s := newScreen(t, st, size[0], size[1])
			press(s, "2", "enter")
			for line := range strings.Lines(s.Plain(fixtureNow)) {
				if strings.Contains(line, "run ") && strings.Contains(line, "risk ") && strings.Contains(line, "…") || strings.Contains(line, "read on") && strings.Contains(line, "…") {
					t.Errorf("%v %s: %s", size, a.Type, line)
				}
			}
		}
	}
}

// TestRuns_DoingNext: what a run that goes on does now stands beside it: the calls that it
// makes, or the server that is being installed for it.
func TestRuns_DoingNext(t *testing.T) {
	t.Parallel()
	run := fixtureRuns()[slices.IndexFunc(fixtureRuns(), func(r core.Run) bool { return r.State == core.RunRunning })]
	asked := core.Approval{ID: "90000000-0000-0000-0000-000000000001", RunID: run.ID, Type: core.ApproveDependency, Subject: "ocr", State: core.ApprovalApproved, CreatedAt: fixtureNow, DecidedBy: &core.DecidedBy{At: fixtureNow}}
	for want, tasks := range map[string][]core.Task{
		"installs ocr": {{ID: "t1", Tool: "ocr:read", State: core.TaskWaiting}},
		"+1 read_page": {{ID: "t1", Tool: "ocr:read_page", State: core.TaskRunning}, {ID: "t2", Tool: "ocr:write", State: core.TaskRunning}},
		"read_page":    {{ID: "t1", Tool: "ocr:read_page", State: core.TaskRunning}, {ID: "t2", Tool: "ocr:write", State: core.TaskQueued}},
	} {
		st := emptyState()
		st.PutRuns(run)
		st.PutWorkflow(core.Workflow{Run: run, Layers: []core.Layer{{Tasks: tasks}}})
		st.PutApprovals(asked)
		for _, size := range [][2]int{{60, 15}, {80, 24}, {100, 30}, {160, 45}} {
			s := newScreen(t, st, size[0], size[1])
			press(s, "1")
			if frame := s.Plain(fixtureNow); !slices.ContainsFunc(strings.Split(frame, "\n"), func(l string) bool {
				return strings.Contains(l, "running") && strings.Contains(l, want[:min(len(want), 12)])
			}) {
				t.Errorf("%v: no %q:\n%s", size, want, frame)
			}
		}
	}
}

// TestAudit_Told: each row says what it was about and of which run, and a halt is no denial.
func TestAudit_Told(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.PutApprovals(core.Approval{ID: "ask", RunID: runLayer, Type: core.ApproveLayer, Subject: "layer:1", State: core.ApprovalApproved})
	halt := core.Halt{Side: core.SideClient, By: core.Actor{Who: "ada"}, At: ago(time.Minute)}
	st.SetAudit([]core.AuditRow{
		{Seq: 1, At: ago(4 * time.Minute), RunID: runLayer, ApprovalID: "ask", Type: core.ApproveLayer, Outcome: core.ApprovalApproved},
		{Seq: 2, At: ago(3 * time.Minute), RunID: "gone", RunName: "old.ts", ApprovalID: "gone", Type: core.ApproveLayer, Outcome: core.ApprovalApproved},
		approval.AbortRows(core.Run{ID: runLayer}, core.AbortRequest{By: halt.By, At: ago(2 * time.Second), Reason: "wrong input"})[0],
		approval.HaltedRow(halt), approval.ResumedRow(halt, core.Resumption{By: halt.By, At: ago(time.Second)}),
		{At: ago(time.Second), RunID: runLayer, Type: core.ApproveTool, Tool: "fs:x", Outcome: core.ApprovalDenied, Aborted: true, Reason: "mine"},
	})
	s := newScreen(t, st, 80, 24)
	press(s, "6")
	wantShown(t, s, "RUN", "db-migrate-", "approved   layer      layer 2 ", "next layer", "old.ts", "✗ halted", "✓ resumed", "✗ aborted", "aborted the run")
	s = newScreen(t, st, 200, 45)
	press(s, "6", "z")
	wantShown(t, s, "aborted the run: mine")
}

// TestTabs_Waiting: what waits is on its tab in 80 columns, too.
func TestTabs_Waiting(t *testing.T) {
	t.Parallel()
	for _, w := range []int{60, 80, 100} {
		for _, focus := range []string{"1", "2", "9"} {
			s := newScreen(t, fixtureState(), w, 30)
			press(s, focus)
			if top, _, _ := strings.Cut(s.Plain(fixtureNow), "\n"); !strings.Contains(top, "8!") {
				t.Errorf("%d columns: %s", w, top)
			}
		}
	}
}

// TestWhat_LayerTools: a layer is named with all tools of its tasks, each once.
func TestWhat_LayerTools(t *testing.T) {
	t.Parallel()
	ap := core.Approval{Type: core.ApproveLayer, Subject: "layer:1",
		Context: raw(map[string]any{"layer_index": 1, "next": []map[string]any{{"id": "a", "tool": "fs:put"}, {"id": "b", "tool": "fs:write"}, {"id": "c", "tool": "fs:put"}}})}
	if what := whatText(ap); what != "layer 2: 3 tasks, fs:put, fs:write" {
		t.Error(what)
	}
}
