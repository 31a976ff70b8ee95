package client_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

// finder finds the server of a machine, or starts it.
type finder struct {
	mu     sync.Mutex
	starts []bool
	find   func(start bool) (string, error)
	warned []string
}

func (f *finder) options() client.Options {
	return client.Options{
		Checked: true,
		Redial: func(_ context.Context, start bool) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.starts = append(f.starts, start)
			return f.find(start)
		},
		Warn: func(text string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.warned = append(f.warned, text)
		},
	}
}

// TestRedial_WaitGoesOn: the server dies under a wait and nobody else comes: the
// client has another one started, which is at another socket, and the run that
// it was told of goes on there. A person hears of it once.
func TestRedial_WaitGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Minute), &wire{}
		net.up(s)
		f := &finder{find: func(bool) (string, error) {
			net.up(s)
			return "/run/other.sock", nil
		}}
		c, stop := newClient(t, net, f.options())
		defer stop()
		for _, at := range []time.Duration{10 * time.Second, 30 * time.Second} {
			time.AfterFunc(at, net.down)
		}
		begin := time.Now()
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		if err != nil || r.Status != api.StatusSuccess || time.Since(begin) != time.Minute {
			t.Fatalf("after %s: %+v, %v", time.Since(begin), r, err)
		}
		if len(f.starts) != 2 || !f.starts[0] || net.at != "/run/other.sock" {
			t.Errorf("looked for one %v times, last asked %s", f.starts, net.at)
		}
		if len(f.warned) != 1 || !strings.Contains(f.warned[0], "/run/pml.sock") {
			t.Errorf("%q", f.warned)
		}
		if len(s.keys()) != 1 {
			t.Errorf("started under the keys %v", s.keys())
		}
	})
}

// TestRedial_Unsent: a request that is never sent twice is sent to the next
// server when nobody was there to read it.
func TestRedial_Unsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(0), &wire{}
		f := &finder{find: func(bool) (string, error) {
			net.up(s)
			return "/run/pml.sock", nil
		}}
		c, stop := newClient(t, net, f.options())
		defer stop()
		r, err := c.Retry(t.Context(), "r1", core.Actor{}, 0)
		if err != nil || r.Status != api.StatusComplete || len(s.log()) != 1 {
			t.Errorf("%+v, %v, asked %d times", r, err, len(s.log()))
		}
	})
}

// TestRedial_Fails: where none may be started the server is waited for, and the
// reason is told in the end, with the run; what will not get better ends the wait.
func TestRedial_Fails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code  core.Code
		after time.Duration
	}{{core.CodeServerUnreachable, 2 * time.Minute}, {core.CodeStoreBusy, 2 * time.Minute}, {core.CodeStoreNewer, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s, net := newRunner(time.Hour), &wire{}
			net.up(s)
			f := &finder{find: func(bool) (string, error) {
				return "", core.Errorf(tt.code, "none is started because CI is set").WithNext("pml", "serve")
			}}
			c, stop := newClient(t, net, f.options())
			defer stop()
			time.AfterFunc(30*time.Second, net.down)
			begin := time.Now()
			_, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
			e := wantCode(t, err, tt.code)
			if !strings.Contains(e.Message, "CI is set") || e.RunID != "r1" || len(e.Next) != 2 {
				t.Errorf("%+v", e)
			}
			if took := time.Since(begin) - 30*time.Second; took < tt.after-25*time.Second || took > tt.after+10*time.Second {
				t.Errorf("gave up after %s, want %s", took, tt.after)
			}
			if len(f.warned) != 1 {
				t.Errorf("%q", f.warned)
			}
		})
	}
}

// TestRedial_ReadersStartNothing: who only reads events finds the server that
// others start, and starts none.
func TestRedial_ReadersStartNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		net.up(s)
		s.emit(1)
		f := &finder{}
		back := time.Now().Add(40 * time.Second)
		f.find = func(start bool) (string, error) {
			if start || time.Now().Before(back) {
				return "", nil
			}
			return "/run/other.sock", nil
		}
		c, stop := newClient(t, net, f.options())
		defer stop()
		time.AfterFunc(10*time.Second, net.down)
		time.AfterFunc(40*time.Second, func() {
			net.up(s)
			s.emit(1)
		})
		var got []int64
		err := c.Events(t.Context(), "", api.Since{}, true, func(e core.Event) error {
			if got = append(got, e.Seq); len(got) == 2 {
				return context.Canceled
			}
			return nil
		})
		if len(got) != 2 || len(f.starts) == 0 {
			t.Errorf("%v, %v, looked for one %v", got, err, f.starts)
		}
		for _, start := range f.starts {
			if start {
				t.Error("a reader started a server")
			}
		}
	})
}

