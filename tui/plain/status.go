package plain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// status says how the state as a whole stands: what was not said of it before.
type status struct {
	say     func(format string, args ...any)
	told    int64    // events that were looked at
	loud    bool     // every event is told
	links   string   // of the connections
	warned  []string // of what is missing
	noticed []string // of the workspace
}

// nothing says that nothing waits, and how sure that is.
func (s *status) nothing(st *state.State) string {
	if len(st.Warnings) > 0 || s.links != "" {
		return "nothing is waiting that could be read, and not all could."
	}
	return "nothing is waiting."
}

// connections says how what is known can be trusted, when that changes.
func (s *status) connections(st *state.State) {
	var parts []string
	for _, side := range []core.Side{core.SideClient, core.SideServer} {
		what, l := "this machine", st.Links.Of(side)
		if side == core.SideServer {
			what = "the server"
		}
		if l.State == state.LinkLost {
			parts = append(parts, what+" does not answer; decisions about its runs are off. "+core.Visible(l.Err, 300, false))
		}
	}
	text := strings.Join(parts, " ")
	switch text {
	case s.links:
	case "":
		s.say("connection: all is live again.")
	default:
		s.say("connection: %s", text)
	}
	s.links = text
}

// warnings says what is missing in what is known, when that changes.
func (s *status) warnings(st *state.State) {
	for _, text := range st.Warnings {
		if !slices.Contains(s.warned, text) {
			s.say("warning: %s", text)
		}
	}
	for _, text := range s.warned {
		if !slices.Contains(st.Warnings, text) {
			s.say("warning over: %s", text)
		}
	}
	s.warned = st.Warnings
	for _, text := range st.Notices {
		if !slices.Contains(s.noticed, text) {
			s.say("notice: %s", text)
		}
	}
	s.noticed = st.Notices
}

// events tells what happened to runs; every step only where that is wanted.
func (s *status) events(st *state.State) {
	for n := max(s.told, st.FirstEvent()); n < st.EventsSeen(); n++ {
		e, ok := st.EventAt(n)
		if s.told > 0 && ok && (s.loud || state.EndOf(e.Type) != "" || e.Type == core.EventTaskError) {
			s.say("event: %s", eventText(st, e))
		}
	}
	s.told = max(st.EventsSeen(), 1)
}

func eventText(st *state.State, e core.Event) string {
	parts := []string{st.Name(e.RunID), strings.ReplaceAll(string(e.Type), "_", " ")}
	if e.TaskID != "" {
		parts = append(parts, core.Visible(e.TaskID, 80, false))
	}
	if e.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.0f milliseconds", e.DurationMS))
	}
	if e.Message != "" {
		parts = append(parts, core.Visible(e.Message, 200, false))
	}
	if e.Error != nil {
		parts = append(parts, core.Visible(e.Error.Message, 300, false))
	}
	return strings.Join(parts, ", ")
}
