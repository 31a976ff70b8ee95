package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/api"
)

const (
	canElicit = `{"elicitation":{},"roots":{}}`
	askName   = `{"message":"What is your name?","requestedSchema":{"type":"object","properties":{}}}`
	aliceSays = `{"action":"accept","content":{"name":"Alice"}}`
)

// greeter asks for a name and the roots in one round, under its own keys, until it
// has the name, as servers of the newest revision do. It answers with all it got.
func greeter(ctx context.Context, p *api.Peer) (json.RawMessage, error) {
	for {
		answers, err := p.AskAll(ctx, map[string]api.Question{
			"user_name": {Method: "elicitation/create", Params: json.RawMessage(askName)}, "user_roots": {Method: "roots/list"},
		})
		if err != nil {
			return nil, err
		}
		if len(answers["user_name"]) > 0 {
			return json.Marshal(map[string]any{"got": answers})
		}
	}
}

func greeting() *behind {
	b := &behind{}
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		raw, err := greeter(ctx, c.Peer)
		return api.OfferedResult{Raw: raw}, err
	}
	b.forward = func(p *api.Peer, _ string, params json.RawMessage) (json.RawMessage, bool, error) {
		if strings.Contains(string(params), "inputResponses") || strings.Contains(string(params), "requestState") {
			return nil, true, &api.PeerError{Code: -1, Message: "what is pml's own reached the server: " + string(params)}
		}
		raw, err := greeter(context.Background(), p)
		return raw, true, err
	}
	return b
}

// brings are the members of params with answers, and the state if there is one.
func brings(state, answers string) string {
	if state == "" {
		return `"inputResponses":` + answers + `,`
	}
	text, _ := json.Marshal(state)
	return `"inputResponses":` + answers + `,"requestState":` + string(text) + `,`
}

// roundRequests are requests in the middle of which a server asks.
var roundRequests = map[string]func(more string) string{
	"tools/call": func(more string) string { return modernCall("1", "echo", `{}`, canElicit, more) },
	"prompts/get": func(more string) string {
		return strings.Replace(modern("1", "prompts/get", `"name":"p","arguments":{},`+more), `clientCapabilities":{}`, `clientCapabilities":`+canElicit, 1)
	},
	"resources/read": func(more string) string {
		return strings.Replace(modern("1", "resources/read", `"uri":"x://1",`+more), `clientCapabilities":{}`, `clientCapabilities":`+canElicit, 1)
	},
}

// All questions of a round come at once, under the server's keys, whatever is
// called; the answers reach the server as they were brought, and it asks again for
// what it lacks.
func TestRounds(t *testing.T) {
	t.Parallel()
	for method, request := range roundRequests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := dial(t, newEdge(t, &fake{t: t}, offering(greeting())))
			round := func(more string) (state string) {
				t.Helper()
				w.send(request(more))
				m := w.next()
				var in inputRequired
				if err := json.Unmarshal(m.Result, &in); err != nil || in.Type != "input_required" || len(in.Requests) != 2 {
					t.Fatalf("%+v %s", m.Error, m.Result)
				}
				if q := in.Requests["user_name"]; q.Method != "elicitation/create" || string(q.Params) != askName {
					t.Errorf("%+v", in.Requests)
				}
				if q := in.Requests["user_roots"]; q.Method != "roots/list" || q.Params != nil {
					t.Errorf("%+v", in.Requests)
				}
				return in.State
			}
			state := round("")
			state = round(brings(state, `{"wrong":`+aliceSays+`}`))
			state = round(brings(state, `{}`))
			w.send(request(brings(state, `{"user_name":`+aliceSays+`,"more":1.10}`)))
			want := `{"resultType":"complete","got":{"more":1.10,"user_name":` + aliceSays + `}}`
			if m := w.next(); cmp.Diff(want, string(m.Result)) != "" {
				t.Errorf("%+v %s", m.Error, m.Result)
			}
			w.send(request(brings(state, `{"user_name":`+aliceSays+`}`)))
			if m := w.next(); m.Error == nil || !strings.Contains(m.Error.Message, "used before") {
				t.Errorf("%+v %s", m.Error, m.Result)
			}
		})
	}
}

