package feed_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/state"
)

// wires tells of the links what a test says.
type wires chan feed.Link

func (w wires) links(ctx context.Context, f func(feed.Link)) {
	for {
		select {
		case k := <-w:
			f(k)
		case <-ctx.Done():
			return
		}
	}
}

// TestFeed_Reconnect: of a server that is away its part is shown as of when it
// was there; when it is back the lists are read again, the events go on where
// they were, and the gap is marked between them.
func TestFeed_Reconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		r := run(1, core.RunRunning)
		r.Side = core.SideServer
		b.put(r)
		for range 5 {
			b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: r.ID})
		}
		v := running(t, feed.Options{Backend: b, Links: w.links, Recheck: time.Second})
		w <- feed.Link{Side: core.SideClient, Up: true}
		w <- feed.Link{Side: core.SideServer, Up: true, Name: "https://pml.example\x1b[2J"}
		v.after(10*time.Second, func(s *state.State) {
			if k := s.Links.Server; k.State != state.LinkLive || k.Name != `https://pml.example\x1b[2J` || k.Seq != 5 || k.Resumed != 0 {
				t.Errorf("%+v", k)
			}
		})
		lost := time.Now()
		b.do(func() {
			b.warnings = []string{"the server does not answer"}
			delete(b.runs, r.ID)
		})
		w <- feed.Link{Side: core.SideServer, Err: core.Errorf(core.CodeServerUnreachable, "refused\n\x1b[0m")}
		v.after(6*time.Second, func(s *state.State) {
			k := s.Links.Server
			if k.State != state.LinkLost || !k.Since.Equal(lost) || k.Err != `refused\n\x1b[0m` || lost.Sub(k.AsOf) > 2*time.Second || k.AsOf.After(lost) {
				t.Errorf("%+v, lost %s", k, lost)
			}
			if _, ok := s.Run(r.ID); !ok || s.Links.Client.State != state.LinkLive || len(s.Warnings) != 1 {
				t.Errorf("run %v, %q", ok, s.Warnings)
			}
			if n := s.Links.Client.AsOf; time.Since(n) > 3*time.Second {
				t.Error("this machine is old as well")
			}
		})
		b.do(func() { b.warnings = nil })
		r.State = core.RunFailed
		b.put(r)
		b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: r.ID})
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(500*time.Millisecond, func(s *state.State) {
			k := s.Links.Server
			if k.State != state.LinkLive || k.Resumed != 5 || k.Err != "" || k.Seq != 6 || len(s.Warnings) != 0 {
				t.Errorf("%+v %q", k, s.Warnings)
			}
			if g := s.Gaps(); len(g) != 1 || g[0].Away != 6*time.Second || g[0].Seq != 5 || g[0].Before != 5 || g[0].Side != core.SideServer {
				t.Errorf("%+v", g)
			}
			if got, _ := s.Run(r.ID); got.State != core.RunFailed {
				t.Error("the lists were not read again")
			}
			if e := s.Events(); len(e) != 6 || e[5].Seq != 6 {
				t.Errorf("%d events", len(e))
			}
		})
	})
}

// TestFeed_NoServer: that there is none is no fault. Of one that is started later
// the newest events come, not all it ever had.
func TestFeed_NoServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		v := running(t, feed.Options{Backend: b, Links: w.links})
		w <- feed.Link{Side: core.SideServer, None: true}
		v.after(2*time.Second, func(s *state.State) {
			if s.Links.Server.State != state.LinkNone || s.Links.Client.State != state.LinkLive || len(s.Warnings) != 0 || !s.Loaded {
				t.Errorf("%+v %q", s.Links, s.Warnings)
			}
		})
		for range 5000 {
			b.do(func() { b.emitLocked(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: "r"}) })
		}
		v.after(100*time.Millisecond, func(s *state.State) {
			if n := s.EventsSeen(); n != 0 {
				t.Errorf("%d events of a server that is not there", n)
			}
		})
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(time.Second, func(s *state.State) {
			if n := s.EventsSeen(); n != 1000 || len(s.Gaps()) != 0 {
				t.Errorf("%d events, gaps %v", n, s.Gaps())
			}
		})
	})
}

// TestFeed_NobodyTells: a server that no link tells of is found all the same.
func TestFeed_NobodyTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		v := running(t, feed.Options{Backend: b, Links: make(wires).links})
		v.after(2*time.Second, func(*state.State) {})
		b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: "r"})
		v.after(15*time.Second, func(s *state.State) {
			if s.EventsSeen() != 1 {
				t.Error("its events did not come")
			}
		})
	})
}

// TestFeed_OtherStore: a side whose numbers are others than before has another
// store, and its events are followed by the new ones.
func TestFeed_OtherStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		for range 50 {
			b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: "old"})
		}
		v := running(t, feed.Options{Backend: b, Links: w.links})
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(2*time.Second, func(*state.State) {})
		w <- feed.Link{Side: core.SideServer, Err: errTest}
		b.do(func() { b.events[core.SideServer], b.seqs[core.SideServer] = nil, 0 })
		for range 3 {
			b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog, RunID: "new"})
		}
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(2*time.Second, func(s *state.State) {
			if e := s.Events(); len(e) != 53 || e[52].RunID != "new" || e[52].Seq != 3 || s.Links.Server.Seq != 3 {
				t.Errorf("%d events, %+v", len(e), s.Links.Server)
			}
		})
	})
}

