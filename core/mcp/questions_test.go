package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
)

// questioner is a server two of whose calls are under way at a time: the one
// named "first" asks once it may, the other ends when it may. begun tells of the
// other one.
func questioner(named bool) (b *behind, ask, begun, end chan struct{}) {
	b, ask, begun, end = &behind{}, make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		if !strings.Contains(string(c.Args), "first") {
			begun <- struct{}{}
			<-end
			return api.OfferedResult{Raw: json.RawMessage(`{"second":true}`)}, nil
		}
		<-ask
		asks := ctx
		if !named {
			asks = context.Background() // as from a process, whose questions name no call
		}
		said, err := c.Peer.Ask(asks, "sampling/createMessage", json.RawMessage(sampling))
		return api.OfferedResult{Raw: said}, err
	}
	return b, ask, begun, end
}

// Of two calls at once the one that began last ends while the other one's server
// asks: the question stands, and its answer arrives.
func TestQuestions_TwoCalls(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		b, ask, begun, end := questioner(named)
		w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
		w.send(handshake(canSample))
		w.next()
		w.send(callLine("1", "echo", `{"a":"first"}`, ""))
		w.send(callLine("2", "echo", `{}`, ""))
		<-begun
		ask <- struct{}{}
		q := w.next()
		if q.Method != "sampling/createMessage" {
			t.Fatalf("named %v: %+v", named, q)
		}
		end <- struct{}{}
		if m := w.next(); string(m.Result) != `{"second":true}` {
			t.Errorf("named %v: %+v", named, m)
		}
		w.send(said(q, `{"role":"assistant"}`))
		if m := w.next(); string(m.ID) != "1" || string(m.Result) != `{"role":"assistant"}` {
			t.Errorf("named %v: %s %+v %s", named, m.ID, m.Error, m.Result)
		}
	}
}

// Over HTTP a question comes in the stream of the call that it belongs to; where
// nothing says which that is, in the session's own, which outlives them.
func TestQuestions_Streams(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		b, ask, begun, end := questioner(named)
		srv, _ := serveHTTP(t, &fake{t: t}, offering(b))
		id := post(t, srv.URL, handshake(canSample)).header.Get("Mcp-Session-Id")
		h := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
		main := open(t, http.MethodGet, srv.URL, "", h...)
		results := make(chan string, 2)
		call := func(line string) *sse { return open(t, http.MethodPost, srv.URL, line, h...) }
		streams := make(chan *sse, 1)
		go func() { streams <- call(callLine("1", "echo", `{"a":"first"}`, "")) }()
		go func() { results <- post(t, srv.URL, callLine("2", "echo", `{}`, ""), h...).body }()
		<-begun
		ask <- struct{}{}
		var q msg
		if named {
			first := <-streams
			q = first.next()
			streams <- first
		} else {
			q = main.next()
		}
		if q.Method != "sampling/createMessage" {
			t.Fatalf("named %v: %+v", named, q)
		}
		end <- struct{}{}
		if got := <-results; !strings.Contains(got, `{"second":true}`) {
			t.Errorf("named %v: %s", named, got)
		}
		post(t, srv.URL, said(q, `{"role":"assistant"}`), h...)
		first := <-streams // of one line where it is short
		if named {
			if m := first.next(); string(m.Result) != `{"role":"assistant"}` {
				t.Errorf("got %+v", m)
			}
		}
		first.stop()
		main.stop()
	}
}