// TestStopping_AsksTheNext: a server that is about to stop refuses for that
// reason only: the same request, under the same key, is one for the next server.
func TestStopping_AsksTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Second), &wire{}
		leaving := newServer()
		leaving.handle = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			problem(w, 503, core.Errorf(core.CodeCancelled, "the server stops; ask again"))
			return true
		}
		net.up(leaving)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		time.AfterFunc(5*time.Second, func() {
			net.down()
			net.up(s)
		})
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		if err != nil || r.Status != api.StatusSuccess {
			t.Fatalf("%+v, %v", r, err)
		}
		asked, key := leaving.log(), s.log()[0].key
		if len(asked) < 2 || asked[0].key != key || key == "" {
			t.Errorf("asked %d times with the key %q, then %q", len(asked), asked[0].key, key)
		}
	})
}

// TestStopping_Unknown: what cannot be sent again is not known to be done.
func TestStopping_Unknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newServer(), &wire{}
		s.handle = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			problem(w, 503, core.Errorf(core.CodeCancelled, "the server stops; ask again"))
			return true
		}
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		_, err := c.Retry(t.Context(), "r1", core.Actor{}, 0)
		if e := wantCode(t, err, core.CodeServerUnreachable); e.RunID != "r1" || len(s.log()) != 1 {
			t.Errorf("%v, asked %d times", e, len(s.log()))
		}
	})
}

// TestHeaders_NoLineBreak: what no header can carry is refused at once, and not
// sent again and again.
func TestHeaders_NoLineBreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(0), &wire{}
		net.up(s)
		c, stop := newClient(t, net, client.Options{Checked: true})
		defer stop()
		begin := time.Now()
		_, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1, IdempotencyKey: "a\nb"})
		if wantCode(t, err, core.CodeInvalidArguments); time.Since(begin) != 0 || len(s.log()) != 0 {
			t.Errorf("after %s, asked %d times", time.Since(begin), len(s.log()))
		}
	})
}

// TestRedial_Passive: who looks on has no server started by reading, or by
// following all events; by deciding it has.
func TestRedial_Passive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(0), &wire{}
		f := &finder{find: func(start bool) (string, error) {
			if !start {
				return "", nil
			}
			net.up(s)
			return "/run/pml.sock", nil
		}}
		o := f.options()
		o.Passive = true
		c, stop := newClient(t, net, o)
		defer stop()
		_, err := c.Workflows(t.Context(), nil, 10, "")
		wantCode(t, err, core.CodeServerUnreachable)
		err = c.Events(t.Context(), "", api.Since{}, true, func(core.Event) error { return nil })
		wantCode(t, err, core.CodeServerUnreachable)
		if len(f.starts) != 2 || f.starts[0] || f.starts[1] {
			t.Errorf("looking on looked for one %v", f.starts)
		}
		if _, err := c.Retry(t.Context(), "r1", core.Actor{}, 0); err != nil || !f.starts[len(f.starts)-1] {
			t.Errorf("%v, looked for one %v", err, f.starts)
		}
	})
}

// TestRedial_FollowersStartNothing: nobody has a server started by following all
// events, not by the first connection either: attending to them anew would undo
// every stop.
func TestRedial_FollowersStartNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &finder{find: func(bool) (string, error) { return "", nil }}
		c, stop := newClient(t, &wire{}, f.options())
		defer stop()
		err := c.Events(t.Context(), "", api.Since{}, true, func(core.Event) error { return nil })
		if wantCode(t, err, core.CodeServerUnreachable); len(f.starts) != 1 || f.starts[0] {
			t.Errorf("looked for one %v", f.starts)
		}
	})
}
