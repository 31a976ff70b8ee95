package screen

import (
	"fmt"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// largeState has 10,000 runs, 1,000 approvals and 100,000 events.
func largeState() *state.State {
	st := state.New(100_000)
	st.Loaded = true
	st.Links.Client.State = state.LinkLive
	manyRuns(st, 10_000)
	st.PutWorkflow(fixtureWorkflow())
	like := fixtureApprovals()
	approvals := make([]core.Approval, 1000)
	for i := range approvals {
		a := like[i%len(like)]
		a.ID, a.RunID = core.ID(fmt.Sprintf("c%07x-0000-4000-8000-000000000000", i)), st.Runs()[i*7]
		a.ExpiresAt = in(time.Hour + time.Duration(i)*time.Second)
		approvals[i] = a
	}
	st.PutApprovals(approvals...)
	types := core.EventTypes
	for i := range 100 {
		list := make([]core.Event, 1000)
		for j := range list {
			seq := int64(i*1000 + j + 1)
			list[j] = core.Event{Seq: seq, Side: core.SideClient, Type: types[j%len(types)], RunID: st.Runs()[j], TaskID: "task", Tool: "server:tool", At: ago(time.Duration(100_000-seq) * time.Second), Message: "a message of a usual length, with nothing odd in it"}
		}
		st.AddEvents(list...)
	}
	return st
}

func largeScreen(b *testing.B) *Screen {
	s := New(Options{
		State: largeState(), Keys: newKeys(b), Theme: paint.NewTheme(paint.Dark, paint.TrueColor, false),
		Version: "1.4.0", Workspace: "~/src/shop", Confirm: true,
	})
	s.Resize(160, 45)
	s.View(fixtureNow)
	return s
}

// BenchmarkView draws the dashboard when nothing but the time has changed.
func BenchmarkView(b *testing.B) {
	s := largeScreen(b)
	b.ReportAllocs()
	now := fixtureNow
	for b.Loop() {
		now = now.Add(time.Millisecond)
		_ = s.View(now)
	}
}

// BenchmarkView_Events draws the dashboard after 80 new events, of runs whose
// headers do not change by them.
func BenchmarkView_Events(b *testing.B) {
	s := largeScreen(b)
	st := s.o.State
	seq := st.Links.Client.Seq
	list := make([]core.Event, 80)
	b.ReportAllocs()
	for b.Loop() {
		for i := range list {
			seq++
			list[i] = core.Event{Seq: seq, Side: core.SideClient, Type: core.EventTaskLog, RunID: runNotes, At: fixtureNow, Message: "a line"}
		}
		st.AddEvents(list...)
		s.Changed(fixtureNow)
		_ = s.View(fixtureNow)
	}
}

// BenchmarkView_Zoomed draws each panel in the whole window.
func BenchmarkView_Zoomed(b *testing.B) {
	s := largeScreen(b)
	s.panes.zoomed = true
	for id, name := range panelNames {
		b.Run(name, func(b *testing.B) {
			s.focusOn(PanelID(id))
			s.View(fixtureNow)
			b.ReportAllocs()
			for b.Loop() {
				_ = s.View(fixtureNow)
			}
		})
	}
}

// BenchmarkKeyToFrame moves the cursor, sorts and filters, and draws.
func BenchmarkKeyToFrame(b *testing.B) {
	for _, bench := range []struct {
		name string
		keys []string
	}{
		{"down", []string{"j"}}, {"last", []string{"G", "g"}}, {"sort", []string{"s"}}, {"panel", []string{"tab"}},
		{"filter", []string{"/", "x", "esc"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := largeScreen(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				name := bench.keys[i%len(bench.keys)]
				i++
				s.Key(keys.Key{Name: name, Text: name}, fixtureNow)
				_ = s.View(fixtureNow)
			}
		})
	}
}
