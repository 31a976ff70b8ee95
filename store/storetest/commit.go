package storetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

func testRoundTrip(k *kit) {
	run := k.run()
	run.Options.Input = json.RawMessage(`{"x": 1}`)
	program := core.Program{Kind: core.KindCode, Version: 1, Source: "const a = 1", Script: "const a=1"}
	records := []core.Record{record(1, "c1"), record(2, "c2")}
	records[1].Result, records[1].Error = nil, core.Errorf(core.CodeToolFailed, "it broke")
	k.commit(store.Step{Run: run, Create: true, Program: &program, Records: records[:1]})
	run.State, run.Result, run.EndedAt = core.RunComplete, json.RawMessage(` {"z":1, "a":[2]}`), k.in(0)
	k.commit(store.Step{Run: run, Records: records[1:]})

	again := k.fresh()
	got, err := again.Run(k.ctx(), run.ID)
	run.JournalSeq = 2
	if diff := cmp.Diff(run, got); err != nil || diff != "" {
		k.t.Errorf("run: %v\n%s", err, diff)
	}
	gotProgram, err := again.Program(k.ctx(), run.ID)
	if diff := cmp.Diff(program, gotProgram); err != nil || diff != "" {
		k.t.Errorf("program: %v\n%s", err, diff)
	}
	gotRecords, err := again.Journal(k.ctx(), run.ID, 0)
	ignoreCause := cmp.Comparer(func(a, b *core.Error) bool {
		return a == b || a != nil && b != nil && a.Code == b.Code && a.Message == b.Message
	})
	if diff := cmp.Diff(records, gotRecords, ignoreCause); err != nil || diff != "" {
		k.t.Errorf("journal: %v\n%s", err, diff)
	}
	if rest, err := again.Journal(k.ctx(), run.ID, 1); err != nil || len(rest) != 1 || rest[0].Seq != 2 {
		k.t.Errorf("journal after 1: %v, %v", rest, err)
	}
}

func testLargeValues(k *kit) {
	big := func(c string, n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat(c, n) + `"`) }
	rec := record(1, "c1")
	rec.Args, rec.Sent, rec.Result = big("a", 5<<10), big("s", 64<<10), big("r", 2<<20)
	var a core.Approval
	run := k.create(func(s *store.Step) {
		s.Run.Options.Input = big("i", 9<<10)
		s.Records = []core.Record{rec}
		a = k.approval(s.Run.ID)
		a.Context = big("c", 9<<10)
		s.Open = []core.Approval{a}
	})
	if diff := cmp.Diff(big("i", 9<<10), run.Options.Input); diff != "" {
		k.t.Errorf("input: %s", diff)
	}
	run.Options.Input = nil // as listed, or as an engine keeps it
	run.Result, run.State = big("R", 9<<10), core.RunRunning
	k.commit(store.Step{Run: run})
	got := k.get(run.ID)
	if len(got.Options.Input) != 9<<10+2 || len(got.Result) != 9<<10+2 {
		k.t.Errorf("input %d and result %d bytes", len(got.Options.Input), len(got.Result))
	}
	records, err := k.fresh().Journal(k.ctx(), run.ID, 0)
	if diff := cmp.Diff([]core.Record{rec}, records, sameText); err != nil || diff != "" {
		k.t.Errorf("journal: %v differs (%d bytes of difference)", err, len(diff))
	}
	if d, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human}, store.Renewal{}); err != nil || len(d.Context) != len(a.Context) {
		k.t.Errorf("decided: context of %d bytes, %v", len(d.Context), err)
	}
	if got := k.getApproval(a.ID); string(got.Context) != string(a.Context) {
		k.t.Errorf("context has %d bytes", len(got.Context))
	}
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{})
	if err != nil || len(runs) != 1 || runs[0].Result != nil {
		k.t.Errorf("listed runs must not carry results: %d, %v", len(runs), err)
	}
}

