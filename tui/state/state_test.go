package state_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

func id(n int) core.ID { return core.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)) }

func headerOf(n int, st core.RunState) core.Run {
	at := now.Add(time.Duration(n) * time.Second)
	return core.Run{ID: id(n), Side: core.SideClient, State: st, CreatedAt: at, UpdatedAt: at, Intent: fmt.Sprintf("run %d", n)}
}

// TestRuns_Model: the order, the counts and every list are those of a plain
// list of the runs, whatever was put and dropped before.
func TestRuns_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, model := state.New(10), map[core.ID]core.Run{}
		var list state.RunList
		put := func(n int) core.Run {
			r := headerOf(n%7, rapid.SampledFrom(core.RunStates).Draw(t, "state"))
			r.ID = id(n) // some are of the same time
			r.Intent = rapid.SampledFrom([]string{"", "alpha", "Beta", "gamma"}).Draw(t, "intent")
			r.TotalLayers, r.CurrentLayer = 4, rapid.IntRange(0, 4).Draw(t, "layer")
			model[r.ID] = r
			return r
		}
		t.Repeat(map[string]func(*rapid.T){
			"one": func(t *rapid.T) { s.PutRuns(put(rapid.IntRange(0, 99).Draw(t, "n"))) },
			"many": func(t *rapid.T) {
				var runs []core.Run
				for n := range 70 {
					runs = append(runs, put(n))
				}
				s.PutRuns(runs...)
			},
			"workflow": func(t *rapid.T) {
				s.PutWorkflow(core.Workflow{Run: put(rapid.IntRange(0, 99).Draw(t, "n"))})
			},
			"drop": func(t *rapid.T) {
				gone := id(rapid.IntRange(0, 99).Draw(t, "n"))
				s.DropRun(gone)
				delete(model, gone)
			},
			"": func(t *rapid.T) { checkRuns(t, s, model, &list) },
		})
	})
}

func checkRuns(t *rapid.T, s *state.State, model map[core.ID]core.Run, list *state.RunList) {
	want := make([]core.Run, 0, len(model))
	for _, r := range model {
		want = append(want, r)
		if got, ok := s.Run(r.ID); !ok || got.State != r.State || got.CurrentLayer != r.CurrentLayer {
			t.Fatalf("%s: %+v, want %+v", r.ID, got, r)
		}
	}
	newest := func(a, b core.Run) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	}
	slices.SortFunc(want, newest)
	same := func(what string, got []core.ID) {
		if !slices.EqualFunc(got, want, func(id core.ID, r core.Run) bool { return id == r.ID }) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	same("all", s.Runs())
	for _, st := range core.RunStates {
		n := 0
		for _, r := range want {
			if r.State == st {
				n++
			}
		}
		if s.CountRuns(st) != n || s.CountRuns() != len(model) {
			t.Fatalf("%d are %s, want %d", s.CountRuns(st), st, n)
		}
	}
	key := rapid.SampledFrom(state.SortKeys).Draw(t, "sort")
	q := state.RunQuery{Sort: key, Reverse: rapid.Bool().Draw(t, "reverse")}
	q.Filter, _ = state.ParseFilter(rapid.SampledFrom([]string{"", "status:waiting,running", "alpha"}).Draw(t, "filter"))
	want = slices.DeleteFunc(want, func(r core.Run) bool { return !q.Filter.Run(r) })
	slices.SortStableFunc(want, bySort(key))
	if q.Reverse {
		slices.Reverse(want)
	}
	same(fmt.Sprintf("%+v", q), list.IDs(s, q))
	same("again", list.IDs(s, q))
}

func bySort(key state.SortKey) func(a, b core.Run) int {
	layer := func(r core.Run) int {
		if r.State == core.RunComplete {
			return r.TotalLayers
		}
		return r.CurrentLayer
	}
	switch key {
	case state.SortStatus:
		return func(a, b core.Run) int {
			return slices.Index(core.RunStates, a.State) - slices.Index(core.RunStates, b.State)
		}
	case state.SortName:
		return func(a, b core.Run) int {
			return strings.Compare(strings.ToLower(state.Name(a)), strings.ToLower(state.Name(b)))
		}
	case state.SortLayer:
		return func(a, b core.Run) int { return layer(b) - layer(a) }
	case state.SortUpdated:
		return func(a, b core.Run) int { return b.UpdatedAt.Compare(a.UpdatedAt) }
	default:
		return func(a, b core.Run) int { return 0 }
	}
}

