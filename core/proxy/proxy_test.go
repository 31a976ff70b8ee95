package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// half is a half of pml with the servers that a test gives it.
type half struct {
	mu       sync.Mutex
	known    map[string]api.Exposed // what Exposed says
	order    []string
	found    map[string]api.Exposed // what Explore finds out
	explored []string
	hold     chan struct{} // Explore waits for it, if it is there
	answers  map[string]string
	sent     []string
	calls    []string
	watch    func(string)
	gone     []string
}

func newHalf(servers ...api.Exposed) *half {
	h := &half{known: map[string]api.Exposed{}, found: map[string]api.Exposed{}, answers: map[string]string{}}
	for _, s := range servers {
		h.order = append(h.order, s.Name)
		if s.Known {
			h.known[s.Name] = s
		}
		s.Known, s.Live = true, true
		h.found[s.Name] = s
	}
	return h
}

func (h *half) Exposed(context.Context, *api.Peer) ([]api.Exposed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []api.Exposed
	for _, name := range h.order {
		s, ok := h.known[name]
		if !ok {
			s = api.Exposed{Name: name}
		}
		out = append(out, s)
	}
	return out, nil
}

func (h *half) Explore(ctx context.Context, _ *api.Peer, server string) (api.Exposed, error) {
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
			return api.Exposed{}, ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.explored = append(h.explored, server)
	s := h.found[server]
	if len(s.Problems) == 0 {
		h.known[server] = s
	}
	return s, nil
}

func (h *half) WatchExposed(_ context.Context, f func(string)) { h.watch = f }

func (h *half) CallExposed(_ context.Context, tool string, call api.OfferedCall) (api.OfferedResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, tool+" "+string(call.Args))
	return api.OfferedResult{Raw: json.RawMessage(`{"content":[]}`)}, nil
}

func (h *half) ForwardExposed(_ context.Context, _ *api.Peer, server, method string, params json.RawMessage) (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, server+" "+method+" "+string(params))
	for _, key := range []string{server + " " + method + " " + string(params), server + " " + method} {
		if a, ok := h.answers[key]; ok {
			return json.RawMessage(a), nil
		}
	}
	return nil, &api.PeerError{Code: -32601, Message: "no such method"}
}

func (h *half) PeerGone(peer string) { h.gone = append(h.gone, peer) }

func (h *half) starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.explored)
}

func (h *half) set(s api.Exposed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Known, s.Live = true, true
	h.found[s.Name] = s
}

func server(name string, tools ...string) api.Exposed {
	s := api.Exposed{Name: name}
	for _, t := range tools {
		s.Tools = append(s.Tools, api.OfferedTool{Name: t, Tool: name + ":" + t, Definition: json.RawMessage(fmt.Sprintf(`{"name":%q}`, t))})
	}
	return s
}

func remembered(s api.Exposed) api.Exposed {
	s.Known = true
	return s
}

func open(t *testing.T, h *half) *proxy.Proxy {
	t.Helper()
	g := proxy.New(proxy.Options{Half: h})
	t.Cleanup(g.Close)
	return g
}

func names(o api.Offer) string {
	var out []string
	for _, tool := range o.Tools {
		out = append(out, tool.Name)
	}
	return strings.Join(out, " ")
}

func TestOffer_Order(t *testing.T) {
	t.Parallel()
	g := open(t, newHalf(server("b", "two", "one"), server("a", "three")))
	o, err := g.Offer(t.Context(), nil)
	if err != nil || names(o) != "two one three" || len(o.Problems) > 0 {
		t.Errorf("%q, %v, %v", names(o), o.Problems, err)
	}
	if string(o.Tools[0].Definition) != `{"name":"two"}` {
		t.Errorf("%s", o.Tools[0].Definition)
	}
}

// Of tools of one name none is offered, nor one that would hide a tool of pml.
func TestOffer_Collisions(t *testing.T) {
	t.Parallel()
	h := newHalf(server("a", "same", "own", "execute"), server("b", "same"))
	g := open(t, h)
	o, err := g.Offer(t.Context(), nil)
	if err != nil || names(o) != "own" || len(o.Problems) != 2 {
		t.Fatalf("%q, %v, %v", names(o), o.Problems, err)
	}
	said := fmt.Sprint(o.Problems)
	for _, want := range []string{"a:same and b:same", "a:execute", "expose"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s does not say %q", said, want)
		}
	}
	for _, name := range []string{"same", "execute", "none"} {
		if _, err := g.Call(t.Context(), api.OfferedCall{Name: name}); core.CodeOf(err) != core.CodeNoSuchTool {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(h.calls) > 0 {
		t.Errorf("%v", h.calls)
	}
}

// What is remembered is offered while the server is started; when it has other
// tools, who watches is told.
func TestOffer_Remembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHalf(remembered(server("a", "old")))
		h.set(server("a", "new"))
		g := proxy.New(proxy.Options{Half: h})
		defer g.Close()
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan string, 9)
		over := make(chan error)
		go func() { over <- g.Changed(ctx, nil, func(m string) { told <- m }) }()
		o, err := g.Offer(t.Context(), nil)
		if err != nil || names(o) != "old" || h.starts() > 0 {
			t.Errorf("%q, %v, explored %d times", names(o), err, h.starts())
		}
		if m := <-told; m != "notifications/tools/list_changed" {
			t.Errorf("told %s", m)
		}
		if o, _ := g.Offer(t.Context(), nil); names(o) != "new" {
			t.Errorf("%q", names(o))
		}
		h.set(server("a", "newer"))
		h.watch("a")
		<-told
		if o, _ := g.Offer(t.Context(), nil); names(o) != "newer" {
			t.Errorf("%q", names(o))
		}
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-over; err != nil || len(told) > 0 {
			t.Errorf("%v, told %d more", err, len(told))
		}
	})
}