func testRefused(k *kit) {
	run, a := k.waiting()
	step := func(f func(*store.Step)) store.Step {
		s := store.Step{Run: run, Records: []core.Record{record(1, "c1")}, Events: []core.Event{{Type: core.EventTaskStart}}}
		f(&s)
		return s
	}
	for name, c := range map[string]struct {
		step store.Step
		want core.Code
	}{
		"OldEpoch":      {step(func(s *store.Step) { s.Run.Epoch = 0 }), core.CodeFenced},
		"OtherRunner":   {step(func(s *store.Step) { s.Run.Runner = "r2" }), core.CodeFenced},
		"RecordGap":     {step(func(s *store.Step) { s.Records[0].Seq = 2 }), core.CodeFenced},
		"UnknownRun":    {step(func(s *store.Step) { s.Run.ID = k.id() }), core.CodeNotFound},
		"CreateAgain":   {step(func(s *store.Step) { s.Create = true }), core.CodeDuplicate},
		"UnknownUse":    {step(func(s *store.Step) { s.Used = []store.Use{{Approval: k.id()}} }), core.CodeNotFound},
		"ForeignID":     {step(func(s *store.Step) { s.Supersede = []core.ID{"../x"} }), core.CodeNotFound},
		"ApprovalTwice": {step(func(s *store.Step) { s.Open = []core.Approval{a} }), core.CodeInternal},
		"BadID":         {step(func(s *store.Step) { s.Create, s.Run.ID = true, "../../x" }), core.CodeInvalidArguments},
	} {
		k.wantCode(k.Store.Commit(k.ctx(), c.step), c.want)
		if k.t.Failed() {
			k.t.Fatalf("in %s", name)
		}
	}
	if records, err := k.Store.Journal(k.ctx(), run.ID, 0); err != nil || len(records) != 0 {
		k.t.Errorf("a refused step left %d records, %v", len(records), err)
	}
	if es := k.events(store.EventFilter{}); len(es) != 0 {
		k.t.Errorf("a refused step left %d events", len(es))
	}
	if diff := cmp.Diff(run, k.get(run.ID)); diff != "" {
		k.t.Errorf("a refused step changed the run: %s", diff)
	}
}

func testKeeps(k *kit) {
	run, _ := k.waiting()
	req := core.AbortRequest{By: other, At: k.now(), Reason: "enough"}
	if _, err := k.Store.RequestAbort(k.ctx(), run.ID, req); err != nil {
		k.t.Fatal(err)
	}
	program := core.Program{Kind: core.KindDAG, Version: 2, Plan: &core.Plan{Layers: [][]string{{"a"}, {"b"}, {"c"}}}}
	if _, err := k.Store.Replan(k.ctx(), run.ID, program, human, core.Event{Type: core.EventReplanned}); err != nil {
		k.t.Fatal(err)
	}
	run.CurrentLayer = 1
	k.commit(store.Step{Run: run})
	got := k.get(run.ID)
	if diff := cmp.Diff(&req, got.Abort); diff != "" {
		k.t.Errorf("abort request: %s", diff)
	}
	if got.DAGVersion != 2 || got.TotalLayers != 3 || got.CurrentLayer != 1 {
		k.t.Errorf("version %d, %d layers, layer %d", got.DAGVersion, got.TotalLayers, got.CurrentLayer)
	}
}

