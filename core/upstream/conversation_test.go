package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/upstream"
)

// FuzzConversation lets a server say anything after it was called: the call
// ends, and what it returns was said as the result of its own id.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"result":{"a":1}}` + "\n" + `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":"x"}}` + "\n"))
	f.Add([]byte(`{"sent":{"jsonrpc":"2.0","id":1,"result":{}}}[{"jsonrpc":"2.0","id":1,"result":{"b":[]}}]` + "\n"))
	f.Add([]byte(`0{"jsonrpc":"2.0","id":"","id":1,"result":[] }`))
	f.Add([]byte(`{"jsonrpc":"2.0","ID":1,"Result":{"k":` + strings.Repeat("9", 300) + `}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		raw, err := upstream.Converse(ctx, bytes.NewReader(in), 200)
		if ctx.Err() != nil {
			t.Fatalf("the call does not end: %q", in)
		}
		if err == nil && raw != nil && !saysResult(in, raw) {
			t.Errorf("%q gave %s", in, raw)
		}
	})
}

// saysResult reports whether a line holds an object that is the response to
// the call 1 with this result.
func saysResult(in, raw []byte) bool {
	for line := range bytes.Lines(in) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
		for i := range line {
			var msg struct {
				Version any             `json:"jsonrpc"`
				ID      any             `json:"id"`
				Method  any             `json:"method"`
				Result  json.RawMessage `json:"result"`
			}
			if line[i] != '{' || json.NewDecoder(bytes.NewReader(line[i:])).Decode(&msg) != nil {
				continue
			}
			if msg.Version == "2.0" && msg.ID == 1.0 && (msg.Method == nil || msg.Method == "") && bytes.Equal(msg.Result, raw) {
				return true
			}
		}
	}
	return false
}
