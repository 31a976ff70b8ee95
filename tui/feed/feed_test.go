package feed_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/state"
)

// TestFeed_Start: the first frame has the newest runs and what waits; the rest
// comes behind it.
func TestFeed_Start(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		for i := range 1500 {
			b.put(run(i, core.RunComplete))
			time.Sleep(time.Millisecond)
		}
		b.approvals = []core.Approval{{ID: "a1", RunID: run(3, "").ID, State: core.ApprovalOpen}}
		b.delay["list"], b.delay["events"] = 20*time.Millisecond, 100*time.Millisecond
		v := running(t, feed.Options{Backend: b, MaxRuns: 1000})
		v.after(10*time.Millisecond, func(s *state.State) {
			if s.Loaded || s.Links.Client.State != state.LinkConnecting {
				t.Errorf("loaded before anything was read: %+v", s.Links)
			}
		})
		v.after(100*time.Millisecond, func(s *state.State) {
			if !s.Loaded || len(s.Runs()) != 200 || len(s.Waiting(time.Now())) != 1 {
				t.Errorf("loaded %v, %d runs, %d waiting", s.Loaded, len(s.Runs()), len(s.Waiting(time.Now())))
			}
			if s.Runs()[0] != run(1499, "").ID {
				t.Errorf("%s is not the newest run", s.Runs()[0])
			}
			if s.Links.Client.State != state.LinkLive || s.Links.Server.State != state.LinkLive || s.Links.Client.AsOf.IsZero() {
				t.Errorf("%+v", s.Links)
			}
		})
		v.after(time.Second, func(s *state.State) {
			if n := len(s.Runs()); n < 1000 || n > 1200 {
				t.Errorf("%d runs", n)
			}
		})
		if n := b.calls("run"); n != 0 {
			t.Errorf("%d runs were read one by one", n)
		}
	})
}

// TestFeed_Backlog: of 100,000 events the last thousand or so are shown, and few
// are read for that; what happened before tells nothing new of runs.
func TestFeed_Backlog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.put(run(1, core.RunRunning))
		for range 100_000 {
			b.events[core.SideClient] = append(b.events[core.SideClient], core.Event{
				Seq: int64(len(b.events[core.SideClient]) + 1), Side: core.SideClient, Type: core.EventWorkflowComplete, RunID: "gone", At: time.Now(),
			})
		}
		b.seqs[core.SideClient] = 100_000
		v := running(t, feed.Options{Backend: b})
		v.after(time.Second, func(s *state.State) {
			e := s.Events()
			if len(e) != 1000 || e[len(e)-1].Seq != 100_000 {
				t.Errorf("%d events up to %d", len(e), e[len(e)-1].Seq)
			}
			if _, ok := s.Run("gone"); ok || s.CountRuns() != 1 {
				t.Error("an old event made a run")
			}
		})
		if n, passed := b.calls("events"), b.calls("passed"); passed > 1020 || n > 25 {
			t.Errorf("%d events were read in %d calls to find the newest", passed, n)
		}
		if n := b.calls("run"); n > 0 {
			t.Errorf("%d runs were read", n)
		}
		b.emit(core.Event{Type: core.EventWorkflowStart, RunID: run(1, "").ID})
		v.after(time.Second, func(s *state.State) {
			if e := s.Events(); e[len(e)-1].Seq != 100_001 {
				t.Error("a new event did not come")
			}
		})
	})
}

// TestFeed_Batches: a thousand events a second are at most thirteen changes, and
// the run they are of is not read for each.
func TestFeed_Batches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.put(run(1, core.RunRunning))
		v := running(t, feed.Options{Backend: b})
		v.feed.Want([]core.ID{run(1, "").ID})
		v.after(2*time.Second, func(*state.State) {})
		b.calls("run")
		for range 1000 {
			b.emit(core.Event{Type: core.EventTaskComplete, RunID: run(1, "").ID, Tool: "a:b"})
			time.Sleep(time.Millisecond)
		}
		v.after(0, func(*state.State) {
			if v.applied == 0 || v.applied > 13 {
				t.Errorf("%d changes", v.applied)
			}
		})
		v.after(200*time.Millisecond, func(s *state.State) {
			if s.EventsSeen() != 1000 {
				t.Errorf("%d events", s.EventsSeen())
			}
		})
		if n := b.calls("run"); n == 0 || n > 15 {
			t.Errorf("the run was read %d times", n)
		}
	})
}

