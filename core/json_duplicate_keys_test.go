package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

func TestCheckKeys(t *testing.T) {
	t.Parallel()
	for raw, doubled := range map[string]string{
		`{"a":1,"a":2}`: "a", `{"a":1,"\u0061":2}`: "a", `[{"b":{"c":[1,{"d":null,"d":{}}]}}]`: "d", `{"a":{"x":1},"b":[],"a":0}`: "a", `{"a":"a","a":"b"}`: "a",
		`{"a":{"a":{"a":["a","a"]}},"b":"a","c":{"b":1}}`: "", `[{"a":1},{"a":1}]`: "", `{"a":1,"A":2}`: "", `"a"`: "", ``: "", `{"a":1,`: "", `{}`: "",
	} {
		err := core.CheckKeys("the input", []byte(raw))
		if doubled == "" != (err == nil) || err != nil && (core.CodeOf(err) != core.CodeInvalidArguments || !strings.Contains(err.Error(), `"`+doubled+`"`)) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// Objects of many members are as small ones, and the last of them is found.
func TestCheckKeys_Many(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 15, 16, 17, 18, 40, 5000} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":{"k1":1},`, i)
		}
		for last, doubled := range map[string]bool{"new": false, "k0": true, fmt.Sprintf("k%d", n-1): true, `\u006b1`: true} {
			if err := core.CheckKeys("it", []byte(`{`+b.String()+`"`+last+`":1}`)); doubled != (err != nil) {
				t.Errorf("%d members and %s: %v", n, last, err)
			}
		}
	}
}

// FuzzCheckKeys compares it with what a decoder sees, token by token.
func FuzzCheckKeys(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":[{"b":"}","b\\":1}],"\u0061":{}}`, `[{},{"x":"\"","x":","}]`, "{\"\xff\":1,\"\xfe\":2}", `{"\ud800":1,"\udfff":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			_ = core.CheckKeys("it", raw)
			return
		}
		if got, want := core.CheckKeys("it", raw) != nil, doubledTokens(raw); got != want {
			t.Errorf("%q: doubled %t, want %t", raw, got, want)
		}
	})
}

func doubledTokens(raw []byte) bool {
	type object struct {
		seen map[string]bool // nil: an array
		name bool            // a name comes next
	}
	var open []object
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		last := len(open) - 1
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open = append(open, object{seen: map[string]bool{}, name: true})
				continue
			case '[':
				open = append(open, object{})
				continue
			}
			open = open[:last]
			last--
		case string:
			if last >= 0 && open[last].name {
				if open[last].seen[t] {
					return true
				}
				open[last].seen[t], open[last].name = true, false
				continue
			}
		}
		if last >= 0 && open[last].seen != nil {
			open[last].name = true // the value is over
		}
	}
}

func TestVisible_Hidden(t *testing.T) {
	t.Parallel()
	for _, r := range []rune{
		0x115f, 0x1160, 0x2800, 0xfe0f, 0xfe00, 0xe0001, 0xe0041, 0xe0100, 0x180b, 0x3164, 0xffa0, 0x200b, 0x200d, 0x202e, 0x2066, 0x2028, 0x034f, 0x17b4, 0x00ad, 0xfeff,
		0xe000, 0xf0000, 0x1d159, 0xfff9, 0x85, 0xffff,
	} {
		if got := core.Visible("a"+string(r)+"b", 0, true); strings.ContainsRune(got, r) || !strings.HasPrefix(got, `a\`) {
			t.Errorf("%U is not to be seen: %q", r, got)
		}
	}
	const plain = "é ü 日本語 한글 😀 «x» … – א ع"
	if got := core.Visible(plain, 0, false); got != plain {
		t.Errorf("%q", got)
	}
}
