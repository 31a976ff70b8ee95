package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core/redact"
)

// pieces shows a text that comes in pieces of some bytes.
func pieces(v redact.View, text string, size func() int) string {
	var out strings.Builder
	rest := ""
	for text != "" {
		n := min(max(size(), 1), len(text))
		var shown string
		shown, rest = v.Piece(rest + text[:n])
		text = text[n:]
		out.WriteString(shown)
	}
	return out.String() + v.Text(rest)
}

// TestView_Pieces: however a text is cut into pieces, no value is shown in any form, and
// what has no value in it is shown whole, nearly at once.
func TestView_Pieces(t *testing.T) {
	t.Parallel()
	const key = "sk/live+a b&c<d>\"'%41~9Zw"
	r := redact.New(map[string]string{"KEY": key, "LONGER": key + "-and-more", "PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n"})
	v := redact.NewView(r.String, r.JSON).Streaming(r.Open)
	escaped, _ := json.Marshal(key)
	twice, _ := json.Marshal(string(escaped))
	for name, secret := range map[string]string{
		"Plain": key, "JSON": string(escaped[1 : len(escaped)-1]), "JSONTwice": string(twice), "Query": url.QueryEscape(key), "HTML": html.EscapeString(key),
		"Hex": hex.EncodeToString([]byte(key)), "Base64": base64.StdEncoding.EncodeToString([]byte("u:" + key + "!!")),
		"Base64Lines": wrap(base64.StdEncoding.EncodeToString([]byte(key)), 13, "\n  "), "Longer": key + "-and-more", "Line": "MIIEvQIBADANBgkqhkiG",
	} {
		whole := "Here it is: " + secret + " and 100% of <more> & text.\n"
		want := r.String(whole)
		for size := 1; size < len(whole); size++ {
			if got := pieces(v, whole, func() int { return size }); got != want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, got, want)
			}
		}
	}
	if shown, rest := v.Piece("Nothing in here, not 100% of it. s"); shown != "Nothing in here, not 100% of it. " || rest != "s" {
		t.Errorf("%q is shown and %q kept back", shown, rest)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("skl/ve+ a%&\\u041;x\"<"))).Draw(rt, "before") + key + rapid.String().Draw(rt, "after")
		got := pieces(v, text, func() int { return rapid.IntRange(1, 9).Draw(rt, "size") })
		if r.String(got) != got || strings.Contains(got, key) {
			rt.Errorf("%q shows %q", text, got)
		}
	})
}
