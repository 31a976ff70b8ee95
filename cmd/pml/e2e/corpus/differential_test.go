//go:build unix

package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// sampled keeps every nth script: with PML_TEST_REQUIRE=all eight times as many, with
// PML_TEST_CORPUS=all all of them, which takes 18 minutes where a process starts in 70 ms.
func sampled(t *testing.T, scripts []corpusScript, n int) []corpusScript {
	t.Helper()
	if os.Getenv("PML_TEST_CORPUS") == "all" {
		return scripts
	}
	if skiptest.All(t) {
		n = max(1, n/8)
	}
	var out []corpusScript
	for i := 0; i < len(scripts); i += n {
		out = append(out, scripts[i])
	}
	return out
}

// TestDifferential runs the corpus with the real pml, against real servers,
// and compares what comes of it with what plain node does: the goldens. Only
// a sample of scripts, smaller for the modes that take several processes each,
// runs unless all of them are asked for; see sampled.
//
// Scenario 19: scripts mean what they mean in JavaScript.
func TestDifferential(t *testing.T) {
	t.Parallel()
	scripts, every := loadCorpus(t), skiptest.Brief(5, 1)
	pml, recorder := pmltest.Build(t, "./cmd/pml"), pmltest.Recorder(t)
	modes := []struct {
		name  string
		every int
		run   func(*testing.T, *world, corpusScript) api.Result
	}{
		{"Plain", 16, runPlain},
		{"PerLayer", 64, runPerLayer},
		{"Asked", 64, runAsked},
		{"Killed", 96, runKilled},
		{"EmptyFlow", 64, flowed("")},
		{"IdentityHook", 64, flowed(`if (context.response) return {response: context.response}; if (!context.error) return {params: context.request.params}`)},
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var processes, kills, doubts atomic.Int64
			t.Cleanup(func() {
				t.Logf("%d processes, %d of them killed, %d calls in doubt", processes.Load(), kills.Load(), doubts.Load())
			})
			for _, s := range sampled(t, scripts, m.every*every) {
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, pml, recorder)
					w.check(t, loadGolden(t, s.Name), m.run(t, w, s))
					processes.Add(int64(w.processes))
					kills.Add(int64(w.kills))
					doubts.Add(int64(w.doubts))
				})
			}
		})
	}
}

// world is a home, a workspace and two recorders for one script.
type world struct {
	pml, recorder  string
	home, dir, log string
	store          store.Store
	// What was done: processes started and killed, questions about calls that
	// may have run.
	processes, kills, doubts int
}

