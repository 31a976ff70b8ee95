package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/upstream"
)

func forward(t *testing.T, m *upstream.Manager, l upstream.Launch, method, params string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	got, err := m.Forward(ctx, l, method, json.RawMessage(params))
	return string(got), err
}

func wantRPC(t *testing.T, err error, want jsonrpc.Error) {
	t.Helper()
	var got *jsonrpc.Error
	if !errors.As(err, &got) {
		t.Fatalf("no error of JSON-RPC: %v", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
}

func TestForward_PassesUnharmed(t *testing.T) {
	t.Parallel()
	for _, h := range []*host{newHost("a", allCapabilities), newHost("b", "")} {
		m := newManager(t, nil)
		l := with(launch(t, "rich"), h)
		for _, method := range []string{
			"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
			"prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
		} {
			got, err := forward(t, m, l, method, `{"uri":"u","n":12345678901234567890,"s":"<é>","_meta":{"k":1.10,"progressToken":1}}`)
			sameJSON(t, `{"method":"`+method+`","params":{"uri":"u","n":12345678901234567890,"s":"<é>","_meta":{"k":1.10}},"n":1.10}`, got, err)
		}
		got, err := forward(t, m, l, "resources/list", "")
		sameJSON(t, `{"method":"resources/list","params":null,"n":1.10}`, got, err)
	}
}

func TestForward_Errors(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 4096 })
	l := launch(t, "rich")
	_, err := forward(t, m, l, "resources/read", `{"uri":"bad"}`)
	wantRPC(t, err, jsonrpc.Error{Code: -32002, Message: "Resource not found", Data: json.RawMessage(`{"uri":"bad","n":12345678901234567890}`)})
	_, err = forward(t, m, l, "tools/call", `{}`)
	wantRPC(t, err, jsonrpc.Error{Code: -32601, Message: "Method not found: tools/call"})
	_, err = forward(t, m, l, "prompts/list", `[]`)
	wantRPC(t, err, jsonrpc.Error{Code: -32602, Message: "the params must be an object"})
	for _, n := range []int{5000, 200_000} { // read whole, and never held
		_, err = forward(t, m, l, "prompts/get", `{"x":"`+strings.Repeat("x", n)+`"}`)
		wantCode(t, err, core.CodeResultTooLarge)
	}
	_, err = forward(t, m, l, "resources/read", `{"uri":"die"}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if _, err = forward(t, m, l, "resources/list", ``); err != nil {
		t.Error(err)
	}
}

// A server that may ask for roots is told when they have changed.
func TestForward_RootsChanged(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "tells-all", p.env())
	own, other := with(l, newHost("a", `{"roots":{"listChanged":true}}`)), with(l, newHost("b", `{"sampling":{}}`))
	const method = "notifications/roots/list_changed"
	if _, err := forward(t, m, own, method, ``); err != nil || len(p.calls) > 0 {
		t.Error("a server was started to be told", err)
	}
	for _, l := range []upstream.Launch{other, own} {
		if _, err := m.Capabilities(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if _, err := forward(t, m, l, method, ``); err != nil {
			t.Error(err)
		}
		if _, err := call(t, m, l, "pid", `{}`); err != nil {
			t.Error(err)
		}
		r, said := pick(t, p), []string{}
		for said = append(said, line(t, r)); len(said) < 3; {
			said = append(said, line(t, r))
		}
		if l.Peer == own.Peer {
			said = append(said, line(t, r))
		}
		if got := slices.Contains(said, method); got != (l.Peer == own.Peer) {
			t.Errorf("%s is told %q", l.Peer.ID, said)
		}
	}
}

// A server without a capability is not asked for it.
func TestForward_CapabilityIsMissing(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "ignores-unknown", p.env())
	for _, method := range []string{"resources/list", "resources/subscribe", "prompts/get", "completion/complete", "logging/setLevel"} {
		_, err := forward(t, m, l, method, `{"uri":"u"}`)
		wantRPC(t, err, jsonrpc.Error{Code: -32601, Message: "Method not found: " + method})
	}
	r := pick(t, p)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if said, err := r.ReadString('\n'); err == nil {
		t.Errorf("it was asked: %s", said)
	}
}

func TestForward_Cancelled(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Forward(ctx, launch(t, "rich", p.env()), "resources/read", json.RawMessage(`{"uri":"hang"}`))
		ended <- err
	}()
	r := pick(t, p)
	line(t, r)
	cancel()
	wantCode(t, <-ended, core.CodeCancelled)
	if got := line(t, r); got != "cancelled" {
		t.Error(got)
	}
}

// One of several peers on a shared connection that no longer wants to be told
// takes nothing from the others.
func TestForward_SubscriptionsOfASharedConnection(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "rich", p.env())
	a, b := with(l, newHost("a", "")), with(l, newHost("b", ""))
	do := func(l upstream.Launch, method string) {
		t.Helper()
		if _, err := forward(t, m, l, method, `{"uri":"u"}`); err != nil {
			t.Fatal(err)
		}
	}
	do(a, "resources/subscribe")
	do(b, "resources/subscribe")
	do(a, "resources/unsubscribe")
	do(a, "resources/list")
	m.Gone("b") // the last one
	r := pick(t, p)
	for _, want := range []string{"resources/subscribe", "resources/subscribe", "resources/list", "resources/unsubscribe"} {
		if got := line(t, r); got != want+" u" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Who waits to be told of a resource keeps the server running, and is told by
// the process that follows one that died.
func TestForward_SubscriptionLasts(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, func(o *upstream.Options) { o.Limits.Idle = 1 })
	h := newHost("a", "")
	l := with(launch(t, "rich", p.env()), h)
	if _, err := forward(t, m, l, "resources/subscribe", `{"uri":"u"}`); err != nil {
		t.Fatal(err)
	}
	r := pick(t, p)
	line(t, r)
	if h, _ := m.Health("rich", l.Workspace); h.State != "running" {
		t.Errorf("it is %s", h.State)
	}
	_, err := forward(t, m, l, "resources/read", `{"uri":"die"}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if got := line(t, r); got != "resources/read die" {
		t.Errorf("the process that was asked to tell hears %q", got)
	}
	gone(t, r)
	if _, err := forward(t, m, l, "resources/list", ``); err != nil {
		t.Fatal(err)
	}
	r = pick(t, p)
	said := []string{line(t, r), line(t, r)}
	if !strings.Contains(strings.Join(said, "; "), "resources/subscribe u") {
		t.Errorf("the next process heard %q", said)
	}
	m.Gone("a")
	gone(t, r) // idle
}

// The newest revision has one stream for all that a server tells, and no
// request for the level.
func TestForward_NewestRevision(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := with(launch(t, "rich-modern", p.env()), newHost("a", ""))
	caps, err := m.Capabilities(t.Context(), l)
	if err != nil || caps.Protocol != "2026-07-28" {
		t.Fatal(caps, err)
	}
	r := pick(t, p)
	listens := func() string {
		var n struct {
			Filter json.RawMessage `json:"notifications"`
		}
		if err := json.Unmarshal([]byte(line(t, r)), &n); err != nil {
			t.Error(err)
		}
		return string(n.Filter)
	}
	sameJSON(t, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, listens(), nil)
	if got, err := forward(t, m, l, "resources/subscribe", `{"uri":"u"}`); err != nil || got != "{}" {
		t.Error(got, err)
	}
	sameJSON(t, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u"]}`, listens(), nil)
	if got, err := forward(t, m, l, "resources/unsubscribe", `{"uri":"u"}`); err != nil || got != "{}" {
		t.Error(got, err)
	}
	sameJSON(t, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, listens(), nil)
	if got, err := forward(t, m, l, "logging/setLevel", `{"level":"error"}`); err != nil || got != "{}" {
		t.Error(got, err)
	}
	const meta = `{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"error"`
	got, err := forward(t, m, l, "prompts/get", `{"name":"p","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"other"},"k":1.10}}`)
	sameJSON(t, `{"method":"prompts/get","params":{"name":"p","_meta":`+meta+`,"k":1.10}},"n":1.10}`, got, err)
	line(t, r)
	got, err = call(t, m, l, "t", `{"do":"meta"}`)
	sameJSON(t, meta+"}", got, err)
	// A request that says its level gets that one.
	const wanted = `{"io.modelcontextprotocol/logLevel":"debug","k":1}`
	called := strings.Replace(meta, `"error"`, `"debug","k":1`, 1) + "}"
	resp, err := m.Call(t.Context(), upstream.Request{Launch: l, Tool: "t", Args: json.RawMessage(`{"do":"meta"}`), Meta: json.RawMessage(wanted)})
	sameJSON(t, called, string(resp.Value), err)
	got, err = forward(t, m, l, "prompts/get", `{"name":"p","_meta":`+wanted+`}`)
	sameJSON(t, `{"method":"prompts/get","params":{"name":"p","_meta":`+called+`},"n":1.10}`, got, err)
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Local = map[string]upstream.LocalServer{"local": localServer(nil)} })
	got, err := m.Capabilities(t.Context(), launch(t, "rich"))
	if err != nil || string(got.Raw) != richCapabilities || got.Instructions != "be nice" || got.Protocol != "2025-11-25" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := m.Capabilities(t.Context(), upstream.Launch{Name: "local"}); err != nil || string(got.Raw) != "{}" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = m.Capabilities(t.Context(), launch(t, "exits"))
	wantCode(t, err, core.CodeServerUnreachable)
}

