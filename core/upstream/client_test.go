package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/upstream"
)

const allCapabilities = `{"sampling":{"tools":{},"context":{},"x":1.10},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"tasks":{}}`

// host is a client that answers each question with what it was asked.
type host struct {
	*upstream.Peer
	mu   sync.Mutex
	told []string
}

func newHost(id, capabilities string) *host {
	h := &host{Peer: &upstream.Peer{ID: id, Capabilities: json.RawMessage(capabilities)}}
	h.Ask = func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if params == nil {
			params = json.RawMessage("null")
		}
		return json.RawMessage(fmt.Sprintf(`{"asked":%q,"with":%s}`, method, params)), nil
	}
	h.Notify = func(method string, params json.RawMessage) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = append(h.told, method+" "+string(params))
	}
	return h
}

func (h *host) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.told...)
}

// with is a launch on behalf of a client.
func with(l upstream.Launch, h *host) upstream.Launch {
	l.Peer = h.Peer
	return l
}

// pick answers the phone of a child.
func pick(t *testing.T, p *phone) *bufio.Reader {
	t.Helper()
	r := <-p.calls
	line(t, r) // its mode and pid
	return r
}

func TestPeer_AskedAndAnsweredUnharmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ ask, with, want string }{
		{"sampling/createMessage", `{"messages":[],"n":12345678901234567890,"s":"<é>"}`, `{"asked":"sampling/createMessage","with":{"messages":[],"n":12345678901234567890,"s":"<é>"}}`},
		{"elicitation/create", `{"mode":"url","url":"https://x.example/?a=1&b=2","elicitationId":"e"}`, `{"asked":"elicitation/create","with":{"mode":"url","url":"https://x.example/?a=1&b=2","elicitationId":"e"}}`},
		{"roots/list", `{}`, `{"asked":"roots/list","with":{}}`},
		{"ping", `{}`, `{}`},
		{"tasks/list", `{}`, `{"code":-32601,"message":"pml does not offer tasks/list to servers"}`},
	} {
		t.Run(tt.ask, func(t *testing.T) {
			t.Parallel()
			m := newManager(t, nil)
			got, err := call(t, m, with(launch(t, "rich"), newHost("a", allCapabilities)), "t", `{"ask":"`+tt.ask+`","with":`+tt.with+`}`)
			sameJSON(t, tt.want, got, err)
		})
	}
}

// sameJSON compares texts whose numbers keep their digits.
func sameJSON(t *testing.T, want, got string, err error) {
	t.Helper()
	parse := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		return v
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(want), parse(got)); diff != "" {
		t.Error(diff)
	}
}

// A server may ask only for what its client has declared.
func TestPeer_UndeclaredIsNotAsked(t *testing.T) {
	t.Parallel()
	h := newHost("a", `{"elicitation":{}}`)
	m := newManager(t, nil)
	got, err := call(t, m, with(launch(t, "rich"), h), "t", `{"ask":"sampling/createMessage"}`)
	sameJSON(t, `{"code":-32601,"message":"pml does not offer sampling/createMessage to servers"}`, got, err)
}

func TestPeer_ErrorsPassUnharmed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"of JSON-RPC": {fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: -1, Message: "declined", Data: json.RawMessage(`{"n":12345678901234567890}`)}),
			`{"code":-1,"message":"declined","data":{"n":12345678901234567890}}`},
		"of another kind": {errors.New("the session is gone"), `{"code":-32603,"message":"the client cannot be asked: the session is gone"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost("a", allCapabilities)
			h.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, tt.err }
			got, err := call(t, newManager(t, nil), with(launch(t, "rich"), h), "t", `{"ask":"elicitation/create"}`)
			sameJSON(t, tt.want, got, err)
		})
	}
}

// The handshake tells exactly what the client declared of what servers ask by,
// and who pml is, in both eras.
func TestPeer_CapabilitiesAreDeclaredAsTheyAre(t *testing.T) {
	t.Parallel()
	const declared = `{"sampling":{"tools":{},"context":{},"x":1.10},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`
	for mode, tt := range map[string]struct{ do, want string }{
		"rich":        {"greeted", `{"capabilities":` + declared + `,"clientInfo":{"name":"test","version":"1"},"protocolVersion":"2025-11-25"}`},
		"rich-modern": {"meta", `{"io.modelcontextprotocol/clientCapabilities":` + declared + `,"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m := newManager(t, nil)
			got, err := call(t, m, with(launch(t, mode, p.env()), newHost("a", allCapabilities)), "t", `{"do":"`+tt.do+`"}`)
			sameJSON(t, tt.want, got, err)
		})
	}
}

