//go:build unix

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// onBoth runs a test on both stores; args are those of serve.
func onBoth(t *testing.T, f func(t *testing.T, args ...string)) {
	t.Run("bbolt", func(t *testing.T) {
		t.Parallel()
		f(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		skiptest.Long(t, onceMore)
		f(t, shared(t)...)
	})
}

// TestStream_OverRestarts: two readers follow the events of a server that is
// stopped or killed again and again and started again, and see every event once and in
// order: one in this process, the other a pml events --follow. On PostgreSQL
// another server goes on meanwhile.
func TestStream_OverRestarts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, args ...string) {
		const runs = 4
		restarts := skiptest.Sized(t, 4, 20)
		m := pmltest.NewMachine(t, allowMany())
		var other *pmltest.Node
		if len(args) > 0 {
			other = besideOf(m, "home-b").Node(args...)
		}
		n := m.Node(args...)
		own := n.Follow()
		cmd := m.Start("events", "--follow", "--json", "--server", "unix://"+n.Socket())
		// They read only: no restart leaves a question.
		code := `for (let k = 0; ; k++) { console.log("step " + k); await mcp.rec.slow({ms: 20}); if ((await mcp.rec.read({path: "p" + k})).length === 0) break; }`
		var ids []core.ID
		for i := range runs {
			at := n
			if other != nil && i%2 == 0 {
				at = other
			}
			ids = append(ids, at.Begin(api.ExecuteRequest{Code: code, Intent: strconv.Itoa(i)}))
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range restarts {
			before, _ := own.Seen()
			more := before + 1 + rng.IntN(20)
			within(t, pmltest.LongPatience, "events come", func() bool { got, _ := own.Seen(); return got >= more })
			if rng.IntN(2) == 0 {
				n.Signal(syscall.SIGTERM)
				// 143: a busy machine did not end it within its grace.
				if out := n.Process.Wait(); out.Exit != 0 && out.Exit != 143 {
					t.Errorf("restart %d: exit %d: %s", i, out.Exit, out.Stderr)
				}
			} else {
				n.Kill()
			}
			n.Up()
		}
		before, _ := own.Seen()
		within(t, pmltest.LongPatience, "events come after the last restart", func() bool { got, _ := own.Seen(); return got > before+10 })
		for _, id := range ids {
			if _, err := n.Client.Abort(t.Context(), id, core.Actor{}, "enough"); err != nil {
				t.Error(err)
			}
		}
		within(t, pmltest.LongPatience, "all have ended", func() bool { _, ended := own.Seen(); return ended == runs })
		var all []core.Event
		if err := n.Client.Events(t.Context(), "", api.Since{}, false, func(e core.Event) error {
			all = append(all, e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		within(t, pmltest.LongPatience, "the readers have seen all", func() bool {
			got, _ := own.Seen()
			return got >= len(all) && strings.Count(cmd.Out.String(), `"side":"server"`) >= len(all)
		})
		cmd.Signal(syscall.SIGINT)
		printed := slices.DeleteFunc(decodeLines(t, cmd.Wait().Stdout), func(e core.Event) bool { return e.Side == core.SideClient })
		same(t, "the reader in this process", own.Events(), all)
		same(t, "pml events", printed, all)
		t.Logf("%d events", len(all))
	})
}

// TestStream_ManyReaders: 200 readers follow 1,000 events a second, and one of
// them does not take any. None of the others loses or repeats one; the stuck one
// is let go, and goes on behind the last event that it has read.
//
// Scenario 24.
func TestStream_ManyReaders(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "follows with 200 readers, for ten seconds of a processor")
	const readers = 200
	runs, rounds := 10, 50
	if skiptest.Race { // still far more than a socket holds
		rounds = 25
	}
	m := pmltest.NewMachine(t, allowMany())
	n := m.Node()
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.LongPatience)
	defer cancel()
	c := dialled(n.Socket())
	stuck, err := openSSE(ctx, c, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.resp.Body.Close()
	if _, kind, err := stuck.next(); err != nil || kind != "snapshot" {
		t.Fatalf("the first frame is %q: %v", kind, err)
	}
	streams := make([]*sse, readers-1)
	for i := range streams {
		if streams[i], err = openSSE(ctx, c, -1); err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
		defer streams[i].resp.Body.Close()
		if _, kind, err := streams[i].next(); err != nil || kind != "snapshot" {
			t.Fatalf("reader %d: the first frame is %q: %v", i, kind, err)
		}
	}
	if st := m.Status(0); st.Server.Readers != readers {
		t.Errorf("%d readers", st.Server.Readers)
	}
	text := strings.Repeat("x", 200)
	var last atomic.Int64 // the newest event there will be, once that is known
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			for want := s.last + 1; ; want++ {
				seq, _, err := s.next()
				if err != nil {
					t.Errorf("reader %d after %d: %v", i, s.last, err)
					return
				}
				if seq != want {
					t.Errorf("reader %d: event %d, want %d", i, seq, want)
					return
				}
				if end := last.Load(); end != 0 && seq >= end {
					s.resp.Body.Close()
					return
				}
			}
		})
	}
	began := time.Now()
	ids := make([]core.ID, runs)
	for i := range ids {
		ids[i] = n.Begin(api.ExecuteRequest{Code: fmt.Sprintf(
			`for (let k = 0; k < %d; k++) { for (let i = 0; i < 20; i++) console.log(k + "/" + i + " %s"); await mcp.rec.slow({ms: 200}) }`, rounds, text)})
	}
	within(t, pmltest.LongPatience, "the runs end", func() bool {
		page, err := n.Client.Workflows(ctx, []core.RunState{core.RunRunning}, 50, "")
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items) == 0
	})
	took := time.Since(began)
	var all []core.Event
	collect := func(e core.Event) error { all = append(all, e); return nil }
	if err := n.Client.Events(ctx, "", api.Since{}, false, collect); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events in %s: %.0f a second", len(all), took, float64(len(all))/took.Seconds())
	last.Store(all[len(all)-1].Seq)
	// One more event lets go whoever had read the last one before it was known.
	n.Begin(api.ExecuteRequest{Code: "return 1", Wait: -1})
	wg.Wait()
	within(t, pmltest.LongPatience, "the stuck reader is let go", func() bool { return m.Status(0).Server.Readers == 0 })
	t.Logf("the stuck reader was let go after %s", time.Since(began))
	whole := stuck.last
	for err = nil; err == nil; {
		var seq int64
		if seq, _, err = stuck.next(); err == nil {
			if seq != whole+1 {
				t.Fatalf("the stuck reader: event %d after %d", seq, whole)
			}
			whole = seq
		}
	}
	if whole >= last.Load() {
		t.Error("the stuck reader has seen all: the test shows nothing")
	}
	again, err := openSSE(ctx, c, whole)
	if err != nil {
		t.Fatal(err)
	}
	defer again.resp.Body.Close()
	for seq := whole; seq < last.Load(); {
		next, kind, err := again.next()
		if err != nil || next != seq+1 {
			t.Fatalf("resumed after %d: %d %s after %d: %v", whole, next, kind, seq, err)
		}
		seq = next
	}
	t.Logf("it had read %d and resumed from there", whole)
}

func decodeLines(t *testing.T, text string) []core.Event {
	t.Helper()
	var out []core.Event
	for line := range bytes.Lines([]byte(text)) {
		var e core.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, e)
	}
	return out
}

// same compares what was seen with what there is.
func same(t *testing.T, who string, got, want []core.Event) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("%s has not seen %d %s", who, want[i].Seq, want[i].Type)
		case i >= len(want):
			t.Errorf("%s has seen %d %s, which there is not", who, got[i].Seq, got[i].Type)
		case got[i].Seq != want[i].Seq || got[i].Type != want[i].Type || got[i].RunID != want[i].RunID || got[i].TaskID != want[i].TaskID:
			t.Errorf("%s has seen %d %s of %s in the place of %d %s of %s", who, got[i].Seq, got[i].Type, got[i].RunID, want[i].Seq, want[i].Type, want[i].RunID)
		default:
			continue
		}
		return
	}
}