func TestDefinitions_AreWhole(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Local = map[string]upstream.LocalServer{"local": localServer(nil)} })
	l := launch(t, "rich")
	defs, edition, err := m.Definitions(t.Context(), l)
	if err != nil || len(defs) != 1 || !m.Lives(l, edition) {
		t.Fatal(defs, edition, err)
	}
	const want = `{"name":"t","icons":[{"src":"data:,x"}],"inputSchema":{"type":"object","maximum":1.0},"execution":{"taskSupport":"required"},"_meta":{"n":1.10}}`
	if string(defs[0].Raw) != want || defs[0].Tool.ID() != "rich:t" {
		t.Errorf("%s %s", defs[0].Tool.ID(), defs[0].Raw)
	}
	tools, other, err := m.List(t.Context(), l)
	if err != nil || other != edition || !cmp.Equal(tools, []core.Tool{defs[0].Tool}) {
		t.Error(tools, other, err)
	}
	local, _, err := m.Definitions(t.Context(), upstream.Launch{Name: "local"})
	if err != nil || len(local) == 0 {
		t.Fatal(local, err)
	}
	var d struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(local[0].Raw, &d); err != nil || d.Name != local[0].Tool.Name || len(d.Input) == 0 {
		t.Errorf("%s, %v", local[0].Raw, err)
	}
}

