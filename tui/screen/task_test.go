package screen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// taskOf is a panel with a task of the fixture's workflow selected, drawn once.
func taskOf(t testing.TB, id string, w, h int) (*taskPanel, *Env, *paint.Canvas) {
	e := &Env{
		Now: fixtureNow, State: state.New(1000), Keys: newKeys(t), Sel: &Selection{Run: runNotes, Task: id},
		Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false),
	}
	e.State.PutWorkflow(edgedWorkflow())
	p, c := newTask(), paint.NewCanvas(w, h, e.Theme)
	p.draw(c.Area(), e, true)
	return p, e, c
}

func (p *taskPanel) shown(e *Env, c *paint.Canvas) string {
	c.Clear()
	p.draw(c.Area(), e, true)
	return c.Plain()
}

// logged is an event of the fixture's run.
func logged(seq int64, task, text string) core.Event {
	return core.Event{Seq: seq, Type: core.EventTaskLog, At: fixtureNow.Add(time.Duration(seq) * time.Second), RunID: runNotes, Side: core.SideClient, TaskID: task, Message: text}
}

func TestTask_Tabs(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "notify", 80, 14)
	e.State.AddEvents(logged(1, "notify", "trying again"), logged(2, "git_log", "not mine"), logged(3, "", "of the code"))
	for _, want := range [][]string{
		{"[Error]", "tool_failed", "rate limited, retry 2 of 5"}, // it has failed
		{"[Raw]", `"id": "notify"`},
		{"[Args]", `"repo": "acme/shop"`, "~ failed_safe", "812 ms", "slack:post", "1-10/12", "error"},
		{"[Result]", `"commits": 84`},
		{"[Log]", "14:02:32.000 trying again", "14:02:34.000 of the code"},
	} {
		got := p.shown(e, c)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in\n%s", part, got)
			}
		}
		if strings.Contains(got, "not mine") {
			t.Error("the log of another task")
		}
		p.do(keys.NextTab, e)
	}
	if p.do(keys.PreviousTab, e); p.tab != tabLog {
		t.Errorf("tab %d", p.tab)
	}
}

// TestTask_OpensError: a task that has failed opens on its error, and the next one on
// the tab that was open before.
func TestTask_OpensError(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 80, 14)
	p.do(keys.NextTab, e)
	for _, step := range []struct {
		task string
		tab  taskTab
	}{{"git_log", tabResult}, {"notify", tabError}, {"git_log", tabResult}} {
		e.Sel.Task = step.task
		if p.shown(e, c); p.tab != step.tab {
			t.Errorf("%s opens on %s", step.task, taskTabNames[p.tab])
		}
	}
}

// TestTask_OpensWhatIsThere: another task opens on the tab that the person chose, or on one in
// which there is something to read of it.
func TestTask_OpensWhatIsThere(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "notify", 80, 14)
	p.shown(e, c)
	p.choose(tabError)
	for _, step := range []struct {
		task string
		tab  taskTab
	}{{"git_log", tabResult}, {"notify", tabError}, {"git_log", tabResult}} {
		e.Sel.Task = step.task
		if p.shown(e, c); p.tab != step.tab {
			t.Errorf("%s opens on %s", step.task, taskTabNames[p.tab])
		}
	}
}

// What a tool returned does nothing to the terminal, and is seen.
func TestTask_ForeignText(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 80, 14)
	w := edgedWorkflow()
	w.Layers[0].Tasks[0].Output = json.RawMessage("\"a\\u001b[2J\u202eb\u009bc\"")
	w.Layers[0].Tasks[0].Tool = "evil\x1b[2J:x\n"
	e.State.PutWorkflow(w)
	e.State.AddEvents(logged(1, "git_log", "one\n14:00:00.000 forged\x1b[2J"))
	p.tab = tabResult
	got := p.shown(e, c)
	for _, part := range []string{`"a\u001b[2J\u{202e}b\u{9b}c"`, `evil\x1b[2J:x\n`} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	p.tab = tabLog
	if got = p.shown(e, c); !strings.Contains(got, `one\n14:00:00.000 forged\x1b[2J`) {
		t.Error(got)
	}
	checkFrame(t, got, 80, 14)
}

// A task that is read again shows what is new and keeps its place.
func TestTask_ReadAgain(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "create_release", 80, 10)
	p.do(keys.NextTab, e)
	if got := p.shown(e, c); !strings.Contains(got, "no result yet") || !strings.Contains(got, "! waiting tool perm 3:06") {
		t.Error(got)
	}
	w := edgedWorkflow()
	w.Layers[1].Tasks[1].Output = json.RawMessage(`{"url":"https://x"}`)
	w.Layers[1].Tasks[1].Arguments, w.Layers[1].Tasks[1].State = nil, core.TaskRunning
	e.State.PutWorkflow(w)
	p.tab = tabArgs
	if got := p.shown(e, c); !strings.Contains(got, "its arguments are shown when it has ended") {
		t.Error(got)
	}
	p.tab = tabResult
	if got := p.shown(e, c); !strings.Contains(got, `"url": "https://x"`) {
		t.Error(got)
	}
	e.Sel.Task = "nothing"
	if got := p.shown(e, c); !strings.Contains(got, "No task is selected") {
		t.Error(got)
	}
	if _, ok := p.do(keys.CopyID, e); ok {
		t.Error("there is nothing to copy")
	}
}

