package client_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

var errEnough = errors.New("enough")

// TestEvents_EveryOneOnceOverRestarts: the connection breaks in the middle of
// messages and the server goes away, and every event comes once and in order.
//
// A reader that follows the events through 20 restarts.
func TestEvents_EveryOneOnceOverRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		rng, cuts := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
		net.cut = func() int { return 400 + cuts.IntN(3000) }
		net.up(s)
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		const total, restarts = 600, 20
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range restarts {
				s.emit(total / restarts)
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				net.down()
				time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
				net.up(s)
			}
		}()
		next := int64(1)
		err := c.Events(t.Context(), "", api.Since{}, true, func(e core.Event) error {
			if e.Seq != next {
				t.Errorf("event %d, want %d", e.Seq, next)
			}
			if next++; next > total {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatalf("ended with %v after %d events", err, next-1)
		}
		<-done
		if net.dials < restarts {
			t.Errorf("%d connections: the test cut none", net.dials)
		}
	})
}

// TestEvents_SilentStreamIsGivenUp: a connection that is dead without saying so
// is replaced after 45 s; one with heartbeats is not.
func TestEvents_SilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, net := newServer(), &wire{}
			s.mute = mute
			net.up(s)
			c, stop := newClient(t, net, client.Options{Checked: true})
			defer stop()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			err := c.Events(ctx, "", api.Since{}, true, func(core.Event) error { return nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("mute %v: %v", mute, err)
			}
			if want := map[bool]int{false: 1, true: 3}[mute]; net.dials != want {
				t.Errorf("mute %v: %d connections, want %d", mute, net.dials, want)
			}
		})
	}
}

// TestEvents_OtherDatabase: a server that comes back with fewer events than it
// had is another one, and that is said.
func TestEvents_OtherDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		s.emit(5)
		net.up(s)
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		err := c.Events(t.Context(), "", api.Since{}, true, func(e core.Event) error {
			if e.Seq == 5 {
				other := newServer()
				other.emit(2)
				go func() {
					net.down()
					net.up(other)
				}()
			}
			return nil
		})
		wantCode(t, err, core.CodeServerUnreachable)
	})
}

// TestEvents_Stopping: a server that is about to stop, or whose store is away,
// refuses a reader that comes back; that one tries again and misses nothing.
func TestEvents_Stopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		net.up(s)
		s.emit(1)
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		refused := 0
		err := c.Events(t.Context(), "", api.Since{}, true, func(e core.Event) error {
			if e.Seq == 2 {
				return errEnough
			}
			go func() {
				net.down()
				net.up(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if refused++; refused > 3 {
						s.emit(1)
						s.ServeHTTP(w, r)
						return
					}
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusServiceUnavailable)
					io.WriteString(w, `{"status":503,"code":"store_failed","detail":"the store is closed: pml is stopping"}`)
				}))
			}()
			return nil
		})
		if !errors.Is(err, errEnough) || refused != 4 {
			t.Errorf("refused %d times: %v", refused, err)
		}
	})
}

// TestEvents_Gone: no server at all is an error at once, one that does not come
// back after a while.
func TestEvents_Gone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		begin := time.Now()
		ignore := func(core.Event) error { return nil }
		wantCode(t, c.Events(t.Context(), "", api.Since{}, true, ignore), core.CodeServerUnreachable)
		if d := time.Since(begin); d != 0 {
			t.Errorf("took %s to say that nobody is there", d)
		}
		net.up(s)
		s.emit(1)
		wantCode(t, c.Events(t.Context(), "", api.Since{}, true, func(core.Event) error {
			go net.down()
			return nil
		}), core.CodeServerUnreachable)
		if d := time.Since(begin); d < 2*time.Minute || d > 3*time.Minute {
			t.Errorf("gave up after %s, want about 2 min", d)
		}
	})
}

// TestEvents_Past: without follow it ends with the last event, over pages.
func TestEvents_Past(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		s.emit(2500)
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		last := int64(10)
		err := c.Events(t.Context(), "", api.Since{Any: 10}, false, func(e core.Event) error {
			if e.Seq != last+1 {
				t.Errorf("event %d after %d", e.Seq, last)
			}
			last = e.Seq
			return nil
		})
		if err != nil || last != 2500 {
			t.Errorf("ended at %d: %v", last, err)
		}
	})
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		s.emit(7)
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		snap, err := c.Snapshot(t.Context())
		if err != nil || snap.Seq != 7 {
			t.Errorf("snapshot %+v, %v", snap, err)
		}
	})
}

// TestEvents_HangsUp: a server that hangs up again and again is not dialled in
// a tight loop.
func TestEvents_HangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &wire{}
		var snapshots atomic.Int64
		net.up(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			snapshots.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: snapshot\ndata: {}\n\n")
		}))
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Events(ctx, "", api.Since{}, true, func(core.Event) error { return nil })
		if n := snapshots.Load(); !errors.Is(err, context.DeadlineExceeded) || n < 5 || n > 30 {
			t.Errorf("%d connections in a minute: %v", n, err)
		}
	})
}