// What a server says of a failure can be had as it said it.
func TestCall_FailuresUnharmed(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "rich")
	small := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 10 })
	_, err := call(t, small, launch(t, "good"), "big", `{"n":200000}`)
	var rpc *jsonrpc.Error
	if wantCode(t, err, core.CodeResultTooLarge); errors.As(err, &rpc) {
		t.Errorf("the server has not said %v", rpc)
	}
	resp, err := m.Call(t.Context(), upstream.Request{Launch: l, Tool: "t", Args: json.RawMessage(`{"do":"fail"}`)})
	wantError(t, err, core.CodeToolFailed, "no such city")
	if string(resp.Raw) != `{"isError":true,"content":[{"type":"text","text":"no such city"}],"_meta":{"n":1.10}}` {
		t.Errorf("%s", resp.Raw)
	}
	_, err = m.Call(t.Context(), upstream.Request{Launch: l, Tool: "t", Args: json.RawMessage(`{"do":"refuse"}`)})
	wantError(t, err, core.CodeToolFailed, "rich:t: as a task only")
	wantRPC(t, err, jsonrpc.Error{Code: -32600, Message: "as a task only", Data: json.RawMessage(`[12345678901234567890]`)})
}

func TestCall_Meta(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "rich")
	for _, tt := range []struct{ meta, want string }{
		{`{"k":{"n":12345678901234567890},"progressToken":7,"io.modelcontextprotocol/clientCapabilities":{}}`, `{"k":{"n":12345678901234567890}}`},
		{`{"k":1,"progressToken":7}`, `{"k":1,"progressToken":"p1"}`},
		{`{"k":1,"io.modelcontextprotocol/logLevel":"debug"}`, `{"k":1}`},
	} {
		req := upstream.Request{Launch: l, Tool: "t", Args: json.RawMessage(`{"do":"meta"}`), Meta: json.RawMessage(tt.meta)}
		if strings.Contains(tt.want, "progressToken") {
			req.Progress = func(string, float64, float64) {}
		}
		resp, err := m.Call(t.Context(), req)
		sameJSON(t, tt.want, string(resp.Value), err)
	}
	_, err := m.Call(t.Context(), upstream.Request{Launch: l, Tool: "t", Meta: json.RawMessage(`[]`)})
	wantCode(t, err, core.CodeInvalidArguments, "_meta")
}
