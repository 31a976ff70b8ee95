package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core/redact"
	"github.com/google/go-cmp/cmp"
)

func TestRedactor_Forms(t *testing.T) {
	t.Parallel()
	const key = "p@ss/w\"rd+<é>%1"
	r := redact.New(map[string]string{"KEY": key, "SHORT": "1234567"})
	escaped, _ := json.Marshal(key)
	twice, _ := json.Marshal(string(escaped))
	for name, text := range map[string]string{
		"Plain": key, "JSON": string(escaped), "JSONTwice": string(twice), "Query": url.QueryEscape(key), "Path": url.PathEscape(key),
		"Lower": strings.ToLower(url.QueryEscape(key)), "Slash": strings.ReplaceAll(string(escaped), "/", `\/`),
	} {
		if got := r.String("a " + text + " b"); !strings.Contains(got, "«KEY»") || strings.Contains(got, "w") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
	for _, before := range []string{"", "u", "us", "user:"} {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			text := enc.EncodeToString([]byte(before + key + "!!"))
			if got := r.String(text); !strings.Contains(got, "«KEY»") {
				t.Errorf("base64 of %q: %q became %q", before, text, got)
			}
		}
	}
	equal(t, "1234567", r.String("1234567"))
	equal(t, "nothing here", r.String("nothing here"))
}

func TestRedactor_LongestFirst(t *testing.T) {
	t.Parallel()
	r := redact.New(map[string]string{"A": "secret-value", "B": "secret-value-and-more"})
	equal(t, "«B» «A»", r.String("secret-value-and-more secret-value"))
}

func TestRedactor_LinesOfLongValues(t *testing.T) {
	t.Parallel()
	r := redact.New(map[string]string{"PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n"})
	equal(t, "log: «PEM»", r.String("log: MIIEvQIBADANBgkqhkiG"))
	equal(t, "-----BEGIN KEY-----", r.String("-----BEGIN KEY-----"))
}

func TestRedactor_JSON(t *testing.T) {
	t.Parallel()
	r := redact.New(map[string]string{"K": "abcdefgh", "N": "1234567890", "Q": `quo"te\d`})
	for _, c := range []struct{ in, want string }{
		{`{"a": "x abcdefgh y", "b": [1, 12345678901, true, null]}`, `{"a": "x «K» y", "b": [1, "«N»1", true, null]}`},
		{`{"abcdefgh": 1}`, `{"«K»": 1}`},
		{`"\u0061bcdefg\u0068"`, `"«K»"`},
		{`"quo\"te\\d <x>"`, `"«Q» <x>"`},
		{`{"unchanged": "\u0041\/"}`, `{"unchanged": "\u0041\/"}`},
		{`not json abcdefgh`, `not json «K»`},
		{``, ``},
	} {
		equal(t, c.want, string(r.JSON(json.RawMessage(c.in))))
	}
}

