package temporal_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// newRun is a run that was created at some time.
func newRun(at time.Time, change ...func(*core.Run)) core.Run {
	run := core.Run{
		ID: enginetest.NewID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: at.UTC(),
		UpdatedAt: at.UTC(), Runner: "r1", Epoch: 1, DAGVersion: 1, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
	for _, f := range change {
		f(&run)
	}
	return run
}

// begun is the step that begins a run.
func begun(run core.Run) store.Step {
	return store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}}
}

// awaitRuns lists runs until there are as many as wanted: the index lags behind.
func awaitRuns(t *testing.T, s *temporal.Store, f store.RunFilter, want int) []core.Run {
	t.Helper()
	var got []core.Run
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); pause(20 * time.Millisecond) {
		var err error
		if got, err = s.Runs(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if len(got) == want {
			return got
		}
	}
	t.Fatalf("%+v: %d runs, want %d", f, len(got), want)
	return nil
}

func idsOf(runs []core.Run) (ids []core.ID) {
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// Runs that another process has begun, in no order and some at the same nanosecond, are listed by
// when they were created, page by page, although the index gives less at once than there is.
func TestRuns_OfOthers(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	start := time.Date(2026, 11, 20, 8, 0, 0, 998, time.UTC)
	var want []core.Run
	for i := range 40 {
		want = append(want, newRun(start.Add(time.Duration(i/3)*300), func(r *core.Run) {
			if i%4 == 0 {
				r.State = core.RunComplete
			}
			r.Workspace = []string{"/w", "/it's \"a\" path\\" + strings.Repeat("x", 300)}[i%2]
			r.Owner = []string{"ann", "", "ünï"}[i%3]
		}))
	}
	for _, i := range rand.Perm(len(want)) {
		if err := s.Commit(t.Context(), begun(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(want, func(a, b core.Run) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	other := open(t, opts)
	t.Cleanup(func() { _ = other.Close() })
	temporal.SetPage(other, 7)
	awaitRuns(t, other, store.RunFilter{}, len(want))
	for name, f := range map[string]store.RunFilter{
		"all": {}, "state": {States: []core.RunState{core.RunRunning, core.RunAborted}}, "workspace": {Workspace: want[0].Workspace},
		"other workspace": {Workspace: want[1].Workspace}, "owner": {Owner: "ünï"}, "both": {Owner: "ann", States: []core.RunState{core.RunComplete}},
		"nobody's": {Owner: "bob"},
	} {
		var match []core.Run
		for _, r := range want {
			if (f.Workspace == "" || f.Workspace == r.Workspace) && (f.Owner == "" || f.Owner == r.Owner) && (f.States == nil || slices.Contains(f.States, r.State)) {
				match = append(match, r)
			}
		}
		for _, limit := range []int{0, 1, 4, 25} {
			temporal.Forget(other) // all that it lists comes from the index
			var got []core.ID
			f.Limit, f.Before = limit, ""
			for {
				page, err := other.Runs(t.Context(), f)
				if err != nil || limit > 0 && len(page) > limit {
					t.Fatalf("%s: %d runs, %v", name, len(page), err)
				}
				got = append(got, idsOf(page)...)
				if len(page) == 0 || limit == 0 {
					break
				}
				f.Before = page[len(page)-1].ID
			}
			if !slices.Equal(got, idsOf(match)) {
				t.Errorf("%s, %d at once: %v, want %v", name, limit, got, idsOf(match))
			}
		}
	}
}

// What another process has changed is listed as it is, and by what it is, once the index knows it.
func TestRuns_Changed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	run := newRun(time.Now())
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	running := store.RunFilter{States: []core.RunState{core.RunRunning}}
	awaitRuns(t, other, running, 1)
	run.State = core.RunComplete
	if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	if list, err := other.Runs(t.Context(), running); err != nil || len(list) != 0 {
		t.Errorf("it has ended and is listed as running: %v %v", list, err)
	}
	if list := awaitRuns(t, other, store.RunFilter{States: []core.RunState{core.RunComplete}}, 1); list[0].State != core.RunComplete {
		t.Errorf("it is %s", list[0].State)
	}
}

// A process finds the runs and approvals of others by how their ids begin, a whole id of a run at once.
func TestFind_OfOthers(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	step := begun(newRun(time.Now()))
	ask := core.Approval{ID: enginetest.NewID(), RunID: step.Run.ID, Type: core.ApproveTool, State: core.ApprovalOpen, Workspace: "/w", CreatedAt: time.Now().UTC(), Digest: "d"}
	step.Open = []core.Approval{ask}
	if err := s.Commit(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if found, err := other.Find(t.Context(), string(step.Run.ID), 5); err != nil || !slices.Equal(found.Runs, []core.ID{step.Run.ID}) {
		t.Errorf("by the whole id: %v %v", found, err)
	}
	fresh := open(t, opts)
	t.Cleanup(func() { _ = fresh.Close() })
	awaitRuns(t, fresh, store.RunFilter{}, 1)
	last := open(t, opts)
	t.Cleanup(func() { _ = last.Close() })
	for prefix, want := range map[string]store.Found{
		string(step.Run.ID[:13]): {Runs: []core.ID{step.Run.ID}}, string(ask.ID[:30]): {Approvals: []core.ID{ask.ID}},
		"": {Runs: []core.ID{step.Run.ID}, Approvals: []core.ID{ask.ID}}, "zz": {}, "' OR 1=1": {},
	} {
		found, err := last.Find(t.Context(), prefix, 5)
		if err != nil || !slices.Equal(found.Runs, want.Runs) || !slices.Equal(found.Approvals, want.Approvals) {
			t.Errorf("%q: %+v %v", prefix, found, err)
		}
	}
}
