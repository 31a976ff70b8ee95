package tui

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// large is a model with 10,000 runs, 1,000 approvals and 100,000 events, at
// 160x45.
func large(b *testing.B) (*model, *fakeClock) {
	b.Helper()
	bindings, err := keys.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	clock := &fakeClock{now: began}
	m := newModel(Options{
		Backend: &fakeBackend{}, Clock: clock, User: "ada", Keys: bindings, Environ: vars("TERM=xterm-ghostty"), Profile: paint.Ansi16, Palette: paint.Ansi,
	}, state.New(maxEvents), &fakeFeed{})
	m.after = func(time.Duration, tea.Msg) tea.Cmd { return nil }
	m.Update(tea.WindowSizeMsg{Width: 160, Height: 45})
	m.Update(changeMsg{func(s *state.State) {
		for i := range 10_000 {
			s.PutRuns(core.Run{ID: runID(i), Side: core.SideClient, State: core.RunStates[i%len(core.RunStates)], Intent: fmt.Sprintf("run %d", i), CreatedAt: began.Add(-time.Duration(i) * time.Second)})
		}
		for i := range 1_000 {
			until := began.Add(time.Hour + time.Duration(i)*time.Second)
			s.PutApprovals(core.Approval{ID: core.ID(fmt.Sprintf("a%07d-0000-4000-8000-000000000000", i)), RunID: runID(i), Type: core.ApproveTool, Tool: "std:fetch", State: core.ApprovalOpen, CreatedAt: began, ExpiresAt: &until})
		}
		s.AddEvents(events(0, maxEvents)...)
		s.SetLoaded()
	}})
	return m, clock
}

func runID(i int) core.ID { return core.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)) }

func events(after, n int) []core.Event {
	out := make([]core.Event, n)
	for i := range out {
		seq := after + i + 1
		out[i] = core.Event{Seq: int64(seq), Side: core.SideClient, Type: core.EventTaskComplete, At: began, RunID: runID(seq % 10_000), TaskID: "t1", Tool: "std:fetch", DurationMS: 12}
	}
	return out
}

// BenchmarkKey is a key from the library to the frame.
func BenchmarkKey(b *testing.B) {
	m, _ := large(b)
	m.View()
	down, up := tea.KeyMsg{Type: tea.KeyDown}, tea.KeyMsg{Type: tea.KeyUp}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%40 < 20 {
			m.Update(down)
		} else {
			m.Update(up)
		}
		m.View()
	}
}

// BenchmarkTick is a second that goes by.
func BenchmarkTick(b *testing.B) {
	m, clock := large(b)
	m.View()
	b.ReportAllocs()
	for b.Loop() {
		clock.move(time.Second)
		m.Update(tickMsg{})
		m.View()
	}
}

// BenchmarkEvents is a second of 1,000 events, as the feed hands them over: the
// share of a core is ns/op in 1e9.
func BenchmarkEvents(b *testing.B) {
	m, clock := large(b)
	m.View()
	seq := maxEvents
	b.ReportAllocs()
	for b.Loop() {
		for range 12 {
			batch := events(seq, 84)
			seq += 84
			clock.move(80 * time.Millisecond)
			m.Update(changeMsg{func(s *state.State) { s.AddEvents(batch...) }})
			m.View()
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Second)*100, "%core")
}

// BenchmarkMemory is what the process holds with all of that, a frame included.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, _ := large(b)
	m.View()
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		m.View()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB")
	runtime.KeepAlive(m)
}