var errTest = core.Errorf(core.CodeStoreFailed, "the disk is \x1b full")

// TestFeed_Failures: a backend that fails in any way ends nothing: it is said,
// what is known stays, and it is tried again, not too often.
func TestFeed_Failures(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"list", "recheck", "approvals", "events", "follow", "run"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBackend()
				r := run(1, core.RunRunning)
				b.put(r)
				b.approvals = []core.Approval{{ID: "a", RunID: r.ID, State: core.ApprovalOpen, CreatedAt: time.Now()}}
				v := running(t, feed.Options{Backend: b})
				v.feed.Want([]core.ID{r.ID})
				v.after(2*time.Second, func(s *state.State) {
					if len(s.Warnings) != 0 {
						t.Errorf("%q", s.Warnings)
					}
				})
				b.fall(errTest)
				synctest.Wait()
				b.do(func() { b.fail = map[string]error{what: errTest} })
				b.calls(what)
				v.feed.Refresh()
				v.after(time.Minute, func(s *state.State) {
					if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], `: the disk is \x1b full`) {
						t.Errorf("%q", s.Warnings)
					}
					if lost := s.Links.Client.State == state.LinkLost; lost != (what != "run") {
						t.Errorf("%+v", s.Links.Client)
					}
					if s.CountRuns() != 1 || len(s.Waiting(time.Now())) != 1 {
						t.Error("what was known is gone")
					}
				})
				if n := b.calls(what); n == 0 || n > 40 {
					t.Errorf("tried %d times in a minute", n)
				}
				b.fall(nil)
				b.do(func() { b.fail = map[string]error{} })
				r.State = core.RunWaiting
				b.put(r)
				b.emit(core.Event{Type: core.EventApprovalRequested, RunID: r.ID})
				v.after(15*time.Second, func(s *state.State) {
					if len(s.Warnings) != 0 || s.Links.Client.State != state.LinkLive {
						t.Errorf("%q %+v", s.Warnings, s.Links.Client)
					}
					if got, _ := s.Run(r.ID); got.State != core.RunWaiting || s.EventsSeen() != 1 {
						t.Errorf("%+v, %d events", got, s.EventsSeen())
					}
				})
			})
		})
	}
}

// TestFeed_FailsFromTheStart: nothing is loaded until something is.
func TestFeed_FailsFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.put(run(1, core.RunRunning))
		for _, what := range []string{"list", "recheck", "approvals", "events", "follow", "run"} {
			b.fail[what] = errTest
		}
		v := running(t, feed.Options{Backend: b})
		v.after(time.Minute, func(s *state.State) {
			if s.Loaded || s.Links.Client.State != state.LinkLost || s.Links.Client.Err == "" || len(s.Warnings) != 4 {
				t.Errorf("%v %+v %q", s.Loaded, s.Links, s.Warnings)
			}
		})
		b.do(func() { b.fail = map[string]error{} })
		v.after(time.Minute, func(s *state.State) {
			if !s.Loaded || s.Links.Client.State != state.LinkLive || len(s.Warnings) != 0 || s.CountRuns() != 1 || len(s.Gaps()) != 0 {
				t.Errorf("%v %+v %q", s.Loaded, s.Links, s.Warnings)
			}
		})
	})
}

// TestFeed_Slow: of a backend that takes long little is asked.
func TestFeed_Slow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		r := run(1, core.RunRunning)
		b.put(r)
		v := running(t, feed.Options{Backend: b})
		v.feed.Want([]core.ID{r.ID})
		v.after(2*time.Second, func(*state.State) {})
		b.do(func() {
			b.delay = map[string]time.Duration{"run": 300 * time.Millisecond, "approvals": 300 * time.Millisecond}
		})
		b.calls("run")
		b.calls("approvals")
		for range 1000 {
			b.emit(core.Event{Type: core.EventApprovalRequested, RunID: r.ID})
			time.Sleep(30 * time.Millisecond)
		}
		v.after(0, func(*state.State) {
			if runs, lists := b.calls("run"), b.calls("approvals"); runs > 12 || lists > 12 || runs < 5 || lists < 5 {
				t.Errorf("in 30 s %d runs and %d lists were read", runs, lists)
			}
		})
	})
}