// TestApprovals_Model: who waits and who does not is as core.Approval says at
// every time, in the order of the lists.
func TestApprovals_Model(t *testing.T) {
	t.Parallel()
	states := []core.ApprovalState{core.ApprovalOpen, core.ApprovalOpen, core.ApprovalApproved, core.ApprovalDenied, core.ApprovalSuperseded, core.ApprovalExpired}
	rapid.Check(t, func(t *rapid.T) {
		s, model := state.New(10), map[core.ID]core.Approval{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := rapid.IntRange(0, 30).Draw(t, "n")
				a := core.Approval{ID: id(n), RunID: id(n % 3), State: rapid.SampledFrom(states).Draw(t, "state"), CreatedAt: now}
				if m := rapid.IntRange(0, 10).Draw(t, "minutes"); m > 0 {
					at := now.Add(time.Duration(m) * time.Minute)
					a.ExpiresAt = &at
				}
				if a.State == core.ApprovalApproved {
					a.DecidedBy = &core.DecidedBy{At: now.Add(time.Duration(n) * time.Second)}
				}
				s.PutApprovals(a)
				if old, ok := model[a.ID]; !ok || old.State == core.ApprovalOpen || a.State != core.ApprovalOpen {
					model[a.ID] = a
				}
			},
			"drop": func(t *rapid.T) {
				run := id(rapid.IntRange(0, 2).Draw(t, "run"))
				s.DropRun(run)
				for i, a := range model {
					if a.RunID == run {
						delete(model, i)
					}
				}
			},
			"": func(t *rapid.T) {
				checkApprovals(t, s, model, now.Add(time.Duration(rapid.IntRange(-1, 11).Draw(t, "at"))*time.Minute))
			},
		})
	})
}

func checkApprovals(t *rapid.T, s *state.State, model map[core.ID]core.Approval, at time.Time) {
	var want []core.Approval
	first := map[core.ID]core.ID{}
	for _, a := range model {
		if a.StateAt(at) == core.ApprovalOpen {
			want = append(want, a)
		}
	}
	slices.SortFunc(want, core.BySoonest)
	for _, a := range slices.Backward(want) {
		first[a.RunID] = a.ID
	}
	sameID := func(a, b core.Approval) bool { return a.ID == b.ID && a.State == b.State }
	if got := s.Waiting(at); !slices.EqualFunc(got, want, sameID) {
		t.Fatalf("waiting: %v, want %v", got, want)
	}
	for run := range 3 {
		if a, ok := s.WaitingOf(id(run), at); ok != (first[id(run)] != "") || a.ID != first[id(run)] {
			t.Fatalf("of run %d waits %q, want %q", run, a.ID, first[id(run)])
		}
	}
	all := s.Resolved(at, 1000)
	if len(all)+len(want) != len(model) {
		t.Fatalf("%d resolved, %d wait, of %d", len(all), len(want), len(model))
	}
	var last time.Time
	for i, a := range all {
		when := a.CreatedAt
		switch {
		case a.DecidedBy != nil:
			when = a.DecidedBy.At
		case a.State != core.ApprovalSuperseded && a.ExpiresAt != nil:
			when = *a.ExpiresAt
		}
		if a.StateAt(at) == core.ApprovalOpen || i > 0 && when.After(last) {
			t.Fatalf("resolved: %v is not in its place", a)
		}
		last = when
	}
	if few := s.Resolved(at, 2); len(few) != min(2, len(all)) || len(s.Resolved(at, -1)) != 0 {
		t.Fatalf("%d of the resolved", len(few))
	}
}

