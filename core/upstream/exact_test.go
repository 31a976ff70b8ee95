package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// A result that asks for input is no result, however its type is written.
func TestCall_AsksForInputInDisguise(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"plain":        `"resultType":"input_required"`,
		"escaped":      `"resultType":"input\u005frequired"`,
		"escaped name": `"result\u0054ype":"input\u005frequired"`,
		"case":         `"ResultType":"input_required"`,
		"doubled":      `"resultType":"input_required","resultType":"complete"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := tiny(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],%s,"inputRequests":{"q":{"method":"elicitation/create"}},"requestState":"mine"}}`, id, kind)
			})
			for peer, p := range map[string]*upstream.Peer{"none": nil, "asks nothing": {ID: "p"}, "roots only": {ID: "q", Capabilities: json.RawMessage(`{"roots":{}}`), Ask: neverAsked(t)}} {
				m := newManager(t, nil)
				resp, err := m.Call(t.Context(), upstream.Request{Launch: upstream.Launch{Name: "s", URL: srv.URL, Digest: "d", Peer: p}, Tool: "t", Args: json.RawMessage(`{}`)})
				if core.CodeOf(err) != core.CodeToolFailed || !strings.Contains(err.Error(), "asks for input") || resp.Raw != nil {
					t.Errorf("%s: %s %v", peer, resp.Raw, err)
				}
			}
		})
	}
}

func neverAsked(t *testing.T) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
		t.Error("asked for", method)
		return core.Null, nil
	}
}

// A result is read by the exact names of its members, and the last of two.
func TestNormalizeResult_Exact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"}],"IsError":true}`:                         `"a"`,
		`{"content":[{"type":"text","text":"a"}],"STRUCTUREDCONTENT":1}`:                  `"a"`,
		`{"content":[{"type":"text","text":"a","Text":"b"}]}`:                             `"a"`,
		`{"content":[{"type":"text","text":"a"}],"content":[{"type":"text","text":"b"}]}`: `"b"`,
		`{"str\u0075cturedContent":7}`:                                                    `7`,
		` {"isError":true,"isError":false,"structuredContent":8} `:                        `8`,
	} {
		if got, err := upstream.NormalizeResult(json.RawMessage(in)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
}

// What names a method is never taken for a response, however the name is written.
func TestEvents_RequestInDisguise(t *testing.T) {
	t.Parallel()
	for in, heards := range map[string]int{
		`{"jsonrpc":"2.0","id":7,"meth\u006fd":"ping"}`: 1,
		`{"id":7,"method":"ping"}`:                      0,
		`{"id":7,"method":"ping","result":{}}`:          0,
	} {
		heard, answer := upstream.ReadEvents(strings.NewReader("id: 3\ndata: " + in + "\n\n"))
		if answer != "" || len(heard) != heards {
			t.Errorf("%s: %q %q", in, answer, heard)
		}
	}
}
