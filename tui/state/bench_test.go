package state_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// The sizes that a terminal must be fast at.
const (
	manyRuns      = 10_000
	manyApprovals = 1_000
	manyEvents    = 100_000
)

// eventOf makes an event as a backend reads it: none of its texts is shared.
func eventOf(n int) core.Event {
	layer := n % 5
	return core.Event{
		Seq: int64(n + 1), Side: core.SideServer, At: now.Add(time.Duration(n) * time.Millisecond),
		Type: core.EventType(fmt.Sprint(core.EventTypes[n%9])), RunID: id(n % manyRuns), TaskID: fmt.Sprintf("task_%d", n%40),
		Tool: fmt.Sprintf("github:tool_%d", n%50), Layer: &layer, Message: fmt.Sprintf("12 ms, attempt 1, item %d of many", n),
	}
}

func fullRuns() []core.Run {
	runs := make([]core.Run, manyRuns)
	for n := range runs {
		runs[n] = headerOf(n, core.RunStates[n%len(core.RunStates)])
		runs[n].Intent = fmt.Sprintf("%c: nightly import of the orders, part %d", 'a'+n*7%26, n)
		runs[n].Workspace, runs[n].TotalLayers, runs[n].CurrentLayer = "/home/me/src/shop", 5, n%5
		runs[n].Result = json.RawMessage(`{"ok":true}`)
	}
	return runs
}

func fullApprovals() []core.Approval {
	list := make([]core.Approval, manyApprovals)
	for n := range list {
		at := now.Add(time.Duration(n) * time.Second)
		list[n] = core.Approval{
			ID: id(1_000_000 + n), RunID: id(n), State: core.ApprovalOpen, CreatedAt: now, ExpiresAt: &at, Type: core.ApproveTool,
			Tool: "github:create_release", Risk: core.RiskMedium, Description: "create a release", Digest: "sha256:" + fmt.Sprintf("%064d", n),
			Context: json.RawMessage(`{"arguments":{"owner":"acme","repo":"shop","tag_name":"v2.1.0","draft":false}}`),
		}
	}
	return list
}

func fullState() *state.State {
	s := state.New(manyEvents)
	s.PutRuns(fullRuns()...)
	s.PutApprovals(fullApprovals()...)
	for n := range manyEvents {
		s.AddEvents(eventOf(n))
	}
	for n := range 200 {
		w := core.Workflow{Run: headerOf(n, core.RunRunning)}
		for l := range 5 {
			layer := core.Layer{Index: l}
			for k := range 8 {
				layer.Tasks = append(layer.Tasks, core.Task{
					ID: fmt.Sprintf("task_%d_%d", l, k), Tool: fmt.Sprintf("github:tool_%d", k), Layer: l,
					Arguments: json.RawMessage(`{"owner":"acme","repo":"shop"}`), Output: make([]byte, 512),
				})
			}
			w.Layers = append(w.Layers, layer)
		}
		s.PutWorkflow(w)
	}
	return s
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory says how much a full state takes.
func BenchmarkMemory(b *testing.B) {
	var used uint64
	for b.Loop() {
		before := heap()
		s := fullState()
		used = heap() - before
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(used)/(1<<20), "MiB")
}

func BenchmarkAddEvents(b *testing.B) {
	s := state.New(manyEvents)
	s.PutRuns(fullRuns()...)
	events := make([]core.Event, manyEvents)
	for n := range events {
		events[n] = eventOf(n)
		s.AddEvents(events[n])
	}
	b.ReportAllocs()
	n := manyEvents
	for b.Loop() {
		e := events[n%manyEvents]
		n++
		e.Seq = int64(n)
		s.AddEvents(e)
	}
}

func BenchmarkWaiting(b *testing.B) {
	s := state.New(1)
	s.PutApprovals(fullApprovals()...)
	b.Run("Again", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			s.Waiting(now.Add(time.Duration(n%1000) * time.Second))
		}
	})
	b.Run("Resolved", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			s.Resolved(now.Add(time.Duration(n/100%1000)*time.Second), 20)
		}
	})
	b.Run("Changed", func(b *testing.B) {
		list := fullApprovals()
		at := now.Add(time.Hour)
		n := 0
		for b.Loop() {
			n++
			a := list[n%manyApprovals]
			soon := at.Add(time.Duration(n) * time.Second)
			a.ExpiresAt = &soon
			s.PutApprovals(a)
			s.Waiting(now)
		}
	})
}

func BenchmarkRuns(b *testing.B) {
	s := state.New(1)
	runs := fullRuns()
	s.PutRuns(runs...)
	b.Run("Put", func(b *testing.B) {
		n := manyRuns
		for b.Loop() {
			r := runs[n%manyRuns]
			n++
			r.JournalSeq = int64(n)
			s.PutRuns(r)
			s.Runs()
		}
	})
	b.Run("Load", func(b *testing.B) {
		for b.Loop() {
			s := state.New(1)
			s.PutRuns(runs...)
			s.Runs()
		}
	})
	for _, text := range []string{"", "status:waiting,running", "orders part"} {
		f, err := state.ParseFilter(text)
		if err != nil {
			b.Fatal(err)
		}
		for _, key := range state.SortKeys {
			b.Run("List/"+string(key)+"/"+text, func(b *testing.B) {
				var list state.RunList
				n := int64(0)
				for b.Loop() {
					n++
					r := runs[0]
					r.JournalSeq = n << 32
					s.PutRuns(r) // so that the list is old
					if list.IDs(s, state.RunQuery{Filter: f, Sort: key}) == nil {
						b.Fatal("nothing matches")
					}
				}
			})
		}
	}
	b.Run("List/again", func(b *testing.B) {
		var list state.RunList
		for b.Loop() {
			list.IDs(s, state.RunQuery{Sort: state.SortName})
		}
	})
}

// BenchmarkEventList is a list of 100,000 events that match a filter.
func BenchmarkEventList(b *testing.B) {
	s := state.New(manyEvents)
	for n := range manyEvents {
		s.AddEvents(eventOf(n))
	}
	f, err := state.ParseFilter("type:!task_log tool:github:*")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			var list state.EventList
			list.Numbers(s, f, now)
		}
	})
	b.Run("OneMore", func(b *testing.B) {
		var list state.EventList
		list.Numbers(s, f, now)
		n := manyEvents
		for b.Loop() {
			s.AddEvents(eventOf(n))
			n++
			list.Numbers(s, f, now)
		}
	})
}