// TestEvents_Ring: the newest events are kept, in their order and with their
// numbers, and lists of them have those that match.
func TestEvents_Ring(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 30).Draw(t, "keep")
		s := state.New(keep)
		var all []core.Event
		var list state.EventList
		f, err := state.ParseFilter("type:task_log")
		if err != nil {
			t.Fatal(err)
		}
		seqs := map[core.Side]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					side := rapid.SampledFrom([]core.Side{core.SideClient, core.SideServer}).Draw(t, "side")
					seqs[side] += rapid.Int64Range(0, 2).Draw(t, "step")
					e := core.Event{Seq: seqs[side], Side: side, Type: rapid.SampledFrom(core.EventTypes).Draw(t, "type")}
					before := s.EventsSeen()
					s.AddEvents(e)
					if s.EventsSeen() > before {
						all = append(all, e)
					}
				}
			},
			"": func(t *rapid.T) {
				want := all[max(0, len(all)-keep):]
				same := func(a, b core.Event) bool { return a.Seq == b.Seq && a.Side == b.Side && a.Type == b.Type }
				if !slices.EqualFunc(s.Events(), want, same) || s.EventsSeen() != int64(len(all)) {
					t.Fatalf("%v, want %v", s.Events(), want)
				}
				var matching []core.Event
				for _, n := range list.Numbers(s, f, now) {
					e, ok := s.EventAt(n)
					if !ok || !same(e, all[n]) {
						t.Fatalf("number %d: %v, want %v", n, e, all[n])
					}
					matching = append(matching, e)
				}
				if want := slices.DeleteFunc(slices.Clone(want), func(e core.Event) bool { return !f.Event(e) }); !slices.EqualFunc(matching, want, same) {
					t.Fatalf("%v, want %v", matching, want)
				}
				if _, ok := s.EventAt(s.EventsSeen()); ok {
					t.Fatal("an event that is yet to come")
				}
				if _, ok := s.EventAt(s.FirstEvent() - 1); ok {
					t.Fatal("an event that is gone")
				}
			},
		})
	})
}

