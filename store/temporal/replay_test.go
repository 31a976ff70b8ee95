package temporal_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

var update = flag.Bool("update", false, "write testdata/histories anew (TestReplay_Recorded): only before a release binds them")

// histories is where the histories are that this pml, or one before it, has left in Temporal.
const histories = "testdata/histories"

// TestReplay: this pml takes up every workflow that an earlier one has left: it comes to the same commands, update for
// update. A change of a workflow that this test refuses would stop the runs that are open when it is installed; docs/temporal.md
// says how a workflow is changed.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(histories + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := client.HistoryFromJSON(bytes.NewReader(text), client.HistoryJSONOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, lost := range temporal.Lost(t, h, keysOf(file)) {
				t.Errorf("a field that is kept is not read any more: %s", lost)
			}
			replay(t, h)
		})
	}
}

// keysOf are the keys with which a history was recorded.
func keysOf(file string) temporal.Keys {
	if strings.Contains(file, "encrypted") {
		return keys("1")
	}
	return nil
}

func replay(t *testing.T, h *historypb.History) {
	t.Helper()
	first := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var ks temporal.Keys
	if strings.HasPrefix(string(first.GetInput().GetPayloads()[0].GetMetadata()["encoding"]), "binary/pml-encrypted") {
		ks = keys("1")
	}
	r, err := worker.NewWorkflowReplayerWithOptions(temporal.ReplayOptions(t, ks))
	if err != nil {
		t.Fatal(err)
	}
	temporal.RegisterWorkflows(r)
	err = r.ReplayWorkflowHistoryWithOptions(silent{}, h, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: first.GetWorkflowId(), RunID: first.GetOriginalExecutionRunId()},
	})
	if err != nil {
		t.Errorf("%s: %v", first.GetWorkflowType().GetName(), err)
	}
}

// TestReplay_Recorded: what pml leaves in Temporal today can be taken up by the same pml, in clear and with a key: steps, decisions,
// expiry, take-overs, ends, and workflows that go on in a new history. With -update it writes testdata/histories.
func TestReplay_Recorded(t *testing.T) {
	t.Parallel()
	dev, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: command(t), LogLevel: "error", Stdout: io.Discard, Stderr: io.Discard, ClientOptions: &client.Options{Logger: silent{}},
		ExtraArgs: []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=60"}, // histories are short, so that some go on in a new one
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Stop() })
	opts := temporal.Options{
		Address: dev.FrontendHostPort(), Namespace: "default", Clock: wall{}, NewID: enginetest.NewID, Logger: slog.New(slog.DiscardHandler),
	}
	if err := temporal.Prepare(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	for name, ks := range map[string]temporal.Keys{"clear": nil, "encrypted": keys("1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := opts
			opts.Keys, opts.Name, opts.Blobs = ks, "recorded-"+name, temporal.Folder(t.TempDir())
			var kinds []string
			for label, h := range record(t, opts) {
				first := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
				kinds = append(kinds, first.GetWorkflowType().GetName())
				replay(t, proto.Clone(h).(*historypb.History)) // which changes it
				for _, lost := range temporal.Lost(t, h, ks) {
					t.Errorf("%s: a field is not read: %s", label, lost)
				}
				if *update && !strings.HasSuffix(label, "-3") && (ks == nil || strings.HasPrefix(label, "run-decided")) {
					save(t, label+"-"+name, h)
				}
			}
			slices.Sort(kinds)
			if got := slices.Compact(kinds); len(got) != 5 {
				t.Errorf("histories of %v", got)
			}
		})
	}
}

