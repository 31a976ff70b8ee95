package upstream

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzReadDefinition: what is read of a tool's definition is the same when the text that is
// kept of it is read again, so that what was approved cannot be taken for something else.
func FuzzReadDefinition(f *testing.F) {
	f.Add([]byte(`{"name": "a", "title": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}`))
	f.Add([]byte(`{"name": "a", "name": "b", "Name": "c", "inputSchema": {"type": "object", "type": "array"}}`))
	f.Add([]byte(`{"name": "a", "annotations": {"READONLYHINT": true, "readOnlyHint": false}}`))
	f.Add([]byte("{\"name\": \"\xff\", \"description\": null, \"outputSchema\": []}"))
	f.Add([]byte(`[]`))
	compact := cmp.Transformer("compact", func(raw json.RawMessage) string { // blanks count nowhere
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		return b.String()
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // it is an element of a list that was read
		}
		first, err := readDefinition("srv", raw)
		if err != nil {
			return
		}
		if !json.Valid(first.Raw) {
			t.Fatalf("%q is kept as %q", raw, first.Raw)
		}
		again, err := readDefinition("srv", first.Raw)
		if err != nil {
			t.Fatalf("%q, kept as %q: %v", raw, first.Raw, err)
		}
		if diff := cmp.Diff(first, again, compact); diff != "" {
			t.Errorf("%q, kept as %q (-first +again):\n%s", raw, first.Raw, diff)
		}
	})
}
