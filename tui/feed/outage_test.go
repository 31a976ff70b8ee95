package feed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/state"
)

// TestFeed_ClientLost: reads of this machine that fail make its half lost,
// whatever was said of it at the start, and reads that work make it live again.
func TestFeed_ClientLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.put(run(1, core.RunWaiting))
		v := running(t, feed.Options{Backend: b, Links: func(ctx context.Context, f func(feed.Link)) {
			f(feed.Link{Side: core.SideClient, Up: true})
			f(feed.Link{Side: core.SideServer, None: true})
			<-ctx.Done()
		}})
		bad := core.Errorf(core.CodeStoreFailed, "pending.db: input/output error")
		reads := []string{"list", "recheck", "approvals", "run"}
		v.after(10*time.Second, func(s *state.State) {
			if s.Links.Client.State != state.LinkLive {
				t.Errorf("at first %+v", s.Links.Client)
			}
		})
		b.do(func() {
			for _, name := range reads {
				b.fail[name] = bad
			}
		})
		b.fall(bad)
		v.after(10*time.Second, func(s *state.State) {
			if c := s.Links.Client; c.State != state.LinkLost || c.Err != bad.Message || s.Links.Server.State != state.LinkNone {
				t.Errorf("while nothing can be read %+v", s.Links)
			}
		})
		b.do(func() { clear(b.fail) })
		b.fall(nil)
		v.after(time.Minute, func(s *state.State) {
			if s.Links.Client.State != state.LinkLive || len(s.Warnings) > 0 {
				t.Errorf("in the end %+v, %q", s.Links.Client, s.Warnings)
			}
		})
	})
}

// TestFeed_Connecting: a server that has a name only is being connected to, and
// is lost once it was tried in vain.
func TestFeed_Connecting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := make(wires)
		v := running(t, feed.Options{Backend: newBackend(), Links: w.links})
		w <- feed.Link{Side: core.SideServer, Connecting: true, Name: "https://pml.example.com"}
		v.after(time.Second, func(s *state.State) {
			if l := s.Links.Server; l.State != state.LinkConnecting || l.Name != "https://pml.example.com" {
				t.Errorf("%+v", l)
			}
		})
		for range 3 {
			w <- feed.Link{Side: core.SideServer, Err: core.Errorf(core.CodeAuth, "the key is refused")}
			time.Sleep(2 * time.Second)
		}
		v.after(time.Second, func(s *state.State) {
			l := s.Links.Server
			if l.State != state.LinkLost || l.Err != "the key is refused" || time.Since(l.Since) != 7*time.Second {
				t.Errorf("%+v", l)
			}
		})
	})
}

// TestFeed_Blocked: while another program has the terminal for hours, no more is
// read than can be handed over; then everything is brought up to date.
func TestFeed_Blocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, w := newBackend(), make(wires)
		for i := range 20 {
			b.put(run(i, core.RunWaiting))
		}
		v := running(t, feed.Options{Backend: b, Links: w.links})
		time.Sleep(10 * time.Second)
		set := func(d time.Duration) {
			v.mu.Lock()
			v.slow = d
			v.mu.Unlock()
		}
		set(time.Hour)
		time.Sleep(30 * time.Minute) // all that fits is there
		names := []string{"list", "recheck", "approvals", "run"}
		for _, name := range names {
			b.calls(name)
		}
		for range 20 {
			v.feed.Refresh()
			b.emit(core.Event{Type: core.EventWorkflowComplete, RunID: run(1, "").ID})
			time.Sleep(time.Minute)
		}
		for _, name := range names {
			if n := b.calls(name); n > 0 {
				t.Errorf("%s was asked for %d times in 20 minutes in which nobody took an answer", name, n)
			}
		}
		b.put(run(2, core.RunFailed))
		b.put(run(99, core.RunFailed)) // no event tells of it, and no look at what goes on
		set(0)
		v.after(11*time.Minute, func(s *state.State) {
			r2, _ := s.Run(run(2, "").ID)
			r99, _ := s.Run(run(99, "").ID)
			if r2.State != core.RunFailed || r99.State != core.RunFailed {
				t.Errorf("in the end the runs are %q and %q", r2.State, r99.State)
			}
		})
	})
}