// TestFeed_Gone: a run that was removed goes, with what it waited for; not
// because its server is away.
func TestFeed_Gone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		for i := range 3 {
			b.put(run(i, core.RunWaiting))
		}
		b.approvals = []core.Approval{{ID: "a", RunID: run(1, "").ID, State: core.ApprovalOpen, CreatedAt: time.Now()}}
		v := running(t, feed.Options{Backend: b, Links: w.links})
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(2*time.Second, func(*state.State) {})
		b.do(func() {
			delete(b.runs, run(1, "").ID)
			b.approvals = nil
		})
		v.after(10*time.Second, func(s *state.State) {
			if s.CountRuns() != 2 || len(s.Waiting(time.Now())) != 0 {
				t.Errorf("%d runs, %d wait", s.CountRuns(), len(s.Waiting(time.Now())))
			}
		})
		b.calls("run")
		v.after(time.Minute, func(*state.State) {})
		if n := b.calls("run"); n != 0 {
			t.Errorf("what is gone was read %d times", n)
		}
		w <- feed.Link{Side: core.SideServer, Err: errors.New("away")}
		synctest.Wait()
		b.do(func() {
			delete(b.runs, run(2, "").ID)
			b.warnings = []string{"the server does not answer"}
		})
		v.feed.Touch(run(2, "").ID)
		v.after(10*time.Second, func(s *state.State) {
			if s.CountRuns() != 2 {
				t.Error("a run went because its server is away")
			}
		})
	})
}

// TestFeed_Unheard: what no event tells of is found by looking again: a run whose
// process is gone.
func TestFeed_Unheard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		r := run(1, core.RunRunning)
		b.put(r)
		v := running(t, feed.Options{Backend: b})
		v.after(2*time.Second, func(*state.State) {})
		b.do(func() {
			r := b.runs[r.ID]
			r.State = core.RunInterrupted
			b.runs[r.ID] = r
		})
		v.after(10*time.Second, func(s *state.State) {
			if got, _ := s.Run(r.ID); got.State != core.RunInterrupted {
				t.Errorf("%+v", got)
			}
		})
	})
}

// TestFeed_Touch: a run that something was done to is read at once, and what is
// asked for with it; a refresh reads all.
func TestFeed_Touch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		r := run(1, core.RunWaiting)
		b.put(r)
		v := running(t, feed.Options{Backend: b, Recheck: time.Hour})
		v.after(2*time.Second, func(*state.State) {})
		for i, again := range []func(){func() { v.feed.Touch(r.ID) }, v.feed.Refresh} {
			r.CurrentLayer++
			b.put(r)
			b.do(func() {
				b.approvals = append(b.approvals, core.Approval{ID: core.ID(strconv.Itoa(i)), RunID: r.ID, State: core.ApprovalOpen, CreatedAt: time.Now()})
			})
			again()
			v.after(200*time.Millisecond, func(s *state.State) {
				if got, _ := s.Run(r.ID); got.CurrentLayer != i+1 || len(s.Waiting(time.Now())) != i+1 {
					t.Errorf("%d: %+v, %d wait", i, got, len(s.Waiting(time.Now())))
				}
			})
		}
	})
}

// TestFeed_FoundMeanwhile: a server that is found while all runs are being read has them
// read anew, not twice; who waits for that is told once.
func TestFeed_FoundMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		for i := range 3000 { // a page of 200, and six of 500
			b.put(run(i, core.RunComplete))
		}
		b.delay["list"] = 50 * time.Millisecond
		listed := 0
		v := running(t, feed.Options{Backend: b, Links: w.links, Listed: func() { listed++ }})
		v.after(80*time.Millisecond, func(*state.State) {})
		w <- feed.Link{Side: core.SideServer, Up: true}
		v.after(10*time.Second, func(s *state.State) {
			if len(s.Runs()) != 3000 {
				t.Errorf("%d runs", len(s.Runs()))
			}
		})
		if n := b.calls("list"); n < 8 || n > 11 {
			t.Errorf("%d pages were read", n)
		}
		v.feed.Refresh()
		v.after(10*time.Second, func(*state.State) {
			if listed != 1 {
				t.Errorf("told %d times", listed)
			}
		})
		if n := b.calls("list"); n != 7 {
			t.Errorf("%d pages were read again", n)
		}
	})
}

// TestFeed_ThereFromTheStart: a server that has answered already when it is told to be there,
// while its events are looked for or behind that, has nothing read once more.
func TestFeed_ThereFromTheStart(t *testing.T) {
	t.Parallel()
	for _, told := range []time.Duration{5 * time.Millisecond, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b, w := newBackend(), make(wires)
			for i := range 3000 { // a page of 200, and six of 500
				b.put(run(i, core.RunComplete))
			}
			b.emit(core.Event{Side: core.SideServer, Type: core.EventTaskLog})
			b.delay["list"], b.delay["events"] = 50*time.Millisecond, 10*time.Millisecond
			v := running(t, feed.Options{Backend: b, Links: w.links})
			v.after(told, func(*state.State) {})
			w <- feed.Link{Side: core.SideServer, Up: true}
			v.after(10*time.Second, func(s *state.State) {
				if len(s.Runs()) != 3000 || s.Links.Server.State != state.LinkLive {
					t.Errorf("%d runs, the server is %v", len(s.Runs()), s.Links.Server.State)
				}
			})
			if n := b.calls("list"); n != 8 { // one of them for the first frame
				t.Errorf("told after %v: %d pages were read", told, n)
			}
			if n := b.calls("follow"); n != 1 {
				t.Errorf("told after %v: events were followed %d times", told, n)
			}
		})
	}
}
