package screen

import (
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestHosts_RunsSelected: enter on a host shows its runs with the cursor on the first of them,
// whatever run was selected before.
func TestHosts_RunsSelected(t *testing.T) {
	t.Parallel()
	st := emptyState()
	st.PutRuns(
		core.Run{ID: runFailed, Name: "mine", Workspace: "/w", CreatedAt: ago(0), RequestedBy: core.Actor{Who: "ana", Via: core.ViaCLI}},
		core.Run{ID: runNotes, Name: "other", Workspace: "/w", CreatedAt: ago(3), RequestedBy: core.Actor{Who: "ana", Via: core.ViaCLI}},
		core.Run{ID: runWaiting, Name: "agents", Workspace: "/w", CreatedAt: ago(2), RequestedBy: core.Actor{Who: "ana", Via: core.ViaMCP, Client: core.Client{Name: "cursor"}}},
	)
	s := newScreen(t, st, 100, 30)
	selectRun(t, s, runNotes)
	press(s, "8", "enter")
	wantShown(t, s, "1 of 3", "1/1")
	if s.sel.Run != runWaiting {
		t.Errorf("the cursor is on %s", s.sel.Run)
	}
	p := newPalette(PanelWorkflows, newServers(), s.env(fixtureNow)).(*palette)
	if p.run != runWaiting || !slices.Equal(s.panels[PanelWorkflows].(*workflowsPanel).ids(s.env(fixtureNow)), []core.ID{runWaiting}) {
		t.Errorf("the palette is about %s", p.run)
	}
}

// TestHosts_NoneToOpen: without an agent the footer offers nothing that is done with one.
func TestHosts_NoneToOpen(t *testing.T) {
	t.Parallel()
	s := newScreen(t, emptyState(), 100, 30)
	press(s, "8")
	wantShown(t, s, "None is connected", "enter runs pml init", "enter pml init  : command")
	wantIntents(t, press(s, "enter"), Shell{Args: []string{"init"}})
	if got := s.Plain(fixtureNow); strings.Contains(got, "enter open") {
		t.Errorf("\n%s", got)
	}
}
