package env_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core/env"
)

func TestRedactor_Forms(t *testing.T) {
	t.Parallel()
	const key = "p@ss/w\"rd+<é>%1"
	r := env.NewRedactor(map[string]string{"KEY": key, "SHORT": "1234567"})
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
	r := env.NewRedactor(map[string]string{"A": "secret-value", "B": "secret-value-and-more"})
	equal(t, "«B» «A»", r.String("secret-value-and-more secret-value"))
}

func TestRedactor_LinesOfLongValues(t *testing.T) {
	t.Parallel()
	r := env.NewRedactor(map[string]string{"PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n"})
	equal(t, "log: «PEM»", r.String("log: MIIEvQIBADANBgkqhkiG"))
	equal(t, "-----BEGIN KEY-----", r.String("-----BEGIN KEY-----"))
}

func TestRedactor_JSON(t *testing.T) {
	t.Parallel()
	r := env.NewRedactor(map[string]string{"K": "abcdefgh", "N": "1234567890", "Q": `quo"te\d`})
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
		r := env.NewRedactor(values)
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

func TestSecrets(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {
		"a": {"command": "x", "args": ["--key=${ARG_KEY}", "${BASE}"], "env": {"TOKEN": "${TOKEN}", "ROOT": "`+b.work.Dir+`"}},
		"b": {"url": "https://x/", "headers": {"Authorization": "Bearer ${B_KEY}"}, "env": {"TOKEN": "another-token"}}}}`)
	b.write(".env", "TOKEN=token-in-file\nARG_KEY=key-in-argument\nB_KEY=key-in-header\nUNUSED=not-declared\n")
	b.environ["BASE"] = "/usr/share/base"
	b.write(b.home.Config(), `{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "third-token"}}}}`)
	equal(t, map[string]string{
		"a.TOKEN": "third-token", "TOKEN": "token-in-file", "ARG_KEY": "key-in-argument", "B_KEY": "key-in-header",
		"Authorization": "Bearer key-in-header", "b.TOKEN": "another-token",
	}, b.load().Secrets())
}

func FuzzRedactor(f *testing.F) {
	f.Add("abcdefgh", `{"a": "abcdefgh", "n": 12345678}`)
	f.Add(`q"uo\te😀😀`, `"q\"uo\\te\ud83d\ude00\ud83d\ude00"`)
	f.Add("12345678", `[12345678, -1.2345678e10]`)
	f.Fuzz(func(t *testing.T, secret, raw string) {
		r := env.NewRedactor(map[string]string{"K": secret})
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
	r := env.NewRedactor(values)
	raw, _ := json.Marshal(map[string]any{"text": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20_000), "key": "aaa-secret-4f8a9b7c6d5e4f3a"})
	var floor bytes.Buffer
	b.Run("redact", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			r.JSON(raw)
		}
	})
	b.Run("floor=json.Compact", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			floor.Reset()
			if err := json.Compact(&floor, raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