// A server of which nothing is known is waited for, not for ever.
func TestOffer_SlowServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHalf(server("slow", "late"), remembered(server("quick", "now")))
		h.hold = make(chan struct{})
		g := proxy.New(proxy.Options{Half: h})
		defer g.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		o, err := g.Offer(ctx, nil)
		if err != nil || names(o) != "now" || time.Since(began) != 5*time.Second {
			t.Errorf("%q after %s, %v", names(o), time.Since(began), err)
		}
		told := make(chan string, 9)
		go func() { _ = g.Changed(ctx, nil, func(m string) { told <- m }) }()
		synctest.Wait()
		close(h.hold)
		<-told
		if o, _ := g.Offer(ctx, nil); names(o) != "late now" {
			t.Errorf("%q", names(o))
		}
	})
}

// A call waits longer than a list for a server of which nothing is known, not for ever.
func TestCall_SlowServer(t *testing.T) {
	t.Parallel()
	for takes, code := range map[time.Duration]core.Code{20 * time.Second: "", time.Minute: core.CodeServerUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			h := newHalf(server("slow", "late"))
			h.hold = make(chan struct{})
			g := proxy.New(proxy.Options{Half: h})
			defer g.Close()
			time.AfterFunc(takes, func() { close(h.hold) })
			_, err := g.Call(t.Context(), api.OfferedCall{Name: "late", Args: json.RawMessage(`{}`)})
			if core.CodeOf(err) != code {
				t.Errorf("a server that takes %s: %v", takes, err)
			}
			time.Sleep(takes)
		})
	}
}

// A server that may not be started is told of, and tried again once nothing
// speaks against it any more.
func TestOffer_Waits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHalf(api.Exposed{Name: "a"})
		h.found["a"] = api.Exposed{Name: "a", Problems: []core.Fault{{Path: "a", Message: "Install it?"}}}
		g := proxy.New(proxy.Options{Half: h})
		defer g.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o, err := g.Offer(ctx, nil)
		if err != nil || len(o.Tools) > 0 || len(o.Problems) != 1 || o.Problems[0].Message != "Install it?" {
			t.Errorf("%+v, %v", o, err)
		}
		told := make(chan string, 9)
		go func() { _ = g.Changed(ctx, nil, func(m string) { told <- m }) }()
		time.Sleep(time.Minute)
		if n := h.starts(); n != 1 {
			t.Errorf("explored %d times", n)
		}
		h.set(server("a", "tool"))
		h.mu.Lock()
		h.known["a"] = api.Exposed{Name: "a", Ready: true}
		h.mu.Unlock()
		<-told
		if o, _ := g.Offer(ctx, nil); names(o) != "tool" || len(o.Problems) > 0 {
			t.Errorf("%+v", o)
		}
	})
}

func TestCall(t *testing.T) {
	t.Parallel()
	h := newHalf(server("a", "tool"))
	g := open(t, h)
	r, err := g.Call(t.Context(), api.OfferedCall{Name: "tool", Args: json.RawMessage(`{"n":1}`)})
	if err != nil || string(r.Raw) != `{"content":[]}` || !slices.Equal(h.calls, []string{`a:tool {"n":1}`}) {
		t.Errorf("%s, %v, %v", r.Raw, err, h.calls)
	}
}

// The servers' own word that tools have changed is not passed on: pml's is.
func TestNotify(t *testing.T) {
	t.Parallel()
	var told []string
	peer := &api.Peer{ID: "p", Notify: func(m string, _ json.RawMessage) { told = append(told, m) }}
	var seen *api.Peer
	h := &spying{half: newHalf(server("a", "tool")), seen: &seen}
	g := proxy.New(proxy.Options{Half: h})
	t.Cleanup(g.Close)
	if _, err := g.Call(t.Context(), api.OfferedCall{Name: "tool", Peer: peer}); err != nil {
		t.Fatal(err)
	}
	seen.Notify("notifications/tools/list_changed", nil)
	seen.Notify("notifications/message", nil)
	if !slices.Equal(told, []string{"notifications/message"}) {
		t.Errorf("%v", told)
	}
	g.Gone("p")
	if !slices.Equal(h.gone, []string{"p"}) {
		t.Errorf("%v", h.gone)
	}
}

type spying struct {
	*half
	seen **api.Peer
}

func (s *spying) CallExposed(ctx context.Context, tool string, call api.OfferedCall) (api.OfferedResult, error) {
	*s.seen = call.Peer
	return s.half.CallExposed(ctx, tool, call)
}
