package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// filterLines returns the messages that are found in a server's output, one a line.
func filterLines(src io.Reader, max int, noise func([]byte)) []byte {
	var out []byte
	jsonrpc.NewLineReader(src, max).Messages(nil, noise, func(m jsonrpc.Message) { out = append(append(out, m.Text...), '\n') })
	return out
}

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
			got := filterLines(iotest.OneByteReader(strings.NewReader(tt.in)), 100, func(b []byte) { noise.Write(b); noise.WriteByte(124) })
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
		got := filterLines(bytes.NewReader(in), 64, func([]byte) {})
		for line := range bytes.Lines(got) {
			if !json.Valid(line) || !utf8.Valid(line) || line[len(line)-1] != '\n' {
				t.Errorf("%q passed on %q", in, line)
			}
		}
	})
}
