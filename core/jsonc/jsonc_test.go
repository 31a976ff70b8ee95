package jsonc_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/jsonc"
)

func TestStrip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]jsonc.Text{
		`{"a": 1}`:                      {Plain: []byte(`{"a": 1}`), Open: -1, Depth: 1},
		"\ufeff[1,/* x */ 2 , ] // end": {Plain: []byte("   [1,        2   ]       "), Commas: []int{16}, Open: -1, Depth: 1, Deepest: 3},
		`"// no \" , ]"`:                {Plain: []byte(`"// no \" , ]"`), Open: -1},
		"[[1],/* never\nends":           {Plain: []byte("[[1],        \n    "), Open: 5, Depth: 2, Deepest: 1},
	} {
		if d := cmp.Diff(want, jsonc.Strip([]byte(in))); d != "" {
			t.Errorf("%s\n%s", in, d)
		}
	}
}

// JSON stays what it is, and offsets stay whatever the text.
func FuzzStrip(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,],}`, "/*", `"\`, "[//\n]", "\ufeff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := jsonc.Strip(data)
		if len(got.Plain) != len(data) {
			t.Fatalf("%d bytes of %d", len(got.Plain), len(data))
		}
		if json.Valid(data) && string(got.Plain) != string(data) {
			t.Errorf("%q became %q", data, got.Plain)
		}
		for i := range data {
			if data[i] == '\n' && got.Plain[i] != '\n' {
				t.Errorf("the line break at %d is gone", i)
			}
		}
	})
}
