package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core/api"
)

// goneTo is a Proxy that remembers who has left.
type goneTo struct {
	Proxy
	mu   sync.Mutex
	gone map[string]bool
}

func (g *goneTo) Gone(peer string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone == nil {
		g.gone = map[string]bool{}
	}
	g.gone[peer] = true
}

func (g *goneTo) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.gone)
}

// realTime is the clock of a bubble.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func boundedEdge(sessions, ofOwner int) *Edge {
	o := Options{
		MaxSessions: sessions, OwnerSessions: ofOwner, SessionIdle: 8 * time.Hour, MaxCalls: 10, OwnerCalls: 10,
		Clock: realTime{}, Random: rand.Reader,
	}
	return &Edge{o: o, sessions: newSessions(o)}
}

// A session that nobody uses ends without anybody asking for it, and servers
// hear that; there is no timer once there is no session.
func TestSession_Swept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, gw := boundedEdge(4, 4), &goneTo{}
		idle, _ := e.sessions.begin(holder{"alice", "w"})
		idle.peerOf(gw)
		listens, _ := e.sessions.begin(holder{"alice", "w"})
		listens.attach(&stream{})
		busy, _ := e.sessions.begin(holder{"bob", "w"})
		_, done, err := busy.served.Begin(t.Context(), json.RawMessage("1"), 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Hour)
		synctest.Wait()
		if e.Sessions() != 3 || gw.count() != 0 {
			t.Errorf("%d sessions, %d have left", e.Sessions(), gw.count())
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		gw.mu.Lock()
		if e.Sessions() != 1 || !gw.gone[idle.id] {
			t.Errorf("%d sessions, %v have left", e.Sessions(), gw.gone)
		}
		gw.mu.Unlock()
		select {
		case <-listens.over:
		default:
			t.Error("one that only listens goes on")
		}
		done()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		left := e.Sessions()
		e.sessions.mu.Lock()
		defer e.sessions.mu.Unlock()
		if left != 0 || e.sessions.sweeper != nil || len(e.sessions.owned) != 0 {
			t.Errorf("%d sessions, sweeper %v, %v", left, e.sessions.sweeper, e.sessions.owned)
		}
	})
}

// Who opens many sessions takes the room of nobody else.
func TestSession_OfOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := boundedEdge(5, 3)
		bobs, _ := e.sessions.begin(holder{"bob", "w"})
		time.Sleep(time.Minute)
		for i := range 3 {
			s, err := e.sessions.begin(holder{"alice", strconv.Itoa(i)})
			if err != nil {
				t.Fatal(err)
			}
			s.attach(&stream{})
		}
		if _, err := e.sessions.begin(holder{"alice", "w"}); err == nil {
			t.Error("more than the share of one owner")
		}
		if _, err := e.sessions.begin(holder{"carol", "w"}); err != nil {
			t.Error(err)
		}
		if _, err := e.sessions.begin(holder{"dave", "w"}); err == nil {
			t.Error("more than there may be, and none of dave's own to end")
		}
		if _, there := e.sessions.find(bobs.id, bobs.holder); !there {
			t.Error("bob's session is gone")
		}
		again, err := e.sessions.begin(holder{"bob", "w"})
		if err != nil || e.Sessions() != 5 {
			t.Errorf("%d sessions, %v", e.Sessions(), err)
		}
		if _, there := e.sessions.find(bobs.id, bobs.holder); there {
			t.Error("bob's own did not make room")
		}
		e.sessions.remove(again)
		e.sessions.remove(again)
		if e.sessions.owned["bob"] != 0 || e.sessions.owned["alice"] != 3 {
			t.Errorf("counted %v", e.sessions.owned)
		}
		for _, s := range e.sessions.open {
			e.sessions.remove(s)
		}
	})
}

// Whatever a client declares, it has so many peers and no more; one that is free
// makes room for one that declares something else.
func TestPeers_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p peers
		gw := &goneTo{}
		declares := func(i int) abilities {
			return []abilities{{servers: json.RawMessage(`{"sampling":{}}`)}, {servers: json.RawMessage(`{"roots":{}}`)}}[i%2]
		}
		var ends []func()
		for i := range 3 * maxPeers {
			leased, done := p.tryLease(gw, holder{"alice", fmt.Sprint("w", i%3)}, declares(i))
			if (leased != nil) != (i < maxPeers) {
				t.Errorf("%d: %v", i, leased != nil)
			}
			if done != nil {
				ends = append(ends, done)
			}
		}
		for _, h := range []holder{{"bob", "w"}, {"", "w"}, {"", "v"}} {
			if leased, done := p.tryLease(gw, h, declares(0)); leased == nil {
				t.Errorf("%v gets none", h)
			} else {
				done()
			}
		}
		for _, end := range ends {
			end()
		}
		for i := range 40 {
			leased, done := p.tryLease(gw, holder{"alice", fmt.Sprint("other", i)}, declares(i))
			if leased == nil {
				t.Fatal("none is free")
			}
			done()
		}
		synctest.Wait()
		p.mu.Lock()
		if p.kept[holder{owner: "alice"}] != maxPeers || gw.count() != 40 {
			t.Errorf("%v are kept, %d were closed", p.kept, gw.count())
		}
		p.mu.Unlock()
		time.Sleep(2 * peerIdle)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.kept)+len(p.free) != 0 || gw.count() != 40+maxPeers+3 {
			t.Errorf("%v are kept, %v free, %d closed", p.kept, p.free, gw.count())
		}
	})
}

