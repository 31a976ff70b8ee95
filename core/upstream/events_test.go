package upstream_test

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/upstream"
)

// Responses, comments and ids pass; what the server says unasked does not.
func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		note   = `{"jsonrpc":"2.0","method":"n","params":{}}`
		result = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	for name, tt := range map[string]struct {
		in, passed string
		heard      []string
	}{
		"a response":              {in: "event: message\ndata: " + result + "\n\n", passed: "event: message\ndata: " + result + "\n\n", heard: []string{result}},
		"a notification":          {in: "event: message\ndata: " + note + "\n\n", passed: "\n", heard: []string{note}},
		"its id counts":           {in: "id: 7\nretry: 5\ndata:" + note + "\r\n\r\n", passed: "id: 7\nretry: 5\n\r\n", heard: []string{note}},
		"an id alone":             {in: "id: 7\ndata:\n\n", passed: "id: 7\ndata:\n\n"},
		"several lines":           {in: "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"n\"}\n\n", passed: "\n", heard: []string{"{\"jsonrpc\":\"2.0\",\n\"method\":\"n\"}"}},
		"both":                    {in: "data: " + note + "\n\ndata: " + result + "\n\n", passed: "\ndata: " + result + "\n\n", heard: []string{note, result}},
		"a comment":               {in: ": ping\n\n", passed: ": ping\n\n"},
		"no JSON":                 {in: "data: hello\n\n", passed: "data: hello\n\n"},
		"other JSON":              {in: "data: {\"method\":\"n\"}\n\n", passed: "\n"},
		"the last without an end": {in: "data: " + note, heard: []string{note}},
		"half a message":          {in: `data: {"jsonrpc":`, passed: `data: {"jsonrpc":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed, heard, err := upstream.FilterEvents(iotest.OneByteReader(strings.NewReader(tt.in)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tt.passed, tt.heard}, []any{passed, heard}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
