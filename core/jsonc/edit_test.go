package jsonc_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/jsonc"
)

func read(t *testing.T, text string) *jsonc.Doc {
	t.Helper()
	d, err := jsonc.Parse([]byte(text), 10)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return d
}

// Every byte stays that is not part of what changes, and the edit can be taken back.
func TestDoc_Edits(t *testing.T) {
	t.Parallel()
	set := func(path ...string) func(*jsonc.Doc) (jsonc.Edit, error) {
		return func(d *jsonc.Doc) (jsonc.Edit, error) { return d.Set(path, map[string]any{"x": []int{1, 2}}) }
	}
	push := func(d *jsonc.Doc) (jsonc.Edit, error) { return d.Append([]string{"l"}, "<v>") }
	remove := func(d *jsonc.Doc) (jsonc.Edit, error) {
		m, _ := jsonc.Find(d.Root, "a")
		return d.Remove(m), nil
	}
	first := func(d *jsonc.Doc) (jsonc.Edit, error) {
		edits, err := d.Prepend(d.Root, "p", map[string]any{"q": map[string]int{"r": 1}}, 1)
		return edits[0], err
	}
	for _, c := range []struct {
		before string
		edit   func(*jsonc.Doc) (jsonc.Edit, error)
		after  string
	}{
		{"{}", set("a"), "{\n  \"a\": {\n    \"x\": [1, 2]\n  }\n}"},
		{`{"b": 1}`, set("a", "c"), `{"b": 1, "a": {"c": {"x": [1, 2]}}}`},
		{"{\n\t\"b\": 1, // last\n}\n", set("a"), "{\n\t\"b\": 1, // last\n\t\"a\": {\n\t\t\"x\": [1, 2]\n\t}\n}\n"},
		{`{"b": 1,}`, set("a"), `{"b": 1, "a": {"x": [1, 2]}}`},
		{"{\r\n  \"a\": null // old\r\n}", set("a"), "{\r\n  \"a\": {\r\n    \"x\": [1, 2]\r\n  } // old\r\n}"},
		{`{"l": ["a" /* one */]}`, push, `{"l": ["a", /* one */ "<v>"]}`},
		{`{"l": [1,]}`, push, `{"l": [1, "<v>"]}`},
		{`{"b": 1}`, push, `{"b": 1, "l": ["<v>"]}`},
		{`{"a": 1, "b": 2}`, remove, `{"b": 2}`},
		{`{"b": 2, "a": 1}`, remove, `{"b": 2}`},
		{"{\n  \"b\": 2, // b\n  \"a\": 1,\n}", remove, "{\n  \"b\": 2, // b\n}"},
		{"{\n  \"a\": 1 /* a */ , // behind\n  \"b\": 2\n}", remove, "{\n  /* a */ // behind\n  \"b\": 2\n}"},
		{"{\n  \"b\": 2\n}", first, "{\n  \"p\": {\n    \"q\": {\"r\": 1}\n  },\n  \"b\": 2\n}"},
		{`{ "b": 2 }`, first, `{ "p": {"q": {"r": 1}}, "b": 2 }`},
	} {
		edit, err := c.edit(read(t, c.before))
		if err != nil {
			t.Fatal(err)
		}
		after, ok := edit.Apply([]byte(c.before))
		if d := cmp.Diff(c.after, string(after)); d != "" || !ok {
			t.Errorf("%q: %v\n%s", c.before, ok, d)
		}
		read(t, string(after))
		if back, ok := edit.Reverse().Apply(after); !ok || string(back) != c.before {
			t.Errorf("%q came back as %q", c.before, back)
		}
	}
}

func TestParse_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]jsonc.SyntaxError{
		`{"a" 1}`:     {Offset: 5, Reason: "not valid JSON: invalid character '1' after object key"},
		"":            {Offset: 0, Reason: "not valid JSON: unexpected end of JSON input"},
		"{ /* ":       {Offset: 2, Reason: "the comment that starts here does not end"},
		"[[[[[[[[[[[": {Offset: 10, Reason: "nested more than 10 deep"},
		"[\"é\xff\"]": {Offset: 4, Reason: "the file is not UTF-8 text"},
	} {
		if _, err := jsonc.Parse([]byte(text), 10); err == nil || *err != want {
			t.Errorf("%q: %+v, want %+v", text, err, want)
		}
	}
}

// Of a name that stands twice the last one counts; positions count characters.
func TestDoc_Positions(t *testing.T) {
	t.Parallel()
	d := read(t, "{\n  \"a\": 1, // é\n  \"é\": 2, \"a\": 3,\n}")
	m, ok := jsonc.Find(d.Root, "a")
	if at := d.At(m.Value.StartOffset); !ok || at.Line != 3 || at.Column != 16 {
		t.Errorf("%v %+v", ok, at)
	}
	if len(d.Commas) != 1 || d.At(d.Commas[0]).Line != 3 {
		t.Error(d.Commas)
	}
}
