package plain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// status says how the state as a whole stands: what was not said of it before.
type status struct {
	say     func(format string, args ...any)
	told    int64              // events that were looked at
	loud    bool               // pml prints every event
	since   time.Time          // what happened before the dialogue began is not told
	failed  map[core.ID]string // the error that was printed last of a run
	links   string             // of the connections
	warned  []string           // of what is missing
	noticed []string           // of the workspace
	halted  string             // who has halted all calls
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

// halts says who has halted all calls, and that they go on, when that changes.
func (s *status) halts(st *state.State) {
	text := ""
	if len(st.Halts) > 0 {
		text = st.Halts[0].Text()
	}
	switch text {
	case s.halted:
	case "":
		s.say("calls go on.")
	default:
		s.say("ALL CALLS ARE %s. pml resume lets them go on.", text)
	}
	s.halted = text
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
		if ok && !e.At.Before(s.since) && (s.loud || state.EndOf(e.Type) != "" || e.Type == core.EventTaskError) {
			s.say("event: %s", s.eventText(st, e))
		}
	}
	s.told = max(st.EventsSeen(), 1)
}

// eventText is an event in one line. An error that was printed for a task is not printed again
// of its run.
func (s *status) eventText(st *state.State, e core.Event) string {
	parts := []string{st.Name(e.RunID), strings.ReplaceAll(string(e.Type), "_", " ")}
	if e.TaskID != "" {
		parts = append(parts, core.Visible(e.TaskID, 80, false))
	}
	if e.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.0f milliseconds", e.DurationMS))
	}
	if own := e.OwnMessage(); own != "" {
		parts = append(parts, core.Visible(own, 200, false))
	}
	if e.Error != nil {
		text := core.Visible(core.ShownAbort(e.Error.Message), 300, false)
		if told := s.failed[e.RunID]; told == "" || !strings.Contains(text, told) {
			parts = append(parts, text)
		}
		if s.failed == nil || len(s.failed) > maxEvents {
			s.failed = map[core.ID]string{}
		}
		s.failed[e.RunID] = text
	}
	return strings.Join(parts, ", ")
}