// The log grows, follows, and goes on after the ring of events has lost its
// oldest.
func TestTask_Log(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 60, 8)
	p.do(keys.Follow, e)
	for i := range int64(3000) {
		e.State.AddEvents(logged(i+1, "git_log", fmt.Sprintf("line %d.", i)))
		if i%700 == 0 || i == 2999 {
			if got := p.shown(e, c); !strings.Contains(got, fmt.Sprintf("line %d.", i)) || !strings.Contains(got, "follow") {
				t.Fatalf("line %d is not in view\n%s", i, got)
			}
		}
	}
	if n := p.pages[tabLog].Lines(); n != 3000 {
		t.Errorf("%d lines", n)
	}
	p.do(keys.Times, e)
	if got := p.shown(e, c); strings.Contains(got, "14:") {
		t.Errorf("times\n%s", got)
	}
}

// TestTask_Times: the key is offered in the log only, and says so elsewhere.
func TestTask_Times(t *testing.T) {
	t.Parallel()
	p, e, _ := taskOf(t, "git_log", 80, 14)
	for tab := range taskTabs {
		p.choose(tab)
		if offered := slices.Contains(p.hints(e), keys.Times); offered != (tab == tabLog) {
			t.Errorf("%s: offered %v", taskTabNames[tab], offered)
		}
		list, _ := p.do(keys.Times, e)
		if said := slices.Contains(list, Intent(say{Note, "times are in the tab Log, F goes there"})); said == (tab == tabLog) {
			t.Errorf("%s: %v", taskTabNames[tab], list)
		}
	}
}

// TestTask_AllowedBy: the head says by which rule nobody was asked.
func TestTask_AllowedBy(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 120, 14)
	p.found.AllowedBy = "allow git:*"
	if frame := p.shown(e, c); !strings.Contains(frame, "nobody was asked: allow git:*") {
		t.Error(frame)
	}
	p.found.AllowedBy = "approval 7f3a91c2, within its bounds"
	for _, w := range []int{72, 60} { // as the panel is at 160 columns, and less
		c := paint.NewCanvas(w, 14, e.Theme)
		if frame := p.shown(e, c); !strings.Contains(frame, "permitted by the approval 7f3a91c2, within its bounds ") || !strings.Contains(frame, "git:log") {
			t.Errorf("the reason or the tool is cut at %d\n%s", w, frame)
		}
	}
	if frame := p.shown(e, c); !strings.Contains(frame, "permitted by the approval 7f3a91c2, within its bounds") {
		t.Error(frame)
	}
}

func TestTask_Intents(t *testing.T) {
	t.Parallel()
	p, e, _ := taskOf(t, "git_log", 80, 14)
	p.found.ID = "../../etc/x y"
	e.Sel.Task = p.found.ID
	one := func(act keys.Action) Intent {
		t.Helper()
		list, ok := p.do(act, e)
		if !ok || len(list) != 1 {
			t.Fatalf("%s: %v %v", act, list, ok)
		}
		return list[0]
	}
	if s := one(keys.Save).(Save); s.Name != "task-------etc-x-y.args.json" || !strings.Contains(s.Text, "acme/shop") {
		t.Errorf("%+v", s)
	}
	if v := one(keys.Edit).(View); v.Name != "task-------etc-x-y.args.json" {
		t.Errorf("%+v", v)
	}
	if v := one(keys.CopyID).(Copy); !strings.Contains(v.Text, "acme/shop") {
		t.Errorf("%+v", v)
	}
	if v := one(keys.CopyAll).(Copy); !json.Valid([]byte(v.Text)) {
		t.Errorf("%+v", v)
	}
	if _, ok := one(keys.Abort).(openOverlay); !ok {
		t.Error("an abort asks first")
	}
	ask := one(keys.Filter).(openOverlay).overlay.(*prompt)
	if err := ask.changed("ACME"); err != nil || p.pages[tabArgs].Searching() != "/ ACME   1 of 1" {
		t.Errorf("%v, %s", err, p.pages[tabArgs].Searching())
	}
	if ask.cancelled(); p.pages[tabArgs].Searching() != "" {
		t.Error("esc takes the search back")
	}
}

func TestTask_Click(t *testing.T) {
	t.Parallel()
	p, e, c := taskOf(t, "git_log", 80, 14)
	head, _, _ := strings.Cut(p.shown(e, c), "\n")
	p.click(len([]rune(head[:strings.Index(head, "Error")])), 0, e)
	if p.tab != tabError {
		t.Errorf("tab %d", p.tab)
	}
}

