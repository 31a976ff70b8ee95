package asked_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
)

func shown(list []asked.Line) string {
	var b strings.Builder
	for _, l := range list {
		if l.Label != "" {
			b.WriteString(l.Label + ": ")
		}
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ args, want string }{
		"Keys":     {`{"to":"ann","amount":5}`, "to    : ann\namount: 5\n"},
		"Number":   {`{"a":"5","b":5}`, "a: \"5\"\nb: 5\n"},
		"Lines":    {`{"sql":"select 1\nfrom x"}`, "sql: 2 lines, 15 bytes\n| select 1\n| from x\n(no newline at the end)\n"},
		"Nested":   {`{"a":{"b":[{"c":1}]}}`, "a: \n  b: 1 item\n    1: \n      c: 1\n"},
		"List":     {`{"a":["x","y"]}`, "a: [\"x\",\"y\"]\n"},
		"Twice":    {`{"a":1,"a":2}`, "a: 1\na: 2\n"},
		"None":     {`{}`, "none\n"},
		"NoObject": {`[1]`, "[\n  1\n]\n"},
		"Broken":   {`{"a":`, "{\"a\":\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, shown(asked.Arguments(json.RawMessage(tt.args), nil))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestArguments_File: what is written is shown against the file, not as a text with
// escapes.
func TestArguments_File(t *testing.T) {
	t.Parallel()
	old := "one\ntwo\nthree\n"
	for name, tt := range map[string]struct {
		args   string
		before *string
		want   string
	}{
		"New":     {`{"path":"a","content":"x\ny\n"}`, nil, "path: a\nfile: new: 2 lines\n+x\n+y\n"},
		"Changed": {`{"content":"one\n2\nthree\n","path":"a"}`, &old, "path: a\nfile: +1 -1, against the file as it was when this was shown\n@@ line 1 @@\n one\n-two\n+2\n three\n"},
		"Newline": {`{"content":"one\ntwo\nthree","path":"a"}`, &old, "path: a\nfile: +0 -0, against the file as it was when this was shown\n@@ the newline at its end goes @@\n"},
		"Edits":   {`{"path":"a","edits":[{"oldText":"two","newText":"2"}],"dryRun":false}`, &old, "path: a\nfile: +1 -1, against the file as it was when this was shown\n@@ line 1 @@\n one\n-two\n+2\n three\ndryRun: false\n"},
		"Same":    {`{"path":"a","content":"one\ntwo\nthree\n"}`, &old, "path: a\nfile: nothing changes: this is what is in it\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ok := asked.WrittenBy(json.RawMessage(tt.args))
			if !ok {
				t.Fatal("it writes no file")
			}
			before := ""
			if tt.before != nil {
				before = *tt.before
			}
			after, why := w.After(before)
			if why != "" {
				t.Fatal(why)
			}
			f := asked.Compare(w.Path, tt.before, after)
			if d := cmp.Diff(tt.want, shown(asked.Arguments(json.RawMessage(tt.args), &f))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWrittenBy_Ambiguous: what two servers would read differently is not compared with
// a file, so all of it is shown.
func TestWrittenBy_Ambiguous(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		`{"path":"a","content":"evil","Content":"benign"}`, `{"path":"a","content":"evil","content":"benign"}`,
		`{"PATH":"a","content":"x"}`, `{"path":"a","content":"x","edits":[{"oldText":"a","newText":"b"}]}`,
		`{"path":"a","edits":[{"oldText":"a","newText":"b","OldText":"c"}]}`, `{"path":"a","content":5}`, `{"path":"a"}`,
	} {
		if w, ok := asked.WrittenBy(json.RawMessage(args)); ok {
			t.Errorf("%s: %+v", args, w)
		}
	}
}

// TestArguments_Bounded: ten megabytes are laid out in part, and the part says so.
func TestArguments_Bounded(t *testing.T) {
	t.Parallel()
	for _, content := range []string{strings.Repeat("x\n", 5<<20), strings.Repeat("x", 10<<20)} {
		args, err := json.Marshal(map[string]any{"content": content, "list": make([]int, 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
		list := asked.Arguments(args, nil)
		text := shown(list)
		if len(list) > asked.MaxLines+1 || len(text) > 100_000 {
			t.Errorf("%d lines, %d bytes", len(list), len(text))
		}
		if !strings.Contains(text, "more lines are not laid out here") {
			t.Errorf("it does not say that something is missing: %s", text[max(0, len(text)-200):])
		}
	}
}

// TestArguments_NoForgery: no text gets out of its block to look like a key, a change
// or pml's own words.
func TestArguments_NoForgery(t *testing.T) {
	t.Parallel()
	args, _ := json.Marshal(map[string]string{"content": "a\npath: /safe\n@@ line 1 @@\n+ added\n(no newline at the end)\n"})
	list := asked.Arguments(args, nil)
	for _, l := range list[1:] {
		if !strings.HasPrefix(l.Text, "| ") || l.Kind != asked.Plain || l.Label != "" {
			t.Errorf("%+v", l)
		}
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"a":"\u202e\u001b[2J\nb"}`, `{"path":"a","content":"b\r\n"}`, `[`, `{"a\nb":1}`, "{\"\x00\":[[[[[[[[1]]]]]]]]}", `{"path":"x","old":"","new":"y"}`} {
		f.Add(seed, "before\n")
	}
	f.Fuzz(func(t *testing.T, args, before string) {
		raw := json.RawMessage(args)
		files := []*asked.File{nil, {State: asked.FileState(before), Diff: before, Why: before}}
		if w, ok := asked.WrittenBy(raw); ok {
			if after, why := w.After(before); why == "" {
				file := asked.Compare(w.Path, &before, after)
				files = append(files, &file)
			}
		}
		for _, file := range files {
			for _, l := range append(asked.Arguments(raw, file), asked.Raw(raw)...) {
				for _, s := range []string{l.Label, l.Text} {
					if !utf8.ValidString(s) || strings.ContainsFunc(s, core.Hidden) {
						t.Fatalf("%q acts on a screen", s)
					}
				}
			}
		}
	})
}
