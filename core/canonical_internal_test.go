package core

import (
	"bytes"
	"encoding/json"
	"testing"
)

// decoded is the canonical form by way of the decoder, nil for what is no JSON.
func decoded(raw []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return nil
	}
	return canonical(nil, v)
}

func TestIsCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		`{"a":1,"b":["x",null,true,-12],"c":{}}`: true,
		`0`:                                      true, `"é"`: true, `[]`: true, `123456789012345`: true,
		`{"b":1,"a":1}`: false, `{"a":1,"a":2}`: false, `{"a": 1}`: false, `-0`: false, `01`: false, `1.0`: false, `1e3`: false,
		`1234567890123456`: false, `"\n"`: false, "\"\xff\"": false, `{"é":1}`: false, ``: false, `[1,]`: false, `{"a":1`: false,
		`nul`: false, `1 `: false, `1]`: false, `-`: false,
	} {
		if got := isCanonical([]byte(in)); got != want {
			t.Errorf("%q: %t, want %t", in, got, want)
		}
		if want && !bytes.Equal(decoded([]byte(in)), []byte(in)) {
			t.Errorf("%q is %q", in, decoded([]byte(in)))
		}
	}
}

func FuzzIsCanonical(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[2,"x"]}`, `{"b":1,"a":2}`, `-0`, `"é"`, `[0,-1,true]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if isCanonical(raw) && !bytes.Equal(decoded(raw), raw) {
			t.Errorf("%q is taken for canonical, and is %q", raw, decoded(raw))
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	raw := json.RawMessage(`{"content":"some text that is a little longer","path":"notes/today.txt","times":3}`)
	for b.Loop() {
		if _, err := Digest(raw); err != nil {
			b.Fatal(err)
		}
	}
}
