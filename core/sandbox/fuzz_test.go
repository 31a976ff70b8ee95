package sandbox

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// FuzzDecodeReply feeds the parent what a broken child might write.
func FuzzDecodeReply(f *testing.F) {
	for _, s := range []string{
		`{"kind":"turn","turn":{"calls":[{"id":1,"server":"a","tool":"b","args":{}}],"done":true}}`, `{"kind":"turn"}`, `{"kind":"error"}`,
		`{"kind":"error","err":{"error_code":"x","error":"y"}}`, `{"kind":"value","value":1}`, `{}`, `null`, `[`, "\x00\xff", `{"kind":"turn","turn":{"calls":[{"sleep":-9223372036854775808}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeReply(line)
		if err != nil {
			return
		}
		if r.Kind == replyTurn {
			turn := r.Turn.turn()
			if turn.Done && turn.Err == nil && len(turn.Result) == 0 {
				t.Error("a finished turn without a result")
			}
		}
		if r.Kind == replyError && r.Err.Error() == "" && r.Err.Message != "" {
			t.Error("an error without a text")
		}
	})
}

// FuzzDecodeRequest feeds the child what a broken parent might write.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{`{"op":"open","script":"return 1"}`, `{"op":"deliver","deliveries":[{"seq":1,"id":1}]}`, `{"op":"compile"}`, `{}`, `[]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRequest(line)
		if err == nil && (r.Limits.CPU <= 0 || r.Limits.MemoryBytes <= 0 || r.Op == "") {
			t.Errorf("accepted %+v", r)
		}
	})
}

// FuzzSourceMap reads foreign mappings and asks for places.
func FuzzSourceMap(f *testing.F) {
	f.Add("AAAA,CAAC;AACA", 1, 3)
	f.Add(";;;", 3, 1)
	f.Add("////////////////AAAA", 1, 1<<30)
	f.Fuzz(func(t *testing.T, mappings string, line, col int) {
		m := newSourceMap(mappings)
		_ = m.toSource(core.Position{Line: line, Column: col})
		_ = userFrames(mappings, 5)
	})
}

func TestSourceMap_RoundTrip(t *testing.T) {
	t.Parallel()
	lines := [][]segment{{{0, 0, 0}, {4, 0, 7}}, nil, {{2, 5, 1}, {1000, 3, 99999}}}
	m := newSourceMap(encodeMappings(lines))
	for _, c := range []struct{ at, want core.Position }{
		{core.Position{Line: 1, Column: 1}, core.Position{Line: 1, Column: 1}}, {core.Position{Line: 1, Column: 9}, core.Position{Line: 1, Column: 8}},
		{core.Position{Line: 2, Column: 1}, core.Position{}}, {core.Position{Line: 3, Column: 1}, core.Position{}},
		{core.Position{Line: 3, Column: 3}, core.Position{Line: 6, Column: 2}}, {core.Position{Line: 3, Column: 2000}, core.Position{Line: 4, Column: 100000}},
		{core.Position{Line: 9, Column: 1}, core.Position{}},
	} {
		if got := m.toSource(c.at); got != c.want {
			t.Errorf("%v maps to %v, want %v", c.at, got, c.want)
		}
	}
}

// TestChildMain_Garbage ends with a reply that says so, and never panics.
func TestChildMain_Garbage(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"garbage\n", "{\"op\":\"deliver\"}\n", "{\"op\":\"nonsense\"}\n"} {
		var out bytes.Buffer
		if code := ChildMain(strings.NewReader(in), &out, nil); code != 1 {
			t.Errorf("%q: exit %d", in, code)
		}
		if !strings.Contains(out.String(), string(core.CodeSandboxCrashed)) {
			t.Errorf("%q: %s", in, out.String())
		}
	}
	if code := ChildMain(strings.NewReader(""), io.Discard, nil); code != 0 {
		t.Errorf("EOF: exit %d", code)
	}
}