// A client without capabilities shares the connection of all; each with
// capabilities has its own, and it ends when the client is gone.
func TestPeer_ConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "good", p.env())
	pid := func(l upstream.Launch) string {
		got, err := call(t, m, l, "pid", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := newHost("a", allCapabilities), newHost("b", `{"roots":{}}`)
	shared, ofA, ofB := pid(l), pid(with(l, a)), pid(with(l, b))
	if shared == ofA || shared == ofB || ofA == ofB {
		t.Errorf("processes %s, %s, %s", shared, ofA, ofB)
	}
	for _, none := range []string{"", "{}", `{"tasks":{}}`, `{"sampling":null}`} {
		if got := pid(with(l, newHost("c"+none, none))); got != shared {
			t.Errorf("capabilities %q have a process of their own", none)
		}
	}
	if got := pid(with(l, a)); got != ofA {
		t.Error("the second call is by another process")
	}
	calls := map[string]*bufio.Reader{}
	for range 3 {
		r := <-p.calls
		_, n, _ := strings.Cut(line(t, r), " ")
		calls[n] = r
	}
	m.Gone("a")
	gone(t, calls[ofA])
	if pid(l) != shared || pid(with(l, b)) != ofB {
		t.Error("others have ended with it")
	}
	m.Stop("good", l.Workspace)
	gone(t, calls[shared])
	gone(t, calls[ofB])
}

// What a server tells comes in its order, as it was sent, and before the result
// of the call that it belongs to.
func TestPeer_NotificationsInOrderAndBeforeTheResult(t *testing.T) {
	t.Parallel()
	var say, want []string
	for i := range 200 {
		params := fmt.Sprintf(`{"level":"info","data":{"i":%d,"n":12345678901234567890,"f":1.10}}`, i)
		method := []string{
			"notifications/message", "notifications/resources/updated", "notifications/resources/list_changed",
			"notifications/prompts/list_changed", "notifications/tools/list_changed", "notifications/elicitation/complete",
		}[i%6]
		say = append(say, `{"jsonrpc":"2.0","method":"`+method+`","params":`+params+`}`)
		want = append(want, method+" "+params)
	}
	say = append(say, `{"jsonrpc":"2.0","method":"notifications/of/its/own"}`)
	for name, capabilities := range map[string]string{"own connection": allCapabilities, "shared connection": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost("a", capabilities)
			_, err := call(t, newManager(t, nil), with(launch(t, "rich"), h), "t", `{"say":[`+strings.Join(say, ",")+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, h.heard()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of a shared connection all who use it hear, until they are gone.
func TestPeer_AllOfASharedConnectionHear(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "rich")
	a, b := newHost("a", ""), newHost("b", "{}")
	own := newHost("own", allCapabilities)
	const say = `{"say":[{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}]}`
	for _, c := range []upstream.Launch{with(l, own), with(l, a), with(l, b), l} {
		if _, err := call(t, m, c, "t", say); err != nil {
			t.Fatal(err)
		}
	}
	m.Gone("a")
	if _, err := call(t, m, l, "t", say); err != nil {
		t.Fatal(err)
	}
	if n := []int{len(own.heard()), len(a.heard()), len(b.heard())}; !cmp.Equal(n, []int{1, 3, 3}) {
		t.Errorf("heard %v", n)
	}
}

// A question ends when the call that it belongs to does: the server gets an
// error, and is told of the cancelled call.
func TestPeer_QuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "timed out"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			h := newHost("a", allCapabilities)
			asked := make(chan context.Context, 1)
			h.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				asked <- ctx
				<-ctx.Done()
				return nil, ctx.Err()
			}
			m := newManager(t, func(o *upstream.Options) { o.Limits.Call = time.Hour })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req := upstream.Request{Launch: with(launch(t, "rich", p.env()), h), Tool: "t", Args: json.RawMessage(`{"ask":"elicitation/create"}`)}
			want := core.CodeCancelled
			if how == "timed out" {
				req.Total, want = 5*time.Second, core.CodeToolTimeout
			}
			ended := make(chan error, 1)
			go func() {
				_, err := m.Call(ctx, req)
				ended <- err
			}()
			r := pick(t, p)
			question := <-asked
			if how == "cancelled" {
				cancel()
			}
			wantCode(t, <-ended, want)
			select {
			case <-question.Done():
			case <-time.After(hung):
				t.Fatal("the question does not end")
			}
			sameJSON(t, `{"code":-32800,"message":"the client did not answer: the call that it belongs to is over"}`, line(t, r), nil)
		})
	}
}