// testBeginsNothingAborted: a step that begins a call is refused from the request
// to abort on, alone and beside the steps of other runs, until its runner has seen
// the request; what has happened is kept all the same.
func testBeginsNothingAborted(k *kit) {
	begins := func(run core.Run) store.Step {
		r := record(run.JournalSeq+1, "c1")
		r.Kind, r.Outcome, r.Result = core.RecordStarted, "", nil
		return store.Step{Run: run, Records: []core.Record{r}}
	}
	var runs []core.Run
	req := core.AbortRequest{By: human, At: k.now(), Reason: "enough"}
	for range 8 {
		run := k.create()
		if _, err := k.Store.RequestAbort(k.ctx(), run.ID, req); err != nil {
			k.t.Fatal(err)
		}
		runs = append(runs, run)
	}
	k.wantCode(k.Store.Commit(k.ctx(), begins(runs[0])), core.CodeAborted)
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() { k.wantCode(k.Store.Commit(k.ctx(), begins(run)), core.CodeAborted) })
	}
	wg.Wait()
	if list, err := k.Store.Journal(k.ctx(), runs[0].ID, 0); err != nil || len(list) != 0 {
		k.t.Errorf("a refused step left %d records, %v", len(list), err)
	}
	seen, settles := begins(runs[0]), store.Step{Run: runs[1], Records: []core.Record{record(1, "c0")}}
	seen.Run.Abort = &req
	k.commit(seen)
	k.commit(settles)
}

