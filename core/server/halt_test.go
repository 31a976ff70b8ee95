package server_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Calls are halted and resumed by one request each. Nobody on TCP is a person by saying so.
func TestHalt(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	if r := e.do(t, "GET", "/api/v1/halt", ""); r.status != 200 || !json.Valid([]byte(r.body)) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/api/v1/halt", `{"reason":"enough"}`, `[halt http enough]`},
		{"/api/v1/resume", `{"pin":"1234","presence":"terminal","reason":"well"}`, `[resume well 1234 ]`},
	} {
		if r := e.as(t, "ana", "POST", c.path, c.body); r.status != 200 {
			t.Errorf("%s: %d %s", c.path, r.status, r.body)
		}
		if got := fmt.Sprint(last[[]any](e.b)); got != c.want {
			t.Errorf("%s asked %s, want %s", c.path, got, c.want)
		}
	}
}