// A question about the client itself outlives the calls that run beside it.
func TestPeer_RootsOutliveACall(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	h := newHost("a", allCapabilities)
	asked, may := make(chan struct{}), make(chan struct{})
	h.Ask = func(ctx context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
		close(asked)
		select {
		case <-may:
			return json.RawMessage(`{"roots":[]}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m := newManager(t, nil)
	l := with(launch(t, "rich", p.env()), h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, upstream.Request{Launch: l, Tool: "t", Args: json.RawMessage(`{"ask":"roots/list"}`)})
		ended <- err
	}()
	r := pick(t, p)
	<-asked
	cancel()
	wantCode(t, <-ended, core.CodeCancelled)
	close(may)
	sameJSON(t, `{"roots":[]}`, line(t, r), nil)
}

// A question to a client that is gone ends with its connection.
func TestPeer_GoneWhileAsked(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	h := newHost("a", allCapabilities)
	asked := make(chan context.Context, 1)
	h.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		asked <- ctx
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := newManager(t, func(o *upstream.Options) { o.Limits.Call = time.Hour })
	ended := make(chan error, 1)
	l := with(launch(t, "rich", p.env()), h)
	go func() {
		_, err := call(t, m, l, "t", `{"ask":"elicitation/create"}`)
		ended <- err
	}()
	r := pick(t, p)
	question := <-asked
	m.Gone("a")
	wantCode(t, <-ended, core.CodeServerUnreachable)
	select {
	case <-question.Done():
	case <-time.After(hung):
		t.Fatal("the question does not end")
	}
	for { // what it still says, then its end
		if _, err := r.ReadString('\n'); err != nil {
			break
		}
	}
}

// A server that takes a question back gets no answer to it.
func TestPeer_QuestionTakenBack(t *testing.T) {
	t.Parallel()
	p, conns := newPhone(t)
	h := newHost("a", allCapabilities)
	asked, over := make(chan struct{}), make(chan error, 1)
	h.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		close(asked)
		<-ctx.Done()
		over <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	m := newManager(t, nil)
	l := with(launch(t, "rich", p.env()), h)
	ended := make(chan string, 1)
	go func() {
		got, err := call(t, m, l, "t", `{"ask":"elicitation/create","do":"take back"}`)
		ended <- fmt.Sprint(got, err)
	}()
	pick(t, p)
	<-asked
	if _, err := (<-conns).Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != `"taken back"<nil>` {
		t.Error(got)
	}
	if err := <-over; err == nil || !strings.Contains(err.Error(), "taken it back") {
		t.Error(err)
	}
}
