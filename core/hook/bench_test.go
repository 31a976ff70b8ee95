package hook_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/flow"
)

const benchScript = `const {arguments: args} = context.request.params;
if (String(args.path).startsWith("/etc")) return {block: {message: "not there"}};
return {params: {arguments: {...args, checked: true}}}`

// BenchmarkBefore_Hook is what a blocking hook costs a call, alone, in turn.
func BenchmarkBefore_Hook(b *testing.B) { benchmarkHooks(b, 1, 0) }

// BenchmarkBefore_EightHooks are eight calls at a time, each with a blocking hook, and
// a moment between them in which the children make their next VM.
func BenchmarkBefore_EightHooks(b *testing.B) { benchmarkHooks(b, 8, 20*time.Millisecond) }

// BenchmarkBefore_EightHooksInARow are eight callers that never pause.
func BenchmarkBefore_EightHooksInARow(b *testing.B) { benchmarkHooks(b, 8, 0) }

// BenchmarkCall_Where is what a flow costs a call, both halves, that has a condition and no
// script: with GOMAXPROCS=1 it is one core.
//
//	GOMAXPROCS=1 go test -run '^$' -bench Call_Where ./core/hook
func BenchmarkCall_Where(b *testing.B) {
	r := newRig(b)
	set := setOf(b, line("f", `"match":{"where":"args.team == 'ENG' && size(args.body) < 2000 && server == 'files'"}`,
		node{id: "set", kind: "set", data: `"set":{"name":"seen","value":true}`}))
	req := request(`{"team":"ENG","body":"` + string(slices.Repeat([]byte("x"), 500)) + `"}`)
	answer := flow.Answer{Result: json.RawMessage(ok)}
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Before(context.Background(), set, req)
		if err != nil || p == nil {
			b.Fatal(p, err)
		}
		if a := r.After(context.Background(), set, req, p, answer); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func benchmarkHooks(b *testing.B, atOnce int, pause time.Duration) {
	r := newRig(b)
	set := setOf(b, line("f", "", script("x", benchScript, false)))
	req := request(`{"path":"/home/me/notes.md","text":"` + string(slices.Repeat([]byte("x"), 500)) + `"}`)
	one := func() time.Duration {
		began := time.Now()
		if _, err := r.Before(context.Background(), set, req); err != nil {
			b.Error(err)
		}
		return time.Since(began)
	}
	for range 3 {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { one() })
		}
		group.Wait()
	}
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	for b.Loop() {
		var group sync.WaitGroup
		for range atOnce {
			group.Go(func() {
				took := one()
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			})
		}
		group.Wait()
		<-time.After(pause)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms/p99")
}
