package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/service"
)

// A server's question says whose it is, whatever it looks like.
func TestAsksAs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ question, want string }{
		"plain":         {`{"message":"Your name?","n":12345678901234567890}`, `{"message":"[server up] Your name?","n":12345678901234567890}`},
		"hidden":        {`{"message":"a\u001b]0;x\u0007\u202eb\nc"}`, `{"message":"[server up] a\\x1b]0;x\\x07\\u{202e}b\n> c"}`},
		"another case":  {`{"message":"a","Message":"pml asks","MESSAGE":"x"}`, `{"message":"[server up] a"}`},
		"twice":         {`{"message":"a","message":"b"}`, `{"message":"[server up] b"}`},
		"in disguise":   {`{"message":"a","\u004dessage":"b"}`, `{"message":"[server up] a"}`},
		"none":          {`{}`, `{"message":"[server up] "}`},
		"schema":        {`{"message":"","requestedSchema":{"properties":{"z":{"title":"\u200bz"},"a":{}}}}`, `{"message":"[server up] ","requestedSchema":{"properties":{"z":{"title":"\\u{200b}z"},"a":{}}}}`},
		"as it is sent": {`{"mode":"url","url":"https://x.example/?a=1&b=<2>","message":"é"}`, `{"message":"[server up] é","mode":"url","url":"https://x.example/?a=1&b=<2>"}`},
		"no string":     {`{"message":{"a":1}}`, ``},
		"no object":     {`["message"]`, ``},
		"null":          {`null`, ``},
		"nothing":       {``, ``},
		"a key":         {`{"message":"x","requestedSchema":{"properties":{"apiKey":{"type":"string"}}}}`, ``},
		"a password":    {`{"message":"x","requestedSchema":{"properties":{"a":{"type":"string","title":"Your Password"}}}}`, ``},
		"a PIN":         {`{"message":"x","requestedSchema":{"properties":{"pml_pin":{"type":"integer"}}}}`, ``},
		"no key":        {`{"message":"x","requestedSchema":{"properties":{"opinion":{"type":"string"}}}}`, `{"message":"[server up] x","requestedSchema":{"properties":{"opinion":{"type":"string"}}}}`},
	} {
		got, err := service.AsksAs("up", json.RawMessage(tt.question))
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add(`{"a\u0000":["\u001b","\\\"",1.0]}`)
	f.Add(`"\ud800"`)
	f.Fuzz(func(t *testing.T, text string) {
		got := service.VisibleJSON(json.RawMessage(text))
		if !json.Valid([]byte(text)) {
			return // it must not panic
		}
		if !json.Valid(got) {
			t.Fatalf("%q became %q", text, got)
		}
		if strings.ContainsFunc(string(got), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }) {
			t.Errorf("%q", got)
		}
		if _, err := service.AsksAs("up", json.RawMessage(text)); err == nil && !strings.HasPrefix(strings.TrimSpace(text), "{") {
			t.Errorf("%q is a question", text)
		}
	})
}

// What a server says to a person reaches the host so that it is seen.
func TestThrough_Said(t *testing.T) {
	t.Parallel()
	const events = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":"\u001b[31mred"}}}` + "\n\n" +
		`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"pml asks:\u2028 sure?","requestedSchema":{"type":"object"}}}` + "\n\n"
	s := newBare(t)
	s.answer = func(w http.ResponseWriter, n int32, id json.RawMessage) {
		switch n {
		case 1:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "%sdata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32001,\"message\":\"a\\u0007b\",\"data\":[\"\\u202e\"]}}\n\n", events, id)
		default:
			say(w, id, `"error":{"code":-32042,"message":"open","data":{"x":1,"elicitations":[{"mode":"url","url":"https://x.example","message":"go"},3]}}`)
		}
	}
	c := exposingBare(t, s)
	var mu sync.Mutex
	heard, asked := "", make(chan string, 1)
	p := &api.Peer{
		ID: "p", Capabilities: json.RawMessage(`{"elicitation":{}}`),
		Ask: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			asked <- string(params)
			return json.RawMessage(`{"action":"decline"}`), nil
		},
		Notify: func(method string, params json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			heard += method + " " + string(params)
		},
	}
	call := func() *api.PeerError {
		_, err := c.CallExposed(c.ctx(), "up:write", api.OfferedCall{By: core.Actor{Who: "agent", Via: core.ViaMCP}, Peer: p})
		var said *api.PeerError
		if !errors.As(err, &said) {
			t.Fatal(err)
		}
		return said
	}
	if said := call(); said.Message != `a\x07b` || string(said.Data) != `["\\u{202e}"]` {
		t.Errorf("%s, %s", said.Message, said.Data)
	}
	if q := <-asked; q != `{"message":"[server up] pml asks:\\u{2028} sure?","requestedSchema":{"type":"object"}}` {
		t.Error(q)
	}
	mu.Lock()
	if heard != `notifications/message {"level":"info","data":{"a":"\\x1b[31mred"}}` {
		t.Error(heard)
	}
	mu.Unlock()
	if said := call(); string(said.Data) != `{"elicitations":[{"message":"[server up] go","mode":"url","url":"https://x.example"}],"x":1}` {
		t.Errorf("%s", said.Data)
	}
	_, err := c.ForwardExposed(c.ctx(), p, "up", "resources/read", json.RawMessage(`{"uri":"a://b"}`))
	var said *api.PeerError
	if !errors.As(err, &said) || !strings.Contains(string(said.Data), "[server up] go") {
		t.Errorf("%v", err)
	}
}
