package core_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

func TestDepth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"[["`: 0, `"\"[["`: 0, `"\\"`: 0, `[]`: 1, `{}`: 1, `{"a[":"{","b":[1,{"c":[]}]}`: 4,
		`[[],[],[[]]]`: 3, `["\\",["\\\"["]]`: 2, `]]]]`: 0, `]]]][`: 1, `[[[`: 3, `"`: 0, `"\`: 0, `["`: 1,
	} {
		if got := core.Depth([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestTooDeep(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for n, want := range map[int]bool{0: false, 1: false, core.MaxDepth: false, core.MaxDepth + 1: true, 20_000: true} {
			raw := []byte(strings.Repeat(pair[0], n) + "1" + strings.Repeat(pair[1], n))
			if got := core.TooDeep(raw); got != want {
				t.Errorf("%d of %s: %t", n, pair[0], got)
			}
			err := core.CheckDepth("the input", raw)
			if (err != nil) != want || want && core.CodeOf(err) != core.CodeInvalidArguments {
				t.Errorf("%d of %s: %v", n, pair[0], err)
			}
		}
	}
}

// Not parallel: it counts allocations.
func TestTooDeepAllocates(t *testing.T) {
	raw := []byte(strings.Repeat(`{"a":["[",`, 200) + "1" + strings.Repeat("]}", 200))
	if n := testing.AllocsPerRun(100, func() { core.TooDeep(raw) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDepth compares with a decoder's count.
func FuzzDepth(f *testing.F) {
	for _, s := range []string{`{"a":[1,"]",{"b\"":"\\"}]}`, `[[[]]]`, `"x"`, `[`, `"\u005b"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := core.Depth(raw)
		if core.TooDeep(raw) != (got > core.MaxDepth) {
			t.Fatalf("TooDeep differs from a depth of %d", got)
		}
		if !json.Valid(raw) {
			return
		}
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		open, want := 0, 0
		for {
			tok, err := dec.Token()
			if err != nil {
				break
			}
			switch tok {
			case json.Delim('['), json.Delim('{'):
				open++
				want = max(want, open)
			case json.Delim(']'), json.Delim('}'):
				open--
			}
		}
		if got != want {
			t.Fatalf("%q: %d, want %d", raw, got, want)
		}
	})
}
