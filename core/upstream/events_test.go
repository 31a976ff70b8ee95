package upstream_test

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/upstream"
)

// What the server says unasked is heard, up to the response.
func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		note   = `{"jsonrpc":"2.0","method":"n","params":{}}`
		result = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	for name, tt := range map[string]struct {
		in, answer string
		heard      []string
	}{
		"a response":              {in: "event: message\ndata: " + result + "\n\n", answer: result},
		"a notification":          {in: "event: message\ndata: " + note + "\n\n", heard: []string{note}},
		"with an id":              {in: "id: 7\nretry: 5\ndata:" + note + "\r\n\r\n", heard: []string{note}},
		"an id alone":             {in: "id: 7\ndata:\n\n"},
		"several lines":           {in: "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"n\"}\n\n", heard: []string{"{\"jsonrpc\":\"2.0\",\n\"method\":\"n\"}"}},
		"both":                    {in: "data: " + note + "\n\ndata: " + result + "\n\n", answer: result, heard: []string{note}},
		"behind the response":     {in: "data: " + result + "\n\ndata: " + note + "\n\n", answer: result},
		"a comment":               {in: ": ping\n\n"},
		"no JSON":                 {in: "data: hello\n\n"},
		"other JSON":              {in: "data: {\"method\":\"n\"}\n\n"},
		"the last without an end": {in: "data: " + note, heard: []string{note}},
		"a response without end":  {in: "data: " + result, answer: result},
		"half a message":          {in: `data: {"jsonrpc":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard, answer := upstream.ReadEvents(iotest.OneByteReader(strings.NewReader(tt.in)))
			if diff := cmp.Diff([]any{tt.answer, tt.heard}, []any{answer, heard}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
