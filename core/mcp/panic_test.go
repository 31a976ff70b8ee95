package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// panics is a log that tells of panics during what.
type panics chan string

func (panics) Enabled(context.Context, slog.Level) bool { return true }

func (p panics) Handle(_ context.Context, r slog.Record) error {
	during, stack := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "while":
			during = a.Value.String()
		case "stack":
			stack = a.Value.String()
		}
		return true
	})
	if strings.Contains(stack, "panic_test.go") {
		p <- during
	}
	return nil
}

func (p panics) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p panics) WithGroup(string) slog.Handler { return p }

// heard returns when there was a panic during something.
func (p panics) heard(during string) {
	for d := range p {
		if strings.Contains(d, during) {
			return
		}
	}
}

// A call that panics is answered with an error, also one that goes on while its
// client may be asked; the next one is made.
func TestPanic_Call(t *testing.T) {
	t.Parallel()
	log := make(panics, 10)
	b := &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) { panic("a secret") }}
	change := func(o *mcp.Options) {
		offering(b)(o)
		o.Log = slog.New(log)
	}
	w := dial(t, newEdge(t, &fake{t: t}, change))
	w.send(initialize)
	w.next()
	for range 2 {
		w.send(callLine("3", "echo", `{}`, ""))
		m := w.next()
		if m.Error == nil || string(m.ID) != "3" || !strings.Contains(m.Error.Message, "inside pml") || strings.Contains(m.Error.Message, "secret") || string(m.Error.Data) != `{"error_code":"internal"}` {
			t.Fatalf("%+v %s", m, m.Result)
		}
		log.heard("a request was answered")
	}
	srv, _ := serveHTTP(t, &fake{t: t}, change)
	for range 2 {
		res := post(t, srv.URL, modernCall("1", "echo", `{}`, canSample, ""), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
		if !strings.Contains(res.body, "inside pml") || !strings.Contains(res.body, `"isError":true`) || strings.Contains(res.body, "secret") {
			t.Fatalf("%d %s", res.code, res.body)
		}
		log.heard("a call was made")
	}
}

// What goes on beside a call may panic: its progress and its log are not told any
// more, and the call is answered.
func TestPanic_BesideACall(t *testing.T) {
	t.Parallel()
	log := make(panics, 10)
	f := &fake{t: t, events: func(context.Context, func(core.Event) error) error { panic("the store") }}
	f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
		req.Started(runID)
		seen := map[string]bool{}
		for len(seen) < 3 { // progress, the log, and the turn
			seen[<-log] = true
		}
		return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
	}
	w := dial(t, newEdge(t, f, func(o *mcp.Options) { o.Log = slog.New(log) }))
	w.send(initialize)
	w.next()
	w.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`)
	w.next()
	w.send(callLine("3", "execute", `{"code":"return 1"}`, `{"progressToken":"p"}`))
	for {
		m := w.next()
		if m.Method != "" {
			continue
		}
		if _, r := m.result(t); r.Status != api.StatusSuccess {
			t.Errorf("%+v", r)
		}
		return
	}
}

// changeless panics when it is to tell of changes, and when a client has gone.
type changeless struct{ *behind }

func (changeless) Changed(context.Context, *api.Peer, func(string)) error { panic("the gateway") }

func (changeless) Gone(string) { panic("the gateway") }

// What goes on beside a session may panic, too: the session is served, and so are
// others after its end.
func TestPanic_BesideASession(t *testing.T) {
	t.Parallel()
	log := make(panics, 10)
	b := &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
		return api.OfferedResult{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}}
	srv, _ := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) {
		o.Proxy = func(api.Scope) (mcp.Proxy, error) { return changeless{b}, nil }
		o.Log = slog.New(log)
	})
	for range 2 {
		id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
		if res := post(t, srv.URL, callLine("2", "echo", `{}`, ""), "Mcp-Session-Id", id); !strings.Contains(res.body, `"content":[]`) {
			t.Fatalf("%d %s", res.code, res.body)
		}
		open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", id)
		log.heard("changes of lists")
		request(t, http.MethodDelete, srv.URL, "", "Mcp-Session-Id", id)
		log.heard("a client has gone")
	}
}