// TestFeed_Soon: one event after a quiet time is there at once.
func TestFeed_Soon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		v := running(t, feed.Options{Backend: b})
		v.after(2*time.Second, func(*state.State) {})
		b.emit(core.Event{Type: core.EventTaskLog, RunID: "r"})
		v.after(0, func(s *state.State) {
			if s.EventsSeen() != 1 {
				t.Error("it waits")
			}
		})
	})
}

// TestFeed_SlowScreen: what happens while a change is applied is gathered, and
// nothing is lost however long it takes.
func TestFeed_SlowScreen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		v := running(t, feed.Options{Backend: b})
		v.after(2*time.Second, func(*state.State) {})
		v.after(0, func(*state.State) { v.slow = 3 * time.Second })
		for range 9000 {
			b.emit(core.Event{Type: core.EventTaskLog, RunID: "r"})
			time.Sleep(100 * time.Microsecond)
		}
		if n := b.calls("followed"); n > 5000 {
			t.Errorf("%d events were taken while the screen did nothing", n)
		}
		v.after(30*time.Second, func(s *state.State) {
			if s.EventsSeen() != 9000 {
				t.Errorf("%d events", s.EventsSeen())
			}
		})
	})
}

// TestFeed_Changes: a run that an event tells of is read again: one that is not
// known, one that has ended, and one whose layers are wanted; not for every event.
func TestFeed_Changes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		known, wanted := run(1, core.RunRunning), run(2, core.RunRunning)
		b.put(known)
		b.put(wanted)
		v := running(t, feed.Options{Backend: b})
		v.feed.Want([]core.ID{wanted.ID})
		v.after(2*time.Second, func(s *state.State) {
			if _, ok := s.Workflow(wanted.ID); !ok {
				t.Error("what is wanted was not loaded")
			}
			if _, ok := s.Workflow(known.ID); ok {
				t.Error("what nobody wants was loaded")
			}
		})
		b.calls("run")
		b.emit(core.Event{Type: core.EventTaskStart, RunID: known.ID})
		b.emit(core.Event{Type: core.EventTaskLog, RunID: wanted.ID})
		v.after(time.Second, func(*state.State) {})
		if n := b.calls("run"); n != 0 {
			t.Errorf("%d reads for nothing", n)
		}

		b.do(func() { b.layers[wanted.ID] = []core.Layer{{Tasks: []core.Task{{ID: "t", Tool: "s:t"}}}} })
		b.emit(core.Event{Type: core.EventTaskStart, RunID: wanted.ID})
		fresh := run(3, core.RunRunning)
		b.put(fresh)
		b.emit(core.Event{Type: core.EventWorkflowStart, RunID: fresh.ID})
		ended := known
		ended.State, ended.CurrentLayer = core.RunComplete, 2
		b.put(ended)
		b.emit(core.Event{Type: core.EventWorkflowComplete, RunID: ended.ID})
		v.after(time.Second, func(s *state.State) {
			if w, _ := s.Workflow(wanted.ID); len(w.Layers) != 1 {
				t.Error("the layers are old")
			}
			if r, ok := s.Run(fresh.ID); !ok || r.TotalLayers != 2 {
				t.Error("a new run is not there")
			}
			if r, _ := s.Run(ended.ID); r.State != core.RunComplete || r.CurrentLayer != 2 {
				t.Errorf("a run that has ended: %+v", r)
			}
		})
		if n := b.calls("run"); n != 3 {
			t.Errorf("%d reads of 3 runs", n)
		}
	})
}

// TestFeed_Interrupted: a run whose process died tells nothing; its layers are
// read again once it is found in another state.
func TestFeed_Interrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		r := run(1, core.RunRunning)
		b.put(r)
		v := running(t, feed.Options{Backend: b})
		v.feed.Want([]core.ID{r.ID})
		v.after(2*time.Second, func(*state.State) {})
		r.State = core.RunInterrupted
		b.put(r)
		b.do(func() {
			b.layers[r.ID] = []core.Layer{{Tasks: []core.Task{{ID: "t", Tool: "s:t", State: core.TaskWaiting}}}}
		})
		v.after(15*time.Second, func(s *state.State) {
			if got, _ := s.Run(r.ID); got.State != core.RunInterrupted {
				t.Errorf("the run is %s", got.State)
			}
			if w, _ := s.Workflow(r.ID); len(w.Layers) != 1 {
				t.Error("the layers are old")
			}
		})
	})
}