// TestAddEvents_Facts: an event changes what it says itself, and only where what
// is known is older.
func TestAddEvents_Facts(t *testing.T) {
	t.Parallel()
	s := state.New(100)
	s.PutRuns(headerOf(1, core.RunRunning), headerOf(2, core.RunRunning), headerOf(3, core.RunRunning))
	s.PutWorkflow(core.Workflow{Run: headerOf(1, core.RunRunning)})
	expires := now.Add(time.Hour)
	for n := range 4 {
		s.PutApprovals(core.Approval{ID: id(10 + n), RunID: id(1), State: core.ApprovalOpen, CreatedAt: now, ExpiresAt: &expires})
	}
	later := now.Add(time.Minute)
	s.AddEvents(
		core.Event{Seq: 1, RunID: id(1), At: later, Type: core.EventWorkflowFailed, Error: core.Errorf(core.CodeToolFailed, "no")},
		core.Event{Seq: 2, RunID: id(2), At: now, Type: core.EventWorkflowComplete}, // what is known is of later
		core.Event{Seq: 3, RunID: id(3), At: later, Type: core.EventTaskComplete, Tool: "a:b"},
		core.Event{Seq: 4, RunID: id(9), At: later, Type: core.EventWorkflowComplete}, // not known
		core.Event{Seq: 5, ApprovalID: id(10), At: later, Type: core.EventApprovalResolved, Data: json.RawMessage(`{"state":"approved","decided_by":{"who":"me"}}`)},
		core.Event{Seq: 6, ApprovalID: id(11), At: later, Type: core.EventApprovalResolved, Message: "superseded"},
		core.Event{Seq: 7, ApprovalID: id(12), At: later, Type: core.EventApprovalResolved},
		core.Event{Seq: 8, ApprovalID: id(13), At: later, Type: core.EventApprovalResolved, Data: json.RawMessage(`"?"`)},
		core.Event{Seq: 9, ApprovalID: id(99), At: later, Type: core.EventApprovalResolved, Message: "superseded"},
	)
	if r, _ := s.Run(id(1)); r.State != core.RunFailed || r.Error.Message != "no" || !r.EndedAt.Equal(later) {
		t.Errorf("%+v", r)
	}
	if w, _ := s.Workflow(id(1)); w.State != core.RunFailed {
		t.Error("the layers have another header")
	}
	for _, n := range []int{2, 3} {
		if r, _ := s.Run(id(n)); r.State != core.RunRunning {
			t.Errorf("%+v", r)
		}
	}
	if _, ok := s.Run(id(9)); ok {
		t.Error("an event made a run")
	}
	if got := s.Tools(id(3)); !slices.Equal(got, []string{"a:b"}) {
		t.Errorf("tools %v", got)
	}
	for n, want := range map[int]core.ApprovalState{10: core.ApprovalApproved, 11: core.ApprovalSuperseded, 12: core.ApprovalOpen, 13: core.ApprovalOpen} {
		if a, _ := s.Approval(id(n)); a.State != want || (a.DecidedBy != nil) != (n == 10) {
			t.Errorf("%d: %+v", n, a)
		}
	}
	// The last to be settled is the first of the resolved, though nobody said when
	// it was superseded but the event.
	if got := s.Resolved(now, 9); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestDecisions_Refused: a call that somebody or a hook flow has refused is in the audit log; one that failed is not.
func TestDecisions_Refused(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	s.AddEvents(core.Event{Seq: 1, Type: core.EventTaskError, RunID: "r", Error: core.Errorf(core.CodeToolFailed, "no")})
	if n := s.Decisions(); n != 0 {
		t.Errorf("%d decisions", n)
	}
	s.AddEvents(core.Event{Seq: 2, Type: core.EventTaskError, RunID: "r", Error: &core.Error{Code: core.CodeDenied, Decided: &core.DecidedBy{}}})
	if n := s.Decisions(); n != 1 {
		t.Errorf("%d decisions", n)
	}
}

// TestAddEvents_Trim: what is too large to be kept says how much it was.
func TestAddEvents_Trim(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	long := strings.Repeat("é", 5000)
	s.AddEvents(core.Event{
		Seq: 1, Message: long, Data: json.RawMessage(`"` + long + `"`), TaskID: long,
		Error: &core.Error{Message: long, Stack: long, Failures: []core.Failure{{Error: long}, {}}},
	}, core.Event{Seq: 2, Message: "short", Data: json.RawMessage(`{"a":1}`)})
	e := s.Events()[0]
	if len(e.Message) > 4200 || !strings.HasSuffix(e.Message, "é… (5904 more bytes)") || string(e.Data) != `{"left_out_bytes":10002}` || len(e.TaskID) > 4200 {
		t.Errorf("%d bytes, %s", len(e.Message), e.Data)
	}
	if len(e.Error.Stack) > 4200 || len(e.Error.Failures) != 0 || !strings.HasSuffix(e.Error.Message, " (2 causes left out)") {
		t.Errorf("%+v", e.Error)
	}
	if e := s.Events()[1]; e.Message != "short" || string(e.Data) != `{"a":1}` {
		t.Errorf("%+v", e)
	}
}

// TestGaps: a gap stands before the first event behind it, whether that came
// before it was told of or after.
func TestGaps(t *testing.T) {
	t.Parallel()
	s := state.New(5)
	server := func(seq int64) core.Event { return core.Event{Seq: seq, Side: core.SideServer} }
	s.AddEvents(server(1), server(2), core.Event{Seq: 1}, server(3))
	s.AddGap(state.Gap{Side: core.SideServer, Seq: 2})
	s.AddGap(state.Gap{Side: core.SideServer, Seq: 3})
	if g := s.Gaps(); len(g) != 2 || g[0].Before != 3 || g[1].Before != 4 {
		t.Errorf("%+v", g)
	}
	s.AddEvents(server(4), server(5), server(6))
	if g := s.Gaps(); len(g) != 2 { // events 2 to 6 are kept
		t.Errorf("%+v", g)
	}
	s.AddEvents(server(7))
	if g := s.Gaps(); len(g) != 1 || g[0].Before != 4 {
		t.Errorf("%+v", g)
	}
	for n := range int64(300) {
		s.AddGap(state.Gap{Seq: n})
	}
	if g := s.Gaps(); len(g) != 100 || g[99].Seq != 299 {
		t.Errorf("%d gaps", len(g))
	}
}

// TestPruneDetails: what was put last and what is wanted stays.
func TestPruneDetails(t *testing.T) {
	t.Parallel()
	s := state.New(1)
	for n := range 250 {
		s.PutWorkflow(core.Workflow{Run: headerOf(n, core.RunRunning)})
	}
	gone := s.PruneDetails([]core.ID{id(3)})
	if len(gone) != 50 || slices.Contains(gone, id(3)) || slices.Contains(gone, id(249)) || s.CountRuns() != 250 {
		t.Errorf("%d gone, %d runs", len(gone), s.CountRuns())
	}
	if _, ok := s.Workflow(gone[0]); ok {
		t.Error("it is still there")
	}
	big := core.Workflow{Run: headerOf(300, core.RunRunning), Layers: []core.Layer{{Tasks: []core.Task{{Output: make([]byte, 30<<20)}}}}}
	s.PutWorkflow(big)
	if gone := s.PruneDetails([]core.ID{id(300)}); len(gone) != 200 {
		t.Errorf("%d gone beside a large one", len(gone))
	}
	if gone := s.PruneDetails(nil); len(gone) != 1 || len(s.PruneDetails(nil)) != 0 {
		t.Errorf("%v", gone)
	}
}

// TestVersion: it grows with news, and with nothing else.
func TestVersion(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	link := state.Link{State: state.LinkLive, Since: now}
	steps := map[string]func(){
		"run":      func() { s.PutRuns(headerOf(1, core.RunRunning)) },
		"approval": func() { s.PutApprovals(core.Approval{ID: id(1), RunID: id(1), State: core.ApprovalOpen}) },
		"event":    func() { s.AddEvents(core.Event{Seq: 1, RunID: id(1), Tool: "a:b"}) },
		"link":     func() { s.SetLink(core.SideClient, link) },
		"warnings": func() { s.SetWarnings([]string{"w"}) },
		"notices":  func() { s.SetNotices([]string{"n"}) },
		"loaded":   s.SetLoaded,
	}
	for name, do := range steps {
		before := s.Version()
		do()
		news := s.Version()
		do()
		if news == before || s.Version() != news {
			t.Errorf("%s: %d, %d, %d", name, before, news, s.Version())
		}
	}
	if s.Links.Client.Seq != 1 {
		t.Error("a link took the number of the newest event away")
	}
	before := s.Version()
	s.DropRun(id(1))
	if s.Version() == before || s.CountRuns() != 0 {
		t.Error("a run that is gone is no news")
	}
	if _, ok := s.Approval(id(1)); ok {
		t.Error("its approval stays")
	}
}

// TestName: one line, safe to show, never empty.
func TestName(t *testing.T) {
	t.Parallel()
	r := headerOf(0x7f3a91c2, core.RunRunning)
	r.Intent = "a\nb\x1b[2J\u202e"
	if got := state.Name(r); got != `a…` {
		t.Error(got)
	}
	r.Intent, r.Kind = "", core.KindDAG
	if got := state.Name(r); got != "unnamed" {
		t.Error(got)
	}
	if got := state.Name(core.Run{}); got == "" {
		t.Error("no name")
	}
	s := state.New(1)
	s.PutRuns(r)
	if a, b := s.Name(r.ID), s.Name("00\x1b000000-1"); a != "unnamed" || b != `00\x1b00000` {
		t.Error(a, b)
	}
}

// TestExpiredRuns: runs that wait for what has expired and was not asked again.
func TestExpiredRuns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	past, later := now.Add(-time.Minute), now.Add(time.Minute)
	s := state.New(10)
	asked := func(run core.ID, is core.RunState, ends time.Time, again core.ID) {
		s.PutRuns(core.Run{ID: run, State: is, CreatedAt: past, UpdatedAt: past})
		s.PutApprovals(core.Approval{ID: "of-" + run, RunID: run, State: core.ApprovalOpen, CreatedAt: past.Add(-time.Minute), ExpiresAt: &ends, RenewedBy: again})
	}
	if got := s.ExpiredRuns(now); got != 0 {
		t.Errorf("%d of none", got)
	}
	asked("expired", core.RunWaiting, past, "")
	asked("waits", core.RunWaiting, later, "")
	asked("over", core.RunAborted, past, "")
	asked("again", core.RunWaiting, past, "of-new")
	if got := s.ExpiredRuns(now); got != 1 {
		t.Errorf("%d, not 1", got)
	}
}
