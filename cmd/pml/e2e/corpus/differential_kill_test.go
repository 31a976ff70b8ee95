//go:build unix

package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// moment is when a process is killed.
type moment int

const (
	atStart  moment = iota // a call has begun at the server
	atEnd                  // it has ended there; pml may know it or not
	atCommit               // its outcome is in the journal
	moments
)

// runKilled kills every process of the run, each at the next call: when it has
// begun, when it has ended, when its outcome was kept, and so on, until one
// gets through without another call. What is in doubt is answered by what the
// recorder's log says.
func runKilled(t *testing.T, w *world, s corpusScript) api.Result {
	t.Helper()
	args := executeArgs(t, s)
	most := 20 + 8*len(loadGolden(t, s.Name).Calls)
	for round := 0; ; round++ {
		if round > most {
			t.Fatalf("no end after %d processes", round)
		}
		r, killed := w.runUntil(t, moment(round)%moments, args)
		id := w.runID(t)
		switch {
		case killed && id == "":
			continue // not even the run was kept, so nothing had run
		case killed:
			args = []string{"continue", string(id)}
		case r.Status == api.StatusApprovalRequired:
			args = w.answer(t, r)
		default:
			return r
		}
	}
}

// runUntil starts pml and kills it at a moment. It returns the result of a
// process that ended before that.
func (w *world) runUntil(t *testing.T, m moment, args []string) (r api.Result, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	come := w.watch(t, ctx, m)
	cmd := w.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code says less than what it printed
	}()
	select {
	case <-come:
		_ = cmd.Process.Kill() // it may have ended in this moment
		<-ended
	case <-ended:
	}
	if ctx.Err() != nil {
		<-ended
		t.Fatalf("pml %q did not end: %s", args, &errs)
	}
	w.settled(t)
	// A process that was killed after it had printed everything has ended.
	if json.Unmarshal(out.Bytes(), &r) != nil {
		if cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("pml %q printed %q: %s", args, &out, &errs)
		}
		w.kills++
		return api.Result{}, true
	}
	return r, false
}

// repeats takes out of what was seen the calls that a killed process had made
// and the next one made again. In a script that makes one call at a time each
// call may be there several times in a row, so that equal calls are told apart
// by their place; otherwise the last ones count.
func repeats(g golden, got []observed) []observed {
	if g.Order != "total" {
		return dropRepeats(g, got)
	}
	// last[i] is where the ith call of the golden was made for the last time,
	// over the ways to read what was seen that are still possible.
	ways := map[int][]int{0: {}}
	for at, o := range got {
		next := map[int][]int{}
		for n, last := range ways {
			if n > 0 && o.key() == g.Calls[n-1].key() && slices.Contains(repeatable, o.Tool) {
				next[n] = append(slices.Clone(last[:n-1]), at)
			}
		}
		for n, last := range ways {
			if n < len(g.Calls) && o.key() == g.Calls[n].key() {
				next[n+1] = append(slices.Clone(last), at)
			}
		}
		ways = next
	}
	last, ok := ways[len(g.Calls)]
	if !ok {
		return dropRepeats(g, got) // it is wrong; this says in what
	}
	kept := make([]observed, len(last))
	for i, at := range last {
		kept[i] = got[at]
	}
	return kept
}

// settled waits until the servers of a killed process are gone: they hold a
// lock while they live.
func (w *world) settled(t *testing.T) {
	t.Helper()
	l := flock.New(w.log + ".alive")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if ok, err := l.TryLockContext(ctx, time.Millisecond); !ok {
		t.Fatalf("the servers of a killed pml live on: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// watch returns a channel that is closed when the moment has come, counted
// from now.
func (w *world) watch(t *testing.T, ctx context.Context, m moment) <-chan struct{} {
	t.Helper()
	come := make(chan struct{})
	reached := w.reached(t, ctx, m)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !reached() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		close(come)
	}()
	return come
}

// reached returns the question whether a moment has come.
func (w *world) reached(t *testing.T, ctx context.Context, m moment) func() bool {
	t.Helper()
	if m != atCommit {
		before, _ := os.ReadFile(w.log)
		return func() bool {
			raw, _ := os.ReadFile(w.log) // not there before the first call
			fresh := string(raw[min(len(before), len(raw)):])
			begun, lines := strings.Count(fresh, `"event":"start"`), strings.Count(fresh, "\n")
			return m == atStart && begun > 0 || m == atEnd && lines > begun
		}
	}
	count := func() int {
		runs, err := w.store.Runs(ctx, store.RunFilter{Limit: 1})
		if err != nil || len(runs) == 0 {
			return 0
		}
		records, _ := w.store.Journal(ctx, runs[0].ID, 0)
		n := 0
		for _, r := range records {
			if r.Kind == core.RecordSettled {
				n++
			}
		}
		return n
	}
	before := count()
	return func() bool { return count() > before }
}

// answer decides the first call in doubt as somebody would who can see what
// the server did: a call that it has not seen runs again, another one does not.
func (w *world) answer(t *testing.T, r api.Result) []string {
	t.Helper()
	if r.ApprovalType != core.ApproveInDoubt {
		t.Fatalf("asked for %s: %s", r.ApprovalType, r.Description)
	}
	w.doubts++
	var asked struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Context, &asked); err != nil {
		t.Fatal(err)
	}
	key := asked.Tool + string(compact(asked.Arguments))
	seen, known := 0, 0
	for _, o := range readLog(t, w.log) {
		if o.key() == key {
			seen++
		}
	}
	for _, rec := range w.journal(t, r.WorkflowID) {
		if rec.Kind == core.RecordSettled && rec.Tool+string(compact(rec.Args)) == key {
			known++
		}
	}
	args := []string{"continue", string(r.WorkflowID), "--checkpoint", string(r.CheckpointID), "--answer"}
	if seen == known {
		return append(args, "run-again")
	}
	return append(args, "skip", "--result", assumed(t, asked.Tool, asked.Arguments, known+1))
}

// assumed is what the recorder answers to a call: the nth of its kind.
func assumed(t *testing.T, tool string, raw json.RawMessage, nth int) string {
	t.Helper()
	var args map[string]any
	if err := json.Unmarshal(raw, &args); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(tool, ":")
	text, _ := args["content"].(string)
	result := map[string]any{
		"write":  map[string]any{"path": args["path"], "bytes": len(text)},
		"inc":    map[string]any{"key": args["key"], "count": nth},
		"danger": map[string]any{"done": args["x"]},
	}[name]
	if result == nil {
		t.Fatalf("%s can be repeated, and yet it was asked about", tool)
	}
	out, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