// The common forms in which a value leaves a program, none of which may hold it.
func TestRedactor_CommonForms(t *testing.T) {
	t.Parallel()
	const key = "sk/live+a b&c<d>\"é'%41~9Zw"
	r := redact.New(map[string]string{"KEY": key})
	std := base64.StdEncoding.EncodeToString([]byte("user:" + key))
	entities := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#x27;", "é", "&eacute;").Replace(key)
	escaped, _ := json.Marshal(key)
	for name, text := range map[string]string{
		"PythonQuote":  strings.ReplaceAll(url.PathEscape(key), "%2F", "/"),
		"EveryPercent": percent(key, func(int) bool { return true }, "%02X"),
		"LowerPercent": percent(key, func(int) bool { return true }, "%02x"),
		"SomePercent":  percent(key, func(i int) bool { return key[i] == '%' || i%3 == 0 || key[i] >= 0x80 }, "%02x"),
		"Form":         url.QueryEscape(key),
		"TwicePercent": url.QueryEscape(url.QueryEscape(key)),
		"JSONInURL":    url.QueryEscape(string(escaped)),
		"ASCIIJSON":    strings.ReplaceAll(string(escaped), "é", `\u00E9`),
		"LatinEscape":  strings.ReplaceAll(key, "é", `\xe9`),
		"BytesEscape":  strings.ReplaceAll(key, "é", `\xc3\xa9`),
		"HTML":         entities,
		"DecimalHTML":  decimal(key),
		"HTMLInJSON":   strings.ReplaceAll(entities, "/", `\/`),
		"Shell":        strings.NewReplacer(" ", `\ `, "&", `\&`, "<", `\<`, ">", `\>`, `"`, `\"`, "'", `\'`).Replace(key),
		"Hex":          fmt.Sprintf("%x", key),
		"UpperHex":     fmt.Sprintf("%X", key),
		"HexPairs":     strings.TrimSpace(fmt.Sprintf("% x", key)),
		"HexColons":    strings.ReplaceAll(fmt.Sprintf("% X", key), " ", ":"),
		"HexLines":     wrap(fmt.Sprintf("%x", key), 30, "\n"),
		"Base64MIME":   wrap(std, 24, "\r\n"),
		"Base64YAML":   wrap(std, 13, "\n    "),
		"Base64InJSON": wrap(std, 16, `\n`),
		"Base64InURL":  url.QueryEscape(std),
	} {
		for _, around := range []string{"%s", "a %s b", "x=%s&y", "<%s>", "0%s0"} {
			if around == "0%s0" && strings.HasPrefix(name, "Base64") {
				continue // another alignment, which is nothing that decodes
			}
			got := r.String(fmt.Sprintf(around, text))
			if !strings.Contains(got, "«KEY»") || len(got) > len(around)+len("«KEY»")+12 {
				t.Errorf("%s: %q became %q", name, fmt.Sprintf(around, text), got)
			}
		}
		raw, _ := json.Marshal(map[string]string{"text": text})
		if got := string(r.JSON(raw)); !strings.Contains(got, "«KEY»") || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s became %s", name, raw, got)
		}
	}
}

// percent writes the bytes for which it is asked to as %XX.
func percent(s string, which func(i int) bool, digits string) string {
	var b strings.Builder
	for i := range len(s) {
		if which(i) {
			fmt.Fprintf(&b, "%%"+digits, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func decimal(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, "&#%d;", r)
	}
	return b.String()
}

// wrap breaks a text into lines.
func wrap(s string, width int, end string) string {
	var lines []string
	for ; len(s) > width; s = s[width:] {
		lines = append(lines, s[:width])
	}
	return strings.Join(append(lines, s), end)
}

// However a value is escaped and wrapped: nothing of it is left that the same
// decoder would give back.
func TestRedactor_EverySpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringOfN(rapid.RuneFrom([]rune("abAB01+/=%\"\\<>&é😀-_. ;#x")), 8, 24, -1).
			Filter(func(s string) bool { return len([]rune(strings.TrimSpace(s))) >= 8 }).Draw(t, "secret")
		secret = strings.TrimSpace(secret)
		noise := rapid.StringOfN(rapid.RuneFrom([]rune("ab01 \n.")), 0, 10, -1)
		before, after := noise.Draw(t, "before"), noise.Draw(t, "after")
		r := redact.New(map[string]string{"K": secret})
		some := rapid.SliceOfN(rapid.Bool(), len(secret), len(secret)).Draw(t, "which")
		spelled := percent(secret, func(i int) bool {
			return some[i] || strings.IndexByte("%\"\\<>&+ ", secret[i]) >= 0 || secret[i] >= 0x80
		}, rapid.SampledFrom([]string{"%02x", "%02X"}).Draw(t, "digits"))
		if back, err := url.PathUnescape(r.String(before + spelled + after)); err == nil && strings.Contains(back, secret) {
			t.Fatalf("%q is in %q", secret, back)
		}
		width := rapid.IntRange(10, 76).Draw(t, "width")
		std := wrap(base64.StdEncoding.EncodeToString([]byte(before+secret+after)), width, rapid.SampledFrom([]string{"\n", "\r\n", "\n  "}).Draw(t, "end"))
		clean := strings.Map(func(r rune) rune {
			if r == '«' || r == '»' || r == ' ' {
				return -1
			}
			return r
		}, r.String(std))
		if !strings.Contains(r.String(std), "«K»") {
			t.Fatalf("%q within base64: %q", secret, clean)
		}
		if got := r.String(before + html.EscapeString(secret) + after); strings.Contains(html.UnescapeString(got), secret) {
			t.Fatalf("%q is in %q", secret, got)
		}
	})
}