// An answer that is brought before it is asked for counts once; one under another
// key is no answer.
func TestRounds_Unasked(t *testing.T) {
	t.Parallel()
	for method, request := range roundRequests {
		w := dial(t, newEdge(t, &fake{t: t}, offering(greeting())))
		w.send(request(brings("", `{"user_name":`+aliceSays+`,"extra":{}}`)))
		if m := w.next(); !strings.Contains(string(m.Result), `"got":{"extra":{},"user_name":`+aliceSays) {
			t.Errorf("%s: %+v %s", method, m.Error, m.Result)
		}
		w.send(request(brings("", `{"wrong_key":`+aliceSays+`}`)))
		if m := w.next(); !strings.Contains(string(m.Result), `"user_name":{"method":"elicitation/create"`) {
			t.Errorf("%s: %+v %s", method, m.Error, m.Result)
		}
	}
}

// A state belongs to the request that it was given for.
func TestRounds_OfAnother(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, offering(greeting())))
	w.send(roundRequests["prompts/get"](""))
	var in inputRequired
	if err := json.Unmarshal(w.next().Result, &in); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"resources/read", "tools/call"} {
		w.send(roundRequests[method](brings(in.State, `{"user_name":`+aliceSays+`}`)))
		if m := w.next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "belongs to another call") {
			t.Errorf("%s: %+v %s", method, m.Error, m.Result)
		}
	}
}

// A question without a key of its own is asked until it is answered.
func TestRounds_WrongKey(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, offering(asksServer(t))))
	w.send(modernCall("1", "echo", `{}`, canSample, ""))
	first := w.next().asks(t)
	w.send(modernCall("2", "echo", `{}`, canSample, brings(first.State, `{"wrong":{}}`)))
	again := w.next().asks(t)
	if diff := cmp.Diff(first.Requests, again.Requests); diff != "" {
		t.Error(diff)
	}
	w.send(modernCall("3", "echo", `{}`, canSample, again.retry(`{"role":"assistant"}`)))
	if q := w.next().asks(t).Requests["question"]; q.Method != "roots/list" {
		t.Errorf("%+v", q)
	}
}

// Questions that a client leaves unanswered take nothing from its later calls:
// the oldest makes room, and every call's servers can ask what was declared.
func TestRounds_Abandoned(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 100)
	b := &behind{}
	b.call = func(ctx context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		if string(c.Peer.Capabilities) != canElicit {
			t.Errorf("call %s has %s", c.Args, c.Peer.Capabilities)
		}
		raw, err := greeter(ctx, c.Peer)
		if err != nil {
			ended <- string(c.Args)
		}
		return api.OfferedResult{Raw: raw}, err
	}
	w := dial(t, newEdge(t, &fake{t: t}, offering(b)))
	var states []string
	for i := range 20 {
		w.send(modernCall("1", "echo", fmt.Sprint(`{"n":`, i, `}`), canElicit, ""))
		var in inputRequired
		if m := w.next(); json.Unmarshal(m.Result, &in) != nil || len(in.Requests) != 2 {
			t.Fatalf("call %d: %+v %s", i, m.Error, m.Result)
		}
		states = append(states, in.State)
		if i >= 8 {
			if got := <-ended; got != fmt.Sprint(`{"n":`, i-8, `}`) {
				t.Errorf("call %d: %s was given up", i, got)
			}
		}
	}
	answer := func(i int) msg {
		w.send(modernCall("2", "echo", fmt.Sprint(`{"n":`, i, `}`), canElicit, brings(states[i], `{"user_name":`+aliceSays+`}`)))
		return w.next()
	}
	if m := answer(3); m.Error == nil || !strings.Contains(m.Error.Message, "made room for later calls of its client") {
		t.Errorf("%+v %s", m.Error, m.Result)
	}
	if m := answer(15); !strings.Contains(string(m.Result), "Alice") {
		t.Errorf("%+v %s", m.Error, m.Result)
	}
}
