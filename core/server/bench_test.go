package server_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// BenchmarkWorkflows is one page of 50 of 10,000 runs, over the socket.
func BenchmarkWorkflows(b *testing.B) {
	e := newEdge(b, nil)
	e.b.runs = nil
	for n := range 10_000 {
		e.b.runs = append(e.b.runs, core.Run{
			ID: id(n), Side: core.SideServer, Workspace: "/home/me/project", Kind: core.KindDAG, State: core.RunComplete, Intent: "read a file and count its lines",
			CreatedAt: start, UpdatedAt: start, EndedAt: &start, TotalLayers: 10, RequestedBy: core.Actor{Who: "me", Via: core.ViaHTTP}, JournalSeq: 200,
		})
	}
	var times []time.Duration
	for b.Loop() {
		begin := time.Now()
		if r := e.do(b, "GET", "/api/v1/workflows?limit=50", ""); r.status != 200 {
			b.Fatal(r.body)
		}
		times = append(times, time.Since(begin))
		e.b.mu.Lock()
		e.b.asked = e.b.asked[:0]
		e.b.mu.Unlock()
	}
	report(b, times)
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(times[len(times)/2]), "p50-ms")
	b.ReportMetric(ms(times[len(times)*99/100]), "p99-ms")
}

// BenchmarkEventToReader is the time from the commit of an event until a reader
// has its frame, one event at a time, for the slowest of the readers and for
// all of them.
func BenchmarkEventToReader(b *testing.B) {
	for _, readers := range []int{1, 200} {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			e := newEdge(b, nil)
			arrived := make(chan time.Duration, readers)
			var wg sync.WaitGroup
			for range readers {
				s := e.open(b, "/api/v1/events")
				s.next(b)
				wg.Go(func() {
					for {
						f, err := s.read()
						if err != nil {
							return
						}
						var ev core.Event
						if err := json.Unmarshal([]byte(f.data), &ev); err == nil {
							arrived <- time.Since(ev.At)
						}
					}
				})
			}
			var times []time.Duration
			for b.Loop() {
				e.b.emit(core.Event{RunID: id(1), At: time.Now(), Tool: "fs:read", TaskID: "t1"})
				for range readers {
					times = append(times, <-arrived)
				}
			}
			report(b, times)
			e.stop()
			wg.Wait()
		})
	}
}
