package core_test

import (
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