func save(t *testing.T, label string, h *historypb.History) {
	t.Helper()
	text, err := protojson.Marshal(h)
	if err == nil {
		err = os.MkdirAll(histories, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(histories, label+".json"), append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// record has an installation do what pml does, and returns the histories by what they are and their number.
func record(t *testing.T, opts temporal.Options) map[string]*historypb.History {
	t.Helper()
	ids := map[string]string{"shared": "pml-shared", "halt": "pml-halt"}
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	keepScript(t, opts, ids)
	c := temporal.Client(t, opts)
	long := func(id string, do func(i int) error) { goOn(t, c, opts.Name+"/"+id, do) }
	for label, keep := range map[string]func(*testing.T, *temporal.Store) string{"run-decided": keepDecided, "run-expired": keepExpired, "run-copy": keepCopy} {
		ids[label] = keep(t, s)
	}
	ids["run-long"], ids["flow"] = keepLong(t, s, long), keepFlow(t, s, long)
	keepShared(t, s, long)
	removed := begun(newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete }))
	if err := s.Commit(t.Context(), removed); err != nil {
		t.Fatal(err)
	}
	ids["run-removed"] = "run/" + string(removed.Run.ID)
	remove(t, c, opts.Name+"/"+ids["run-removed"])
	all := map[string]*historypb.History{}
	for label, id := range ids {
		for i, h := range chain(t, c, opts.Name+"/"+id) {
			all[fmt.Sprint(label, "-", i+1)] = h
		}
	}
	for _, label := range []string{"run-long-2", "shared-2", "flow-2"} {
		if all[label] == nil {
			t.Errorf("no %s: nothing has gone on in a new history", label)
		}
	}
	return all
}

// remove has a run removed as temporal.Store does, but leaves the history.
func remove(t *testing.T, c client.Client, workflow string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	defer cancel()
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflow, UpdateName: "remove", WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{map[string]any{"at": time.Now()}},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	if err == nil {
		err = c.GetWorkflow(ctx, workflow, "").Get(ctx, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goOn does something again and again until a workflow has gone on in a new history, and then once more.
func goOn(t *testing.T, c client.Client, id string, do func(i int) error) {
	t.Helper()
	for i, more := 0, true; more; i++ {
		d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
		if err == nil {
			info := d.GetWorkflowExecutionInfo()
			more = info.GetFirstRunId() == info.GetExecution().GetRunId()
			err = do(i)
		}
		if err != nil || i > 300 {
			t.Fatalf("%d times: %v", i, err)
		}
	}
}

// chain are the histories of a workflow, one after the other, without one that has only just begun.
func chain(t *testing.T, c client.Client, id string) (all []*historypb.History) {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	for run := d.GetWorkflowExecutionInfo().GetFirstRunId(); run != ""; {
		h := &historypb.History{}
		for it := c.GetWorkflowHistory(t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			e, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			h.Events = append(h.Events, e)
		}
		if len(h.GetEvents()) > 3 {
			all = append(all, h)
		}
		run = h.GetEvents()[len(h.GetEvents())-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return all
}

// keepScript runs a script that asks, and one that fails; its runner ends.
func keepScript(t *testing.T, opts temporal.Options, ids map[string]string) {
	t.Helper()
	w := enginetest.NewWorld(t, func() enginetest.Surroundings { return open(t, opts) })
	p := w.Process()
	h := w.Code(p, `await mcp.a.read({n: 1}); await mcp.a.ask({n: 2}); return 3;`)
	w.Wait(h, enginetest.Pending(1))
	w.Decide(p.Store, h.ID, core.ApproveTool, true, nil)
	w.Complete(h, "3")
	ids["run-script"], ids["runner"] = "run/"+string(h.ID), "runner/"+p.Runner.ID()
	p.Close()
}

// keepDecided decides about a run in all ways, in the tree of an agent, and takes it over.
func keepDecided(t *testing.T, s *temporal.Store) string {
	t.Helper()
	until := time.Now().Add(time.Hour).UTC()
	step := begun(newRun(time.Now(), func(r *core.Run) { r.State, r.ExpiresAt = core.RunWaiting, &until }))
	run := step.Run
	for _, digest := range []string{"a", "b", "c"} {
		step.Open = append(step.Open, core.Approval{
			ID: enginetest.NewID(), RunID: run.ID, Type: core.ApproveTool, State: core.ApprovalOpen, Workspace: "/w", CreatedAt: time.Now().UTC(), ExpiresAt: &until, Digest: digest, Context: []byte(`{"n":1}`),
		})
	}
	past := time.Now().UTC()
	step.Open[2].ExpiresAt = &past
	below := begun(newRun(time.Now(), func(r *core.Run) { r.UnderAgent = run.ID }))
	by := core.Actor{Who: "ann", Via: core.ViaCLI}
	decide := func(i int, approved bool) func() error {
		return func() error {
			_, err := s.Decide(t.Context(), core.Decision{ApprovalID: step.Open[i].ID, Approved: approved, By: by, At: time.Now().UTC(), Reason: "x"}, store.Renewal{})
			return err
		}
	}
	for i, do := range []func() error{
		func() error { return s.Commit(t.Context(), step) },
		func() error { return s.Commit(t.Context(), below) },
		func() error { _, err := s.Extend(t.Context(), step.Open[0].ID, until.Add(time.Hour)); return err },
		func() error {
			_, err := s.Renew(t.Context(), step.Open[2].ID, enginetest.NewID(), time.Now(), &until, by)
			return err
		},
		decide(0, true), decide(1, false),
		func() error {
			_, err := s.Replan(t.Context(), run.ID, core.Program{Kind: core.KindDAG, Version: 2, Tasks: []core.TaskSpec{{ID: "t1"}}, Plan: &core.Plan{Layers: [][]string{{"t1"}}}}, by, core.Event{Type: core.EventReplanned})
			return err
		},
		func() error { _, err := s.Claim(t.Context(), run.ID, "r2"); return err },
		func() error {
			_, err := s.RequestAbort(t.Context(), run.ID, core.AbortRequest{By: by, At: time.Now().UTC(), Reason: "x"})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	return "run/" + string(run.ID)
}

// keepExpired waits until a run has expired by itself.
func keepExpired(t *testing.T, s *temporal.Store) string {
	t.Helper()
	soon := time.Now().Add(300 * time.Millisecond).UTC()
	step := begun(newRun(time.Now(), func(r *core.Run) { r.State, r.ExpiresAt = core.RunWaiting, &soon }))
	if err := s.Commit(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(enginetest.Hung); ; {
		events, err := s.Events(t.Context(), store.EventFilter{RunID: step.Run.ID})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(events, func(e core.Event) bool { return e.Type == core.EventWorkflowExpired }) {
			return "run/" + string(step.Run.ID)
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not expire")
		}
	}
}

// keepLong is a run that goes on in a new history.
func keepLong(t *testing.T, s *temporal.Store, long func(string, func(int) error)) string {
	t.Helper()
	run := newRun(time.Now())
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	n := 0
	long("run/"+string(run.ID), func(i int) error {
		n++
		step := store.Step{Run: run, Records: []core.Record{{Seq: int64(i + 1), Kind: core.RecordSettled, CallID: fmt.Sprint("c", i), Tool: "a:read", Outcome: core.OutcomeSuccess, Result: []byte(`"x"`), At: time.Now().UTC()}}}
		step.Events = []core.Event{{Type: core.EventTaskLog, Message: strconv.Itoa(i)}}
		return s.Commit(t.Context(), step)
	})
	if records, err := s.Journal(t.Context(), run.ID, 0); err != nil || len(records) != n {
		t.Fatalf("%d records, %v", len(records), err)
	}
	return "run/" + string(run.ID)
}

// keepCopy is a copy of a run of another store.
func keepCopy(t *testing.T, s *temporal.Store) string {
	t.Helper()
	step := copied()
	step.Records, step.Past.Approvals = step.Records[:2], step.Past.Approvals[:2]
	if err := s.Commit(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	return "run/" + string(step.Run.ID)
}

// keepFlow keeps what a flow did until its workflow goes on in a new history, and has some of it removed.
func keepFlow(t *testing.T, s *temporal.Store, long func(string, func(int) error)) string {
	t.Helper()
	key := core.FlowKey{Workspace: "/w", Flow: "ask"}
	ended := begun(newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete }))
	if err := s.Commit(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveFlowRuns(t.Context(), flowRun(key, ended.Run.ID, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), ended.Run.ID); err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(temporal.FlowWorkflow(s, key), "/")
	long(id, func(i int) error {
		return s.SetFlowVariables(t.Context(), key, core.FlowVariables{Version: int64(i + 1)})
	})
	return id
}

// keepShared keeps what belongs to no run, until it goes on in a new history.
func keepShared(t *testing.T, s *temporal.Store, long func(string, func(int) error)) {
	t.Helper()
	by := core.Actor{Who: "ann", Via: core.ViaCLI}
	if _, err := s.Halt(t.Context(), core.Halt{By: by, At: time.Now(), Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LetGo(t.Context(), core.Resumption{By: by, At: time.Now(), Presence: core.PresenceTerminal}); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeGuard(t.Context(), func(g *core.Guard) error { g.Pin = "hash"; return nil }, core.AuditRow{Reason: "pin"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetNotices(t.Context(), []byte(`{}`), 1); err != nil {
		t.Fatal(err)
	}
	long("pml-shared", func(int) error {
		return s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved, By: by}, core.AuditRow{Outcome: core.ApprovalDenied, By: by})
	})
	if rows, err := s.Audit(t.Context(), store.AuditFilter{}); err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}