func newWorld(t *testing.T, pml, recorder string) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{
		pml: pml, recorder: recorder, home: filepath.Join(root, "home"), dir: filepath.Join(root, "work"), log: filepath.Join(root, "calls.jsonl"),
	}
	for _, dir := range []string{w.home, w.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.configure(t, "allow")
	var err error
	w.store, err = bolt.Open(bolt.Options{
		Dir: w.home, Clock: testClock{}, NewID: func() core.ID { return core.ID(uuid.NewString()) },
		PID: os.Getpid(), Process: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// configure has every call allowed, or asked about.
func (w *world) configure(t *testing.T, permission string) {
	t.Helper()
	servers := map[string]any{}
	for _, name := range []string{"rec", "my-rec"} {
		servers[name] = map[string]any{"command": w.recorder, "args": []string{"--name", name, "--log", w.log}}
	}
	raw, err := json.Marshal(map[string]any{"permissions": map[string]any{permission: []string{"*"}}, "mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.home, "config.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

type testClock struct{}

func (testClock) Now() time.Time { return time.Now() }

// command is a pml process of this world that prints JSON.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	w.processes++
	cmd := exec.CommandContext(ctx, w.pml, append(args, "--json", "--on-approval", "exit")...)
	// One that hangs says where, on its standard error.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = w.dir
	cmd.Env = []string{"PML_HOME=" + w.home, "PML_WORKSPACE=" + w.dir, "PATH=" + os.Getenv("PATH"), "HOME=" + w.home}
	return cmd
}

// run runs pml to its end and returns what it printed.
func (w *world) run(t *testing.T, args ...string) api.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := w.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("pml %q: %v", args, err)
	}
	return readResult(t, args, &out, &errs)
}

func readResult(t *testing.T, args []string, out, errs *bytes.Buffer) api.Result {
	t.Helper()
	var r api.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("pml %q printed %q: %v\n%s", args, out, err, errs)
	}
	return r
}

func executeArgs(t *testing.T, s corpusScript) []string {
	t.Helper()
	file, err := filepath.Abs(s.File)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"execute", file}
	if len(s.Input) > 0 {
		args = append(args, "--input", string(s.Input))
	}
	return args
}

func runPlain(t *testing.T, w *world, s corpusScript) api.Result {
	t.Helper()
	return w.run(t, executeArgs(t, s)...)
}

// flowed has each call meet a flow that changes nothing: one without nodes of its own,
// or with a hook before and behind the call that gives back what it got.
func flowed(script string) func(*testing.T, *world, corpusScript) api.Result {
	return func(t *testing.T, w *world, s corpusScript) api.Result {
		t.Helper()
		raw := pmltest.Flow("same", nil, script, script)
		if err := errors.Join(os.MkdirAll(filepath.Join(w.dir, ".pml", "flows"), 0o700), os.WriteFile(filepath.Join(w.dir, ".pml", "flows", "same.json"), raw, 0o600)); err != nil {
			t.Fatal(err)
		}
		trust := w.command(t.Context(), "trust", "--yes")
		trust.Args = trust.Args[:len(trust.Args)-2]
		if out, err := trust.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r := runPlain(t, w, s)
		runs, err := w.store.FlowRuns(t.Context(), store.FlowRunFilter{RunID: r.WorkflowID})
		if err != nil || len(readLog(t, w.log)) > 0 && len(runs) == 0 {
			t.Errorf("no flow has run: %v", err)
		}
		for _, f := range runs {
			if f.State != core.FlowOK {
				t.Errorf("%+v", f)
			}
		}
		return r
	}
}

// runPerLayer pauses after each layer; another process goes on each time.
func runPerLayer(t *testing.T, w *world, s corpusScript) api.Result {
	t.Helper()
	r := w.run(t, append(executeArgs(t, s), "--per-layer")...)
	pauses := 0
	for ; r.Status == api.StatusLayerComplete; pauses++ {
		if pauses > 100 {
			t.Fatal("pauses without end")
		}
		r = w.run(t, "continue", string(r.WorkflowID), "--approve")
	}
	// A layer that only sleeps needs no decision.
	sleeps := slices.ContainsFunc(w.journal(t, r.WorkflowID), func(r core.Record) bool { return r.Tool == core.SleepTool })
	if r.DAG != nil && !sleeps && pauses != max(0, r.DAG.Layers-1) {
		t.Errorf("%d layers, %d pauses", r.DAG.Layers, pauses)
	}
	return r
}

// runAsked has each call approved by a process of its own.
func runAsked(t *testing.T, w *world, s corpusScript) api.Result {
	t.Helper()
	w.configure(t, "ask")
	r := w.run(t, executeArgs(t, s)...)
	for n := 0; r.Status == api.StatusApprovalRequired; n++ {
		if n > 100 {
			t.Fatal("approvals without end")
		}
		r = w.run(t, "continue", string(r.WorkflowID), "--approve")
	}
	return r
}

// check compares a run with the golden.
func (w *world) check(t *testing.T, g golden, r api.Result) {
	t.Helper()
	if g.Error == nil {
		if r.Status != api.StatusSuccess && r.Status != api.StatusComplete {
			t.Errorf("status %s: %s %s", r.Status, r.ErrorCode, r.Error)
		}
		diff(t, "result", string(compact(g.Result)), string(compact(r.Result)))
	} else {
		diff(t, "error", describe(*g.Error), fmt.Sprintf("%s: %s: %s", r.Status, r.ErrorCode, r.Error))
	}
	calls := readLog(t, w.log)
	if w.kills > 0 {
		calls = repeats(g, calls)
	}
	for i := range calls {
		if calls[i].End == 0 && w.doubts > 0 { // a person said that it had ended
			calls[i].End = calls[i].Start
		}
	}
	for _, fault := range checkCalls(g, calls) {
		t.Error("recorder: " + fault)
	}
	if g.Issue == "fixed" {
		diff(t, "calls as made", keysOf(g.Calls), w.made(t, r.WorkflowID))
	}
	diff(t, "console", levelled(g.Logs), w.console(t, r.WorkflowID))
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-golden +pml):\n%s", what, d)
	}
}

// describe is how pml words an error of the golden.
func describe(e goldenError) string {
	switch {
	case e.Tool != "":
		return "error: " + e.Code + ": " + e.Tool + ": " + e.Message
	case e.Name == "":
		return "error: script_error: The script threw " + e.Message
	}
	return "error: script_error: " + e.Name + ": " + e.Message
}

// levelled writes console lines of the golden as pml's log events have them.
func levelled(lines []string) []string {
	out := []string{}
	for _, l := range lines {
		level, text, _ := strings.Cut(l, ": ")
		if level == "log" || level == "info" {
			l = text
		}
		out = append(out, l)
	}
	return out
}

// made returns the calls of a run in the order in which the script made them.
func (w *world) made(t *testing.T, id core.ID) []string {
	t.Helper()
	keys := map[int]string{}
	for _, r := range w.journal(t, id) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.CallID, "c"))
		if err == nil && r.Tool != core.SleepTool {
			keys[n] = r.Tool + string(compact(r.Args))
		}
	}
	out := []string{}
	for n := range 1000 {
		if k, ok := keys[n]; ok {
			out = append(out, k)
		}
	}
	return out
}

func (w *world) journal(t *testing.T, id core.ID) []core.Record {
	t.Helper()
	records, err := w.store.Journal(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func (w *world) console(t *testing.T, id core.ID) []string {
	t.Helper()
	events, err := w.store.Events(t.Context(), store.EventFilter{RunID: id, Types: []core.EventType{core.EventTaskLog}})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range events {
		if e.TaskID == "" {
			out = append(out, e.Message)
		}
	}
	return out
}

// runID is the run of this world, or nothing when there is none yet.
func (w *world) runID(t *testing.T) core.ID {
	t.Helper()
	runs, err := w.store.Runs(t.Context(), store.RunFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) == 0 {
		return ""
	}
	return runs[0].ID
}

func TestDifferential_Sampled(t *testing.T) {
	t.Parallel()
	if got := len(sampled(t, make([]corpusScript, 10), 4)); got != 3 && got != 10 {
		t.Errorf("%d of 10", got)
	}
	if !slices.Equal(levelled([]string{"log: a: b", "warn: c"}), []string{"a: b", "warn: c"}) {
		t.Error("levelled")
	}
}