// No declared value is left in any output, however it was written.
func TestRedactor_NothingSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringOfN(rapid.RuneFrom([]rune("abAB01+/=%\"\\<>&é\n\t😀-_. ")), 8, 24, -1)
		values := map[string]string{}
		for i, v := range rapid.SliceOfN(secret, 1, 4).Draw(t, "values") {
			if v = strings.TrimSpace(v); len([]rune(v)) >= 8 {
				values["K"+string(rune('A'+i))] = v
			}
		}
		var text strings.Builder
		noise := rapid.StringOfN(rapid.RuneFrom([]rune("ab01\"\\ é\n")), 0, 10, -1)
		for _, v := range values {
			text.WriteString(noise.Draw(t, "before"))
			text.WriteString(v)
			text.WriteString(noise.Draw(t, "after"))
		}
		r := redact.New(values)
		raw, err := json.Marshal(map[string]any{"t": text.String(), "list": []string{text.String()}, "n": 5})
		if err != nil {
			t.Fatal(err)
		}
		clean := r.JSON(raw)
		var back map[string]any
		if err := json.Unmarshal(clean, &back); err != nil {
			t.Fatalf("%s is no longer JSON: %v", clean, err)
		}
		if len(back) != 3 || len(back["list"].([]any)) != 1 {
			t.Fatalf("another structure: %s", clean)
		}
		for _, v := range values {
			for _, out := range []string{r.String(text.String()), back["t"].(string), string(clean), string(r.Bytes(raw))} {
				if strings.Contains(out, v) {
					t.Fatalf("%q is in %q", v, out)
				}
			}
		}
	})
}

func FuzzRedactor(f *testing.F) {
	f.Add("abcdefgh", `{"a": "abcdefgh", "n": 12345678}`)
	f.Add(`q"uo\te😀😀`, `"q\"uo\\te\ud83d\ude00\ud83d\ude00"`)
	f.Add("12345678", `[12345678, -1.2345678e10]`)
	f.Fuzz(func(t *testing.T, secret, raw string) {
		r := redact.New(map[string]string{"K": secret})
		out := r.JSON(json.RawMessage(raw))
		if json.Valid([]byte(raw)) && !json.Valid(out) {
			t.Fatalf("%q became %q", raw, out)
		}
	})
}

func BenchmarkRedactor_JSON(b *testing.B) {
	values := map[string]string{}
	for _, c := range "abcdefghij" {
		values["KEY_"+string(c)] = strings.Repeat(string(c), 3) + "-secret-4f8a9b7c6d5e4f3a"
	}
	r := redact.New(values)
	text := func(line string, n int, key string) json.RawMessage {
		raw, _ := json.Marshal(map[string]any{"text": strings.Repeat(line, n), "key": key})
		return raw
	}
	var floor bytes.Buffer
	for name, raw := range map[string]json.RawMessage{
		"clean":   text("The quick brown fox jumps over the lazy dog. ", 20_000, ""),
		"key":     text("The quick brown fox jumps over the lazy dog. ", 20_000, "aaa-secret-4f8a9b7c6d5e4f3a"),
		"escapes": text("if x < 1 && y[\"a\"] != 'b' {\n\tgo(\"%20\")\n}\n", 20_000, ""),
		"base64":  text("R28gaXMgZXhwcmVzc2l2ZSwgY29uY2lzZSwgY2xlYW4sIGFu\n", 20_000, ""),
	} {
		b.Run(name+"/redact", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				r.JSON(raw)
			}
		})
		b.Run(name+"/floor=json.Compact", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				floor.Reset()
				if err := json.Compact(&floor, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