// What a client declares reaches servers as far as it is known, in one text.
func TestAbilities_Known(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"sampling":{"n":1},"roots":{"listChanged":true,"x":2},"other":{}}`:   `{"roots":{"listChanged":true},"sampling":{}}`,
		`{"roots": {"listChanged":false},"elicitation":{"url":{"a":1},"z":0}}`: `{"elicitation":{"url":{}},"roots":{}}`,
		`{"sampling":{"context":{},"tools":{"deep":[]}},"elicitation":{}}`:     `{"elicitation":{},"sampling":{"context":{},"tools":{}}}`,
		`{"sampling":null,"roots":1,"Elicitation":{}}`:                         ``,
	} {
		if got := abilitiesOf(json.RawMessage(raw)); string(got.servers) != want {
			t.Errorf("%s: %s, want %s", raw, got.servers, want)
		}
	}
}

// A session has so many subscriptions at servers, and those that were refused do
// not count.
func TestSubscriptions_Behind(t *testing.T) {
	t.Parallel()
	e := boundedEdge(1, 1)
	gw := &subscribed100{}
	e.o.Scope = Fixed(api.Scope{Workspace: "w"})
	e.o.Proxy = func(api.Scope) (Proxy, error) { return gw, nil }
	s := newSession("s", holder{"", "w"}, time.Now())
	try := func(method, uri string) int {
		m, bad := parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri))
		if bad != nil {
			t.Fatal(bad)
		}
		return (&proxied{e, m, e.newCall(s, m, &stream{})}).kept(t.Context(), s).Code()
	}
	if try("subscribe", "x:refused") == 0 {
		t.Error("what the server refused was not refused")
	}
	for i := range maxSubscriptions {
		if code := try("subscribe", fmt.Sprint("x:", i)); code != 0 {
			t.Fatalf("%d: %d", i, code)
		}
	}
	if code := try("subscribe", "x:more"); code != tooBusy || gw.asked != maxSubscriptions+1 {
		t.Errorf("%d, the server was asked %d times", code, gw.asked)
	}
	if try("subscribe", "x:7") != 0 || try("unsubscribe", "x:7") != 0 || try("subscribe", "x:more") != 0 {
		t.Error("one that has ended makes no room")
	}
}

type subscribed100 struct {
	Proxy
	asked int
}

func (g *subscribed100) Forward(_ context.Context, _ *api.Peer, _ string, params json.RawMessage) (json.RawMessage, bool, error) {
	g.asked++
	if string(params) == `{"uri":"x:refused"}` {
		return nil, true, &api.PeerError{Code: -1, Message: "no"}
	}
	return json.RawMessage(`{}`), true, nil
}

// Who sends never waits for the client. What does not fit ends a stream that can
// be taken up again; elsewhere it is left out, and the order stays.
func TestStream_Full(t *testing.T) {
	t.Parallel()
	for _, cuts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			reads, cut := make(chan struct{}), make(chan struct{})
			var got []string
			ended := 0
			s := &stream{send: func(message []byte) error {
				select {
				case <-reads:
				case <-cut:
					return errors.New("cut")
				}
				got = append(got, string(message))
				return nil
			}}
			if cuts {
				s.cut = sync.OnceFunc(func() { close(cut) })
			}
			s.dropWhenFull(func() { ended++ })
			var err error
			for i := range 2 * maxQueued {
				if err = s.pass(i); i == 0 {
					synctest.Wait() // the writer has the first
				}
			}
			if !cuts {
				if !errors.Is(err, errStreamFull) || !s.open() {
					t.Errorf("%v, open %v", err, s.open())
				}
				close(reads)
			}
			s.end()
			switch {
			case cuts && (ended != 1 || len(got) != 0 || s.open()):
				t.Errorf("ended %d times, %d sent, open %v", ended, len(got), s.open())
			case !cuts && (ended != 0 || len(got) != 1+maxQueued || got[maxQueued] != strconv.Itoa(maxQueued)):
				t.Errorf("ended %d times, %d sent", ended, len(got))
			}
		})
	}
}

// No result of a server makes a client believe that pml asks it.
func TestComplete_Only(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"content":[],"resultType":"input_required"}`, `{"content":[],"resultType":"input\u005frequired"}`,
		`{"result\u0054ype":"input_required"}`, `{"resultType":"input_required","resultType":"complete"}`,
		`{"resultType":"complete","ResultType":"input_required"}`, `{"RESULTTYPE":"input_required"}`,
		`{"resultType":null}`, `{"resultType":7}`, `{"resultType":""}`, `{"resultType":"other"}`, `{"a":`,
	} {
		if out, err := complete(&call{modern: true}, json.RawMessage(raw)); err == nil {
			t.Errorf("%s passed as %s", raw, out)
		}
	}
}
