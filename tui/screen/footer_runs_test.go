package screen

import (
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
)

// TestWorkflows_Hints: below the list stand only keys that do something with the run under the
// cursor, or with one of those that are marked.
func TestWorkflows_Hints(t *testing.T) {
	t.Parallel()
	failed := &core.Error{Code: core.CodeScript, Failures: []core.Failure{{Code: core.CodeToolFailed}}}
	for name, c := range map[string]struct {
		run  core.Run
		want []keys.Action
	}{
		"script": {core.Run{Kind: core.KindCode, State: core.RunRunning}, []keys.Action{keys.Abort}},
		"DAG":    {core.Run{Kind: core.KindDAG, State: core.RunRunning}, []keys.Action{keys.Abort, keys.Replan}},
		"done":   {core.Run{Kind: core.KindDAG, State: core.RunComplete}, nil},
		"failed": {core.Run{Kind: core.KindDAG, State: core.RunFailed, Error: failed}, []keys.Action{keys.Again}},
		"threw":  {core.Run{Kind: core.KindCode, State: core.RunFailed, Error: &core.Error{Code: core.CodeScript}}, nil},
		"many":   {core.Run{Kind: core.KindCode, State: core.RunFailed, Error: &core.Error{Code: core.CodeCallLimit}}, nil},
		"limit":  {core.Run{Kind: core.KindCode, State: core.RunFailed, Error: &core.Error{Code: core.CodeTimeout}}, []keys.Action{keys.Again}},
		"faulty": {core.Run{Kind: core.KindDAG, State: core.RunFailed, Error: &core.Error{Code: core.CodeDAGInvalid}}, nil},
		"agent":  {core.Run{Kind: core.KindAgent, State: core.RunFailed, Error: &core.Error{Code: core.CodeInvalidArguments}}, []keys.Action{keys.Again}},
		"copy":   {core.Run{Kind: core.KindDAG, State: core.RunFailed, Error: failed, Imported: &core.Imported{}}, nil},
		"left":   {core.Run{Kind: core.KindCode, State: core.RunInterrupted}, []keys.Action{keys.Abort, keys.Again}},
	} {
		st := emptyState()
		c.run.ID, c.run.Name, c.run.CreatedAt = runFailed, name, fixtureNow
		st.PutRuns(c.run)
		s := newScreen(t, st, 100, 30)
		press(s, "1")
		acts := slices.DeleteFunc(s.panels[PanelWorkflows].hints(s.env(fixtureNow)), func(a keys.Action) bool {
			return a != keys.Abort && a != keys.Again && a != keys.Replan
		})
		if !slices.Equal(acts, c.want) {
			t.Errorf("%s: %v, want %v", name, acts, c.want)
		}
	}
}

// TestFooter_WholeMessage: what says why something did not work is not cut off where two lines
// have room for it.
func TestFooter_WholeMessage(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	s.Say(Bad, "the run 7f395101 was not retried: no call of it can be tried again: it failed in its own code, not in a call; mend it and execute it anew", fixtureNow)
	wantShown(t, s, "the run 7f395101 was not retried: no call of it", "it failed in its own code, not in a call; mend it and execute it anew")
	s.Say(Bad, "short", fixtureNow)
	wantShown(t, s, "short", "? help")
}

// TestFooter_Again: the footer says of a run in the same words as its row what the key does.
func TestFooter_Again(t *testing.T) {
	t.Parallel()
	halt := core.Halt{Side: core.SideClient, At: fixtureNow}
	for name, c := range map[string]struct {
		run    core.Run
		halted bool
		want   [2]string // in the row, in the footer
	}{
		"left":    {core.Run{State: core.RunInterrupted}, false, [2]string{"R goes on", "R goes on"}},
		"failed":  {core.Run{State: core.RunFailed}, false, [2]string{"R retries", "R retries"}},
		"stopped": {core.Run{State: core.RunInterrupted}, true, [2]string{"halted, ! resumes", ""}},
	} {
		st := emptyState()
		c.run.ID, c.run.Name, c.run.CreatedAt, c.run.Side, c.run.Kind = runFailed, name, fixtureNow, core.SideClient, core.KindDAG
		if st.PutRuns(c.run); c.halted {
			st.SetHalts([]core.Halt{halt})
		}
		s := newScreen(t, st, 120, 30)
		for _, panel := range []string{"1", "3"} {
			press(s, panel)
			lines := strings.Split(strings.TrimRight(s.Plain(fixtureNow), "\n"), "\n")
			row := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, string(c.run.State)+" ") && strings.Contains(l, name) })
			if panel == "1" && (row < 0 || !strings.Contains(lines[row], c.want[0])) {
				t.Errorf("%s: row %d:\n%s", name, row, strings.Join(lines, "\n"))
			}
			if foot := lines[len(lines)-1]; !strings.Contains(foot, c.want[1]) || c.want[1] == "" && strings.Contains(foot, "  R ") || strings.Contains(foot, "R retry") {
				t.Errorf("%s, panel %s: %q", name, panel, foot)
			}
			if c.halted {
				wantIntents(t, press(s, "R"))
				wantShown(t, s, "calls are halted: ! lets them go on first")
			}
		}
	}
}
