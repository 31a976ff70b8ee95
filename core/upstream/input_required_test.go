package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/upstream"
)

// A server of the newest revision asks by its result; for the client that is
// the same.
func TestPeer_InputByRoundTrips(t *testing.T) {
	t.Parallel()
	const elicit = `{"method":"elicitation/create","params":{"message":"sure?","n":12345678901234567890}}`
	for _, mode := range []string{"rich-modern", "rich"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m := newManager(t, nil)
			l := with(launch(t, mode, p.env()), newHost("a", allCapabilities))
			got, err := call(t, m, l, "t", `{"input":{"x":`+elicit+`,"y":{"method":"roots/list"}}}`)
			text, state, _ := strings.Cut(unquote(t, got, err), " ")
			if state != `"s-1"` {
				t.Errorf("state %s", state)
			}
			sameJSON(t, `{"x":{"asked":"elicitation/create","with":{"message":"sure?","n":12345678901234567890}},"y":{"asked":"roots/list","with":null}}`, text, nil)
		})
	}
}

func unquote(t *testing.T, value string, err error) string {
	t.Helper()
	var s string
	if err != nil || json.Unmarshal([]byte(value), &s) != nil {
		t.Fatalf("%s, %v", value, err)
	}
	return s
}

func TestPeer_InputThatCannotBeHad(t *testing.T) {
	t.Parallel()
	declined := &jsonrpc.Error{Code: -1, Message: "declined", Data: json.RawMessage(`[1.10]`)}
	for name, tt := range map[string]struct {
		capabilities, args, want string
		err                      error
	}{
		"refused":     {allCapabilities, `{"input":{"x":{"method":"elicitation/create"}}}`, "asks for input: error -1: declined", declined},
		"undeclared":  {`{"roots":{}}`, `{"input":{"x":{"method":"elicitation/create"}}}`, `which its client has not declared`, nil},
		"without end": {allCapabilities, `{"input":{"x":{"method":"roots/list"}},"rounds":2}`, "still is not satisfied", nil},
		"for nothing": {allCapabilities, `{"input":{},"rounds":2}`, "still is not satisfied", nil},
		"no object":   {allCapabilities, `{"input":[]}`, "not MCP", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			h := newHost("a", tt.capabilities)
			if tt.err != nil {
				h.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, tt.err }
			}
			m := newManager(t, nil)
			l := with(launch(t, "rich-modern", p.env()), h)
			_, err := call(t, m, l, "t", tt.args)
			wantCode(t, err, core.CodeToolFailed, tt.want)
			var rpc *jsonrpc.Error
			if tt.err != nil && (!errors.As(err, &rpc) || !cmp.Equal(rpc, declined)) {
				t.Errorf("%#v", rpc)
			}
			if _, err := call(t, m, l, "t", `{}`); err != nil { // the connection is well
				t.Error(err)
			}
			if len(p.calls) > 1 {
				t.Error("it was started again")
			}
		})
	}
}

// A client that answers by round gets all of it under the server's keys, and the
// server what the client has brought.
func TestPeer_AllOfARound(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	h := newHost("a", allCapabilities)
	h.Peer.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		t.Error("asked one by one")
		return nil, errors.New("no")
	}
	h.AskAll = func(_ context.Context, asked map[string]upstream.Question) (map[string]json.RawMessage, error) {
		if len(asked) != 2 || string(asked["x"].Params) != `{"n":1.10}` || asked["y"].Method != "roots/list" {
			t.Errorf("asked %+v", asked)
		}
		return map[string]json.RawMessage{"x": json.RawMessage(`{"b":1.10}`), "other": json.RawMessage(`[]`)}, nil
	}
	m := newManager(t, nil)
	l := with(launch(t, "rich-modern", p.env()), h)
	got, err := call(t, m, l, "t", `{"input":{"x":{"method":"elicitation/create","params":{"n":1.10}},"y":{"method":"roots/list"}}}`)
	text, _, _ := strings.Cut(unquote(t, got, err), " ")
	sameJSON(t, `{"x":{"b":1.10},"other":[]}`, text, nil)
}
