package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// behind is a Proxy whose calls are a function.
type behind struct {
	call    func(context.Context, api.OfferedCall) (api.OfferedResult, error)
	forward func(peer *api.Peer, method string, params json.RawMessage) (json.RawMessage, bool, error)
	changed chan string

	mu   sync.Mutex
	gone []string
}

func (b *behind) Offer(context.Context, *api.Peer) (api.Offer, error) {
	return api.Offer{Tools: []api.OfferedTool{{Name: "echo", Definition: json.RawMessage(`{"name":"echo","inputSchema":{"type":"object"},"_meta":{"x":1.10},"icons":[]}`)}}}, nil
}

func (b *behind) Call(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
	return b.call(ctx, c)
}

func (b *behind) Forward(_ context.Context, peer *api.Peer, method string, params json.RawMessage) (json.RawMessage, bool, error) {
	if b.forward == nil {
		return nil, false, nil
	}
	return b.forward(peer, method, params)
}

func (b *behind) Changed(ctx context.Context, _ *api.Peer, f func(string)) error {
	for {
		select {
		case method := <-b.changed:
			f(method)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *behind) Gone(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = append(b.gone, peer)
}

func offering(b *behind) func(*mcp.Options) {
	return func(o *mcp.Options) {
		o.Proxy = func(api.Scope) (mcp.Proxy, error) { return b, nil }
	}
}

// The level of the log that a request of the newest revision wants reaches the server, where it is one.
func TestGateway_LogLevel(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	b := &behind{call: func(_ context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		got <- string(c.Meta)
		return api.OfferedResult{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	for level, want := range map[string]string{
		`"debug"`: `{"io.modelcontextprotocol/logLevel":"debug"}`, `"loud"`: "", `7`: "", `null`: "",
	} {
		w.send(strings.Replace(modernCall("1", "echo", `{}`, `{}`, ""), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":`+level+`,`, 1))
		if m := w.next(); m.Error != nil {
			t.Errorf("%s: %+v", level, m.Error)
		} else if meta := <-got; meta != want {
			t.Errorf("%s: the server gets %s", level, meta)
		}
	}
}

// What a server sends reaches the client as it was sent, and the other way
// round: arguments, _meta, progress, results, errors.
func TestGateway_Unharmed(t *testing.T) {
	t.Parallel()
	const raw = `{"content":[{"type":"text","text":"<a> & ü"}],"structuredContent":{"n":1.10,"big":12345678901234567890},"_meta":{"a/b":[]},"isError":true,"extra":null}`
	b := &behind{}
	b.call = func(_ context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		if c.Name != "echo" || string(c.Args) != `{"n":1.10,"s":"<"}` || string(c.Meta) != `{"mine":{"x":2.0}}` || c.By.Via != core.ViaMCP {
			t.Errorf("called with %+v", c)
		}
		c.Progress("half", 1, 2.5)
		return api.OfferedResult{Raw: json.RawMessage(raw)}, nil
	}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	w.send(initialize)
	if m := w.next(); !strings.Contains(string(m.Result), `"tools":{"listChanged":true}`) {
		t.Errorf("declared %s", m.Result)
	}
	w.send(callLine("9007199254740993", "echo", `{"n":1.10,"s":"<"}`, `{"progressToken":"p","mine":{"x":2.0},"io.modelcontextprotocol/x":1}`))
	if m := w.next(); m.Method != "notifications/progress" || string(m.Params) != `{"progressToken":"p","progress":1,"total":2.5,"message":"half"}` {
		t.Errorf("got %+v %s", m, m.Params)
	}
	if m := w.next(); string(m.Result) != raw || string(m.ID) != "9007199254740993" {
		t.Errorf("got %s %s", m.ID, m.Result)
	}
	for _, tt := range []struct {
		err  error
		code int
		data string
	}{
		{&api.PeerError{Code: -32042, Message: "odd", Data: json.RawMessage(`{"n":1.10}`)}, -32042, `{"n":1.10}`},
		{core.Errorf(core.CodeNoSuchTool, "unknown tool"), -32602, ""},
	} {
		b.call = func(context.Context, api.OfferedCall) (api.OfferedResult, error) { return api.OfferedResult{}, tt.err }
		w.send(callLine("2", "echo", `{}`, ""))
		if m := w.next(); m.Error == nil || m.Error.Code != tt.code || string(m.Error.Data) != tt.data {
			t.Errorf("%v: got %+v", tt.err, m)
		}
	}
	b.call = func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
		return api.OfferedResult{}, core.Errorf(core.CodePermissionDenied, "a rule denies it")
	}
	w.send(callLine("3", "echo", `{}`, ""))
	if m := w.next(); !strings.Contains(string(m.Result), `"isError":true`) || !strings.Contains(string(m.Result), "permission_denied") || strings.Contains(string(m.Result), "structuredContent") {
		t.Errorf("got %s", m.Result)
	}
}

// A modern client is told the type of a result that does not say it.
func TestGateway_ModernResult(t *testing.T) {
	t.Parallel()
	b := &behind{}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	for raw, want := range map[string]string{
		`{"content":[]}`: `{"resultType":"complete","content":[]}`,
		`{}`:             `{"resultType":"complete"}`,
		`{"resultType":"complete","x":{"resultType":"y"}}`:     `{"resultType":"complete","x":{"resultType":"y"}}`,
		"{\n \"content\":[{\"text\":\"\\\"resultType\\\"\"}]}": `{"resultType":"complete","content":[{"text":"\"resultType\""}]}`,
	} {
		b.call = func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
			return api.OfferedResult{Raw: json.RawMessage(raw)}, nil
		}
		w.send(modernCall("1", "echo", `{}`, `{}`, ""))
		if m := w.next(); string(m.Result) != want {
			t.Errorf("%s: got %s", raw, m.Result)
		}
	}
}

// Lists are pml's own first, then what servers have; pages of theirs follow.
func TestGateway_Lists(t *testing.T) {
	t.Parallel()
	b := &behind{changed: make(chan string)}
	b.forward = func(_ *api.Peer, method string, params json.RawMessage) (json.RawMessage, bool, error) {
		switch {
		case method == "resources/list" && strings.Contains(string(params), `"cursor":"2"`):
			return json.RawMessage(`{"resources":[{"uri":"x://2","name":"two"}]}`), true, nil
		case method == "resources/list":
			return json.RawMessage(`{"resources":[{"uri":"x://1","name":"one","size":1.0}],"nextCursor":"2"}`), true, nil
		case method == "resources/read" && strings.Contains(string(params), "x://1"):
			return json.RawMessage(`{"contents":[{"uri":"x://1","text":"<"}]}`), true, nil
		case method == "prompts/get":
			return nil, true, &api.PeerError{Code: -32602, Message: "no such prompt there"}
		case method == "completion/complete":
			return json.RawMessage(`{"completion":{"values":["a"]}}`), true, nil
		case method == "prompts/list":
			return nil, false, errors.New("broken")
		}
		return nil, false, nil
	}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	w.send(initialize)
	w.next()
	for _, tt := range []struct{ method, params, want, not string }{
		{"tools/list", `{}`, `{"name":"echo","inputSchema":{"type":"object"},"_meta":{"x":1.10},"icons":[]}]`, ""},
		{"resources/list", `{}`, `{"uri":"x://1","name":"one","size":1.0}],"nextCursor":"2"`, ""},
		{"resources/list", `{"cursor":"2"}`, `{"resources":[{"uri":"x://2","name":"two"}]}`, "approvals"},
		{"prompts/list", `{}`, "explain-workflow", "echo"},
		{"resources/read", `{"uri":"x://1"}`, `{"contents":[{"uri":"x://1","text":"<"}]}`, ""},
		{"resources/read", `{"uri":"pml://approvals"}`, "items", ""},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"theirs"},"argument":{"name":"a","value":""}}`, `["a"]`, ""},
		{"prompts/get", `{"name":"review-approvals"}`, "messages", ""},
	} {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"` + tt.method + `","params":` + tt.params + `}`)
		m := w.next()
		if !strings.Contains(string(m.Result), tt.want) || tt.not != "" && strings.Contains(string(m.Result), tt.not) {
			t.Errorf("%s %s: got %+v %s", tt.method, tt.params, m.Error, m.Result)
		}
		if tt.method == "tools/list" && !strings.HasPrefix(string(m.Result), `{"tools":[{`) {
			t.Errorf("got %s", m.Result)
		}
	}
	w.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"theirs"}}`)
	if m := w.next(); m.Error == nil || m.Error.Message != "no such prompt there" {
		t.Errorf("got %+v", m)
	}
	b.changed <- "notifications/tools/list_changed"
	if m := w.next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("got %+v", m)
	}
}

// sampling is what a server asks in the tests.
const sampling = `{"messages":[],"maxTokens":1.0}`

// asksServer is a gateway whose tool asks its client twice and returns what it
// heard.
func asksServer(t *testing.T) *behind {
	t.Helper()
	b := &behind{}
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		c.Peer.Notify("notifications/message", json.RawMessage(`{"level":"info","data":"working"}`))
		first, err := c.Peer.Ask(ctx, "sampling/createMessage", json.RawMessage(sampling))
		if err != nil {
			return api.OfferedResult{}, err
		}
		second, err := c.Peer.Ask(ctx, "roots/list", nil)
		if err != nil {
			return api.OfferedResult{}, err
		}
		return api.OfferedResult{Raw: json.RawMessage(`{"heard":[` + string(first) + `,` + string(second) + `]}`)}, nil
	}
	return b
}

const canSample = `{"sampling":{},"roots":{}}`

// What a server asks reaches the client that it works for, and the answer comes
// back as it was; nothing is asked that was not declared.
func TestGateway_Asks(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, offering(asksServer(t))))
	w.send(handshake(canSample))
	w.next()
	w.send(callLine("1", "echo", `{}`, ""))
	if m := w.next(); m.Method != "notifications/message" || string(m.Params) != `{"level":"info","data":"working"}` {
		t.Errorf("got %+v", m)
	}
	q := w.next()
	if q.Method != "sampling/createMessage" || string(q.Params) != sampling {
		t.Fatalf("got %+v", q)
	}
	w.send(said(q, `{"role":"assistant","n":1.10}`))
	q = w.next()
	if q.Method != "roots/list" || q.Params != nil {
		t.Fatalf("got %+v", q)
	}
	w.send(said(q, `{"roots":[]}`))
	if m := w.next(); string(m.Result) != `{"heard":[{"role":"assistant","n":1.10},{"roots":[]}]}` {
		t.Errorf("got %s", m.Result)
	}
	w.send(callLine("2", "echo", `{}`, ""))
	w.next()
	w.send(`{"jsonrpc":"2.0","id":` + string(w.next().ID) + `,"error":{"code":-1,"message":"user said no","data":{"a":1.0}}}`)
	if m := w.next(); m.Error == nil || m.Error.Code != -1 || m.Error.Message != "user said no" || string(m.Error.Data) != `{"a":1.0}` {
		t.Errorf("got %+v", m)
	}
	plain := dial(t, newEdge(t, &fake{t: t}, offering(asksServer(t))))
	plain.send(initialize)
	plain.next()
	plain.send(callLine("1", "echo", `{}`, ""))
	plain.next() // the log
	if m := plain.next(); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("asked without leave: %+v", m)
	}
}

// A cancelled call cancels the server's, and takes its question back.
func TestGateway_Cancelled(t *testing.T) {
	t.Parallel()
	b, ended := &behind{}, make(chan error, 1)
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		_, err := c.Peer.Ask(context.WithoutCancel(ctx), "sampling/createMessage", json.RawMessage(sampling))
		<-ctx.Done()
		ended <- err
		return api.OfferedResult{}, ctx.Err()
	}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	w.send(handshake(canSample))
	w.next()
	w.send(callLine("3", "echo", `{}`, ""))
	q := w.next()
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	if m := w.next(); m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), string(q.ID)) {
		t.Errorf("got %+v", m)
	}
	if err := <-ended; err == nil {
		t.Error("the question was answered")
	}
	w.send(ping)
	if m := w.next(); string(m.Result) != "{}" {
		t.Errorf("got %+v", m)
	}
}

// For a modern client the call is answered with the server's question while the
// server waits; the same call with the answer takes it up, once.
func TestGateway_ModernAsks(t *testing.T) {
	t.Parallel()
	srv, _ := serveHTTP(t, &fake{t: t}, offering(asksServer(t)))
	send := func(more string, headers ...string) msg {
		t.Helper()
		res := post(t, srv.URL, modernCall("1", "echo", `{"a":1}`, canSample, more), append([]string{
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo",
		}, headers...)...)
		var m msg
		if err := json.Unmarshal([]byte(res.body), &m); err != nil {
			t.Fatalf("%d %s", res.code, res.body)
		}
		return m
	}
	first := send("").asks(t)
	if q := first.Requests["question"]; q.Method != "sampling/createMessage" || string(q.Params) != sampling {
		t.Errorf("asked %+v", first)
	}
	if m := send(first.retry(`{"role":"assistant"}`), "X-Who", "eve"); m.Error == nil || !strings.Contains(m.Error.Message, "another caller") {
		t.Errorf("somebody else: %+v", m)
	}
	second := send(first.retry(`{"role":"assistant"}`)).asks(t)
	if q := second.Requests["question"]; q.Method != "roots/list" {
		t.Errorf("asked %+v", second)
	}
	if m := send(first.retry(`{"role":"user"}`)); m.Error == nil || !strings.Contains(m.Error.Message, "used before") {
		t.Errorf("again: %+v %s", m, m.Result)
	}
	if m := send(second.retry(`{"roots":[]}`)); string(m.Result) != `{"resultType":"complete","heard":[{"role":"assistant"},{"roots":[]}]}` {
		t.Errorf("got %+v %s", m.Error, m.Result)
	}
	lost := send("").asks(t)
	fresh, _ := serveHTTP(t, &fake{t: t}, offering(asksServer(t)))
	srv = fresh // as after a restart, with another secret here
	if m := send(lost.retry(`{}`)); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("after a restart: %+v", m)
	}
}

// A question that nobody brings an answer to ends the call.
func TestGateway_ModernAbandoned(t *testing.T) {
	t.Parallel()
	b, ended := &behind{}, make(chan error, 1)
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		_, err := c.Peer.Ask(ctx, "sampling/createMessage", json.RawMessage(sampling))
		ended <- err
		return api.OfferedResult{}, err
	}
	w := dial(t, newEdge(t, &fake{t: t}, func(o *mcp.Options) {
		offering(b)(o)
		o.Holding = time.Millisecond
	}))
	w.send(modernCall("1", "echo", `{}`, canSample, ""))
	in := w.next().asks(t)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the question was answered")
		}
	case <-time.After(hung):
		t.Fatal("the call goes on")
	}
	w.send(modernCall("2", "echo", `{}`, canSample, in.retry(`{}`)))
	if m := w.next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "Call the tool anew") {
		t.Errorf("got %+v %s", m, m.Result)
	}
}

// A call that needs a decision is decided like any other; then the client gets
// what the server has sent.
func TestGateway_Paused(t *testing.T) {
	t.Parallel()
	const raw = `{"content":[{"type":"text","text":"done"}],"n":1.10}`
	paused := func() (*asker, *behind) {
		a := newAsker(t, oneApproval())
		proceed := a.proceed
		a.proceed = func(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
			r, err := proceed(ctx, req)
			if r.Status == api.StatusComplete {
				r.Result = json.RawMessage(`{"` + core.OfferedTask + `":` + raw + `}`)
			}
			return r, err
		}
		return a, &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			r := a.stands(api.StatusComplete)
			return api.OfferedResult{Paused: &r}, nil
		}}
	}
	a, b := paused()
	now := newClock()
	edge := func(o *mcp.Options) { offering(b)(o); o.Clock = now }
	w := dial(t, newEdge(t, a, edge))
	w.send(handshake(elicits))
	w.next()
	w.send(callLine("1", "echo", `{}`, ""))
	q := w.next()
	now.add(time.Second)
	w.send(said(q, approves))
	if m := w.next(); string(m.Result) != raw {
		t.Errorf("older: %+v %s", m, m.Result)
	}

	a, b = paused()
	w = dial(t, newEdge(t, a, edge))
	w.send(modernCall("1", "echo", `{}`, elicits, ""))
	in := w.next().asks(t)
	now.add(time.Second)
	w.send(modernCall("2", "echo", `{}`, elicits, in.retry(approves)))
	if m := w.next(); string(m.Result) != `{"resultType":"complete",`+raw[1:] {
		t.Errorf("modern: %+v %s", m, m.Result)
	}

	a, b = paused()
	w = dial(t, newEdge(t, a, edge))
	w.send(initialize)
	w.next()
	w.send(callLine("1", "echo", `{}`, ""))
	m := w.next()
	if !strings.Contains(string(m.Result), "approval_required") || !strings.Contains(string(m.Result), `"isError":true`) || strings.Contains(string(m.Result), "structuredContent") {
		t.Errorf("not asked: %s", m.Result)
	}
}

// Without a gateway nothing changes, and with one the end of a session is told.
func TestGateway_Gone(t *testing.T) {
	t.Parallel()
	b := &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
		return api.OfferedResult{Raw: json.RawMessage(`{}`)}, nil
	}}
	gone := make(chan struct{})
	srv, _ := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) {
		o.Proxy = func(api.Scope) (mcp.Proxy, error) { return &leaver{behind: b, gone: gone}, nil }
	})
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	if res := post(t, srv.URL, callLine("1", "echo", `{}`, ""), "Mcp-Session-Id", id); res.code != http.StatusOK || !strings.Contains(res.body, `"result":{}`) {
		t.Errorf("%d %s", res.code, res.body)
	}
	request(t, http.MethodDelete, srv.URL, "", "Mcp-Session-Id", id)
	select {
	case <-gone:
	case <-time.After(hung):
		t.Error("the servers were not told")
	}
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	w.send(callLine("1", "echo", `{}`, ""))
	if m := w.next(); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("got %+v", m)
	}
}

type leaver struct {
	*behind
	gone chan struct{}
}

func (l *leaver) Gone(string) { close(l.gone) }