func testManyWriters(k *kit) {
	const writers, steps = 16, 20
	stores := []store.Store{k.Store, k.another()}
	runs := make([]core.Run, writers)
	for i := range runs {
		runs[i] = k.create()
	}
	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() {
			for n := range steps {
				err := stores[i%2].Commit(k.ctx(), store.Step{
					Run: run, Records: []core.Record{record(int64(n+1), fmt.Sprintf("c%d", n))},
					Events: []core.Event{{Type: core.EventTaskComplete, TaskID: strconv.Itoa(n)}},
				})
				if err != nil {
					k.t.Error(err)
				}
				// A stale commit beside it is refused and must not disturb the others.
				stale := run
				stale.Epoch = 0
				if err := stores[i%2].Commit(k.ctx(), store.Step{Run: stale}); core.CodeOf(err) != core.CodeFenced {
					k.t.Errorf("stale commit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for _, run := range runs {
		es := k.events(store.EventFilter{RunID: run.ID})
		for i, e := range es {
			if e.TaskID != strconv.Itoa(i) {
				k.t.Fatalf("event %d is of task %s", i, e.TaskID)
			}
		}
		if got := k.get(run.ID); got.JournalSeq != steps || len(es) != steps {
			k.t.Errorf("journal at %d, %d events", got.JournalSeq, len(es))
		}
	}
	for i, e := range k.events(store.EventFilter{}) {
		if e.Seq != int64(i+1) {
			k.t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

// testFailsAlone commits steps that cannot be stored among good ones: those
// leave nothing, these are all kept.
func testFailsAlone(k *kit) {
	run := k.create()
	good := make([]core.Run, 12)
	for i := range good {
		good[i] = k.create()
	}
	var wg sync.WaitGroup
	for _, g := range good {
		wg.Go(func() {
			if err := k.Store.Commit(k.ctx(), store.Step{Run: g, Records: []core.Record{record(1, "c1")}}); err != nil {
				k.t.Error(err)
			}
		})
		wg.Go(func() {
			bad := store.Step{Run: run, Records: []core.Record{record(1, "c1")},
				Events: []core.Event{{Type: core.EventTaskLog}, {Type: core.EventTaskLog, Data: json.RawMessage(`{`)}}}
			k.wantCode(k.Store.Commit(k.ctx(), bad), core.CodeInvalidArguments)
		})
	}
	wg.Wait()
	for _, g := range good {
		if got := k.get(g.ID); got.JournalSeq != 1 {
			k.t.Errorf("the journal of %s is at %d", g.ID.Short(), got.JournalSeq)
		}
	}
	records, err := k.Store.Journal(k.ctx(), run.ID, 0)
	if es := k.events(store.EventFilter{}); err != nil || len(records) != 0 || len(es) != 0 || k.get(run.ID).JournalSeq != 0 {
		k.t.Errorf("%d records and %d events of steps that failed, %v", len(records), len(es), err)
	}
}

func testIdempotency(k *kit) {
	keyed := func(workspace string) store.Step {
		run := k.run()
		run.IdempotencyKey, run.Workspace = "key", workspace
		return store.Step{Run: run, Create: true}
	}
	first := keyed("/w")
	k.commit(first)
	err := k.Store.Commit(k.ctx(), keyed("/w"))
	k.wantCode(err, core.CodeDuplicate)
	if got := core.AsError(err); got == nil || got.RunID != first.Run.ID {
		k.t.Errorf("the error must name the run %s: %+v", first.Run.ID, got)
	}
	digest := func(d string) store.Step {
		s := keyed("/digests")
		s.Run.IdempotencyDigest = d
		return s
	}
	earlier := digest("sha256:aa")
	k.commit(earlier)
	k.wantCode(k.Store.Commit(k.ctx(), digest("sha256:aa")), core.CodeDuplicate)
	k.wantCode(k.Store.Commit(k.ctx(), digest("")), core.CodeDuplicate)
	err = k.Store.Commit(k.ctx(), digest("sha256:bb"))
	k.wantCode(err, core.CodeDigestMismatch)
	if got := core.AsError(err); got == nil || got.RunID != earlier.Run.ID {
		k.t.Errorf("the error must name the run %s: %+v", earlier.Run.ID, got)
	}
	// A run of an older pml has no digest: whatever comes is taken for the same.
	withDigest := keyed("/w")
	withDigest.Run.IdempotencyDigest = "sha256:bb"
	k.wantCode(k.Store.Commit(k.ctx(), withDigest), core.CodeDuplicate)
	k.commit(keyed("/elsewhere"))
	k.Clock.Advance(24 * time.Hour)
	k.commit(keyed("/w"))
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{IdempotencyKey: "key", Workspace: "/w"})
	if err != nil || len(runs) != 2 {
		k.t.Errorf("%d runs with the key, %v", len(runs), err)
	}
}

func testCheckpoints(k *kit) {
	run := k.create()
	for i := range 7 {
		k.commit(store.Step{
			Run: run, Records: []core.Record{record(int64(i+1), "c")},
			Checkpoint: &core.Checkpoint{ID: k.id(), RunID: run.ID, Layer: i, DAGVersion: 1, JournalSeq: int64(i + 1), CreatedAt: k.now()},
		})
	}
	cps, err := k.Store.Checkpoints(k.ctx(), run.ID)
	var layers []int
	for _, c := range cps {
		layers = append(layers, c.Layer)
	}
	if diff := cmp.Diff([]int{2, 3, 4, 5, 6}, layers); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
}

func testEndSupersedes(k *kit) {
	run, a := k.waiting()
	run.State, run.EndedAt = core.RunAborted, k.in(0)
	k.commit(store.Step{Run: run})
	if got := k.getApproval(a.ID); got.State != core.ApprovalSuperseded {
		k.t.Errorf("the approval is %s", got.State)
	}
	if es := k.events(store.EventFilter{Types: []core.EventType{core.EventApprovalResolved}}); len(es) != 1 || es[0].ApprovalID != a.ID {
		k.t.Errorf("events: %+v", es)
	}
	if rows := k.audit(); len(rows) != 1 || rows[0].Outcome != core.ApprovalSuperseded {
		k.t.Errorf("audit: %+v", rows)
	}
	open, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}})
	if err != nil || len(open) != 0 {
		k.t.Errorf("%d still open, %v", len(open), err)
	}
}

func testUsed(k *kit) {
	run, a := k.waiting()
	k.commit(store.Step{Run: run, Used: []store.Use{{Approval: a.ID, CallID: "c1"}, {Approval: a.ID, CallID: "c1"}}})
	if got := k.getApproval(a.ID); !got.Used || !cmp.Equal([]string{"c1"}, got.CallIDs) || got.State != core.ApprovalOpen {
		k.t.Errorf("%+v", got)
	}
}