func TestTask_Frames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w, h := rapid.IntRange(4, 120).Draw(rt, "width"), rapid.IntRange(2, 30).Draw(rt, "height")
		p, e, c := taskOf(t, rapid.SampledFrom([]string{"git_log", "notify", "create_release", "x"}).Draw(rt, "task"), w, h)
		acts := []keys.Action{keys.NextTab, keys.Down, keys.Last, keys.Wrap, keys.Follow, keys.Right, keys.HalfUp}
		for range 10 {
			p.do(rapid.SampledFrom(acts).Draw(rt, "act"), e)
			checkFrame(t, p.shown(e, c), w, h)
		}
	})
}

// benchTask is a task with a result of a MiB in one line.
func benchTask(b *testing.B) (*taskPanel, *Env, *paint.Canvas, core.Workflow) {
	p, e, c := taskOf(b, "git_log", 160, 45)
	w := edgedWorkflow()
	var out []map[string]string
	for i := range 10500 {
		out = append(out, map[string]string{"name": fmt.Sprint("value ", i), "text": strings.Repeat("some text ", 8)})
	}
	raw, err := json.Marshal(out)
	if err != nil || len(raw) < 1<<20 {
		b.Fatal(err, len(raw))
	}
	w.Layers[0].Tasks[0].Output = raw
	p.tab = tabResult
	return p, e, c, w
}

func BenchmarkTask_First1MiB(b *testing.B) {
	p, e, c, w := benchTask(b)
	for b.Loop() {
		*p = taskPanel{tab: tabResult}
		e.State.PutWorkflow(w)
		p.draw(c.Area(), e, true)
	}
}

func BenchmarkTask_Scroll1MiB(b *testing.B) {
	p, e, c, w := benchTask(b)
	e.State.PutWorkflow(w)
	p.draw(c.Area(), e, true)
	for b.Loop() {
		p.do(keys.Down, e)
		c.Clear()
		p.draw(c.Area(), e, true)
	}
}

// TestTask_Approve: it opens the card of what the task waits for, and decides
// nothing.
func TestTask_Approve(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	p.s.sel.Run, p.s.sel.Task = runNotes, fixtureTask(p.st)
	p.press("4", "a")
	if c, ok := p.s.overlay[0].(*card); !ok || c.id != apTool {
		t.Fatalf("open is %+v", p.s.overlay)
	}
	p.press("esc")
	p.s.sel.Task = "git_log"
	p.press("a")
	p.sees("this task waits for nobody")
	p.wants()
}

// TestTask_Space: it goes a page on, as in every reader.
func TestTask_Space(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	w := fixtureWorkflow()
	w.Layers[1].Tasks[0].Arguments = raw(make([]int, 100))
	p.st.PutWorkflow(w)
	p.s.sel.Run = runNotes
	p.press("4")
	p.s.sel.Task = w.Layers[1].Tasks[0].ID
	p.frame()
	panel, ok := p.s.panels[PanelTask].(*taskPanel)
	if !ok {
		t.Fatal("no panel of tasks")
	}
	p.press("space")
	var first, last int
	if _, err := fmt.Sscanf(panel.pages[tabArgs].Position(), "%d-%d/", &first, &last); err != nil || first != last-first+1 {
		t.Errorf("rows %d to %d are in view (%v), one row of the page before is to stay", first, last, err)
	}
}

// TestRunResult: a key shows what a run has returned, a text of it with its lines, or says why
// there is nothing; the help finds it.
func TestRunResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  core.RunState
		result string
		err    *core.Error
		want   []string
	}{
		"Text":    {core.RunComplete, `"one\ntwo\u001b[1m"`, nil, []string{"result: release-notes", "┃ one ", `┃ two\x1b[1m`}},
		"Object":  {core.RunComplete, `{"n":3,"report":"one\ntwo"}`, nil, []string{"n       3", "| one", "| two", "as JSON", `"n": 3`}},
		"List":    {core.RunComplete, `[7]`, nil, []string{"┃ [ ", "  7"}},
		"Nothing": {core.RunComplete, "", nil, []string{"the run has returned nothing"}},
		"Waits":   {core.RunWaiting, "", nil, []string{"the run has no result yet"}},
		"Failed":  {core.RunFailed, "", core.Errorf(core.CodeToolFailed, "exit 1"), []string{"error: release-notes", "exit 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, panel := range []string{"1", "3", "4"} {
				st := fixtureState()
				run, _ := st.Run(runNotes)
				run.State, run.Result, run.Error = c.state, json.RawMessage(c.result), c.err
				st.PutRuns(run)
				s := newScreen(t, st, 100, 30)
				s.sel.Run = runNotes
				press(s, panel, "r")
				wantShown(t, s, c.want...)
			}
		})
	}
	s := newScreen(t, fixtureState(), 100, 30)
	press(s, "3", "?", "r", "e", "s", "u", "l", "t")
	wantShown(t, s, "result of the run")
}
