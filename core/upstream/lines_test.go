package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/upstream"
)

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 500)
	const lost = `,"error":{"code":-32098,"message":"the result is `
	for name, tt := range map[string]struct{ in, want, noise string }{
		"messages":          {in: `{"jsonrpc":"2.0","id":1}` + "\r\n" + `{"jsonrpc":"2.0","id":2}` + "\n", want: `{"jsonrpc":"2.0","id":1}` + "\n" + `{"jsonrpc":"2.0","id":2}` + "\n"},
		"no last newline":   {in: `{"jsonrpc":"2.0","id":9}`, want: `{"jsonrpc":"2.0","id":9}` + "\n"},
		"noise":             {in: "hello\n\n" + `{"level":"info","id":1}` + "\n", noise: `hello|{"level":"info","id":1}|`},
		"noise before":      {in: `> {"jsonrpc":"2.0","id":9}` + "\n", want: `{"jsonrpc":"2.0","id":9}` + "\n", noise: "> |"},
		"noise around":      {in: `> {"jsonrpc":"2.0","id":9} done` + "\n", want: `{"jsonrpc":"2.0","id":9}` + "\n", noise: ">  done|"},
		"two on a line":     {in: `{"jsonrpc":"2.0","id":8}{"jsonrpc":"2.0","id":9}` + "\n", want: `{"jsonrpc":"2.0","id":8}` + "\n" + `{"jsonrpc":"2.0","id":9}` + "\n"},
		"a batch":           {in: `[{"jsonrpc":"2.0","id":8},{"jsonrpc":"2.0","id":9}]` + "\n", want: `{"jsonrpc":"2.0","id":8}` + "\n" + `{"jsonrpc":"2.0","id":9}` + "\n", noise: "[,]|"},
		"JSON that says it": {in: `{"msg":"jsonrpc","id":1}` + "\n", noise: `{"msg":"jsonrpc","id":1}|`},
		"a message inside":  {in: `{"sent":{"jsonrpc":"2.0","id":1,"result":{}}}` + "\n", noise: `{"sent":{"jsonrpc":"2.0","id":1,"result":{}}}|`},
		"half a message":    {in: `{"jsonrpc":"2.0","id":`, noise: `{"jsonrpc":"2.0","id":|`},
		"long, id first":    {in: `{"jsonrpc":"2.0","id":7,"result":{"id":8,"a":"` + long + `"}}` + "\n", want: `{"jsonrpc":"2.0","id":7` + lost + "550 bytes long\"}}\n"},
		"long, id last":     {in: `{"result":{"id":8,"a":["` + long + `\"}",{}]},"jsonrpc":"2.0", "id" : 12}` + "\n" + `{"jsonrpc":"2.0","id":9}`, want: `{"jsonrpc":"2.0","id":12` + lost + "562 bytes long\"}}\n" + `{"jsonrpc":"2.0","id":9}` + "\n"},
		"long, no id":       {in: `{"method":"x","params":"` + long + "\"}\n", noise: "a line of 527 bytes was dropped|"},
		"long request":      {in: `{"id":3,"method":"x","params":"` + long + "\"}\n", noise: "a line of 534 bytes was dropped|"},
		"long and no JSON":  {in: long + "\n", noise: "a line of 501 bytes was dropped|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var noise strings.Builder
			got, err := upstream.FilterLines(iotest.OneByteReader(strings.NewReader(tt.in)), 100, func(b []byte) { noise.Write(b); noise.WriteByte(124) })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want, tt.noise}, []string{string(got), noise.String()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("x\n{\"jsonrpc\":\"2.0\",\"id\":1}\n"))
	f.Add([]byte(`{"id":1,"a":"` + strings.Repeat("\\\"", 100) + "\"}\n"))
	f.Add([]byte("\xff{\"jsonrpc\":\"\xc3\"}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := upstream.FilterLines(bytes.NewReader(in), 64, func([]byte) {})
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(got) {
			if !json.Valid(line) || !utf8.Valid(line) || line[len(line)-1] != '\n' {
				t.Errorf("%q passed on %q", in, line)
			}
		}
	})
}

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