// TestFeed_WantedAgain: a run that nobody looks at is read for its header alone.
// When it is looked at again, so are its layers.
func TestFeed_WantedAgain(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBackend()
			r := run(1, core.RunWaiting)
			b.put(r)
			v := running(t, feed.Options{Backend: b})
			v.feed.Want([]core.ID{r.ID})
			v.after(2*time.Second, func(*state.State) {})
			v.feed.Want(nil)
			v.after(time.Second, func(*state.State) {})
			r.State, r.JournalSeq = core.RunComplete, 7
			b.put(r)
			b.do(func() {
				b.layers[r.ID] = []core.Layer{{Tasks: []core.Task{{ID: "t", Tool: "s:t", State: core.TaskSuccess}}}}
			})
			if told {
				b.emit(core.Event{Type: core.EventWorkflowComplete, RunID: r.ID})
			}
			v.after(15*time.Second, func(s *state.State) {
				if got, _ := s.Run(r.ID); got.State != core.RunComplete {
					t.Errorf("told %v: the run is %s", told, got.State)
				}
			})
			v.feed.Want([]core.ID{r.ID})
			v.after(2*time.Second, func(s *state.State) {
				if w, _ := s.Workflow(r.ID); len(w.Layers) != 1 {
					t.Errorf("told %v: the layers are old", told)
				}
			})
			b.calls("run")
			v.after(time.Minute, func(*state.State) {})
			if n := b.calls("run"); n != 0 {
				t.Errorf("told %v: %d reads of a run that has ended", told, n)
			}
		})
	}
}

// TestFeed_Many: many runs that nobody looks at are read as a list; those that
// are not in it one by one, never more than four at once.
func TestFeed_Many(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		for i := range 600 {
			b.put(run(i, core.RunRunning))
			time.Sleep(time.Millisecond)
		}
		b.delay["run"], b.delay["list"] = 5*time.Millisecond, 5*time.Millisecond
		v := running(t, feed.Options{Backend: b})
		v.after(2*time.Second, func(*state.State) {})
		b.calls("list")
		b.calls("run")
		for _, i := range []int{1, 2, 3} { // older than a page
			r := run(i, core.RunWaiting)
			r.CreatedAt = b.runs[r.ID].CreatedAt
			b.put(r)
			b.emit(core.Event{Type: core.EventCheckpoint, RunID: r.ID})
		}
		for i := 450; i < 600; i++ {
			r := run(i, core.RunFailed)
			r.CreatedAt = b.runs[r.ID].CreatedAt
			b.put(r)
			b.emit(core.Event{Type: core.EventWorkflowFailed, RunID: r.ID})
		}
		v.after(2*time.Second, func(s *state.State) {
			if n := s.CountRuns(core.RunFailed); n != 150 {
				t.Errorf("%d failed", n)
			}
			if n := s.CountRuns(core.RunWaiting); n != 3 {
				t.Errorf("%d waiting", n)
			}
		})
		if lists, runs := b.calls("list"), b.calls("run"); lists > 3 || runs > 20 || b.mostAtOnce() > 4 {
			t.Errorf("%d lists, %d runs, %d at once", lists, runs, b.mostAtOnce())
		}
	})
}

// TestFeed_Want: what is wanted first is read first, at most four at once; what
// is wanted no more is not kept up to date, and read again when it is.
func TestFeed_Want(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		var ids []core.ID
		for i := range 20 {
			b.put(run(i, core.RunRunning))
			ids = append(ids, run(i, "").ID)
		}
		v := running(t, feed.Options{Backend: b, Recheck: time.Hour})
		v.after(2*time.Second, func(*state.State) {})
		b.do(func() { b.delay["run"] = 100 * time.Millisecond })
		v.feed.Want(ids)
		v.after(290*time.Millisecond, func(s *state.State) {
			for i, id := range ids {
				if _, ok := s.Workflow(id); ok != (i < 8) {
					t.Errorf("%d: loaded %v", i, ok)
				}
			}
		})
		if b.mostAtOnce() != 4 {
			t.Errorf("%d at once", b.mostAtOnce())
		}
		v.feed.Want(ids[19:])
		v.after(3*time.Second, func(s *state.State) {
			if _, ok := s.Workflow(ids[19]); !ok {
				t.Error("the one that is wanted now is not loaded")
			}
			if _, ok := s.Workflow(ids[15]); ok {
				t.Error("one that was given up is loaded")
			}
		})
		b.calls("run")
		b.do(func() { b.layers[ids[0]] = []core.Layer{{}} })
		b.emit(core.Event{Type: core.EventTaskStart, RunID: ids[0]})
		v.after(3*time.Second, func(*state.State) {})
		if n := b.calls("run"); n != 0 {
			t.Errorf("%d reads of what nobody wants", n)
		}
		v.feed.Want(ids[:1])
		v.after(time.Second, func(s *state.State) {
			if w, _ := s.Workflow(ids[0]); len(w.Layers) != 1 {
				t.Error("its layers are old")
			}
		})
	})
}

// TestFeed_Approvals: many approvals that come are read in a few lists; what an
// event says of one is there at once.
func TestFeed_Approvals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.put(run(1, core.RunWaiting))
		v := running(t, feed.Options{Backend: b})
		v.after(2*time.Second, func(*state.State) {})
		b.calls("approvals")
		for i := range 100 {
			id := core.ID(fmt.Sprintf("a%d", i))
			b.do(func() {
				b.approvals = append(b.approvals, core.Approval{ID: id, RunID: run(1, "").ID, State: core.ApprovalOpen, CreatedAt: time.Now()})
			})
			b.emit(core.Event{Type: core.EventApprovalRequested, RunID: run(1, "").ID, ApprovalID: id})
			time.Sleep(time.Millisecond)
		}
		v.after(time.Second, func(s *state.State) {
			if n := len(s.Waiting(time.Now())); n != 100 {
				t.Errorf("%d wait", n)
			}
		})
		if n := b.calls("approvals"); n > 4 {
			t.Errorf("%d lists", n)
		}
		b.do(func() { b.delay["approvals"], b.delay["run"] = time.Minute, time.Minute })
		b.emit(core.Event{Type: core.EventApprovalResolved, RunID: run(1, "").ID, ApprovalID: "a7", Data: []byte(`{"state":"denied","decided_by":{"who":"eve","via":"cli"}}`)})
		v.after(100*time.Millisecond, func(s *state.State) {
			if a, _ := s.Approval("a7"); a.State != core.ApprovalDenied || a.DecidedBy.Who != "eve" {
				t.Errorf("%+v", a)
			}
		})
		b.do(func() { b.delay["approvals"], b.delay["run"] = 0, 0 })
		v.after(2*time.Minute, func(s *state.State) {
			if a, _ := s.Approval("a7"); a.State != core.ApprovalDenied {
				t.Error("an old list took the decision back")
			}
		})
	})
}

// TestFeed_Overtaken: a slow answer from before the end of a run does not show
// it as running again, not even for a moment.
func TestFeed_Overtaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		r := run(1, core.RunRunning)
		b.put(r)
		v := running(t, feed.Options{Backend: b})
		v.feed.Want([]core.ID{r.ID})
		v.after(2*time.Second, func(*state.State) {})
		b.do(func() { b.delay["run"] = time.Second })
		b.emit(core.Event{Type: core.EventTaskStart, RunID: r.ID})
		v.after(500*time.Millisecond, func(*state.State) {}) // it is being read
		ended := false
		v.after(0, func(*state.State) {
			v.each = func(s *state.State) {
				got, _ := s.Run(r.ID)
				if ended && got.State != core.RunFailed {
					t.Error("it runs again")
				}
				ended = got.State == core.RunFailed
			}
		})
		r.State = core.RunFailed
		b.put(r)
		time.Sleep(time.Millisecond)
		b.emit(core.Event{Type: core.EventWorkflowFailed, RunID: r.ID})
		v.after(20*time.Second, func(s *state.State) {
			if w, _ := s.Workflow(r.ID); w.State != core.RunFailed || !ended {
				t.Errorf("%+v", w)
			}
		})
	})
}
