package env

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core/jsonc"
)

// minSecret is the least number of characters of a value that is redacted:
// shorter ones ("true", "8080") occur everywhere.
const minSecret = 8

// minLine is the least length of a line of a longer value that is redacted on
// its own, because logs are written line by line.
const minLine = 16

// Redactor replaces secret values by «NAME»: as they are, escaped as JSON or
// for a URL, and within base64. It is safe for concurrent use. A value that is
// cut in two by a boundary between two inputs is not seen; redact whole
// messages or lines.
type Redactor struct {
	replacer *strings.Replacer // nil: nothing to redact
	forms    int
}

// NewRedactor makes a Redactor of values by name. Values of fewer than 8
// characters are left alone.
func NewRedactor(values map[string]string) *Redactor {
	forms := map[string]string{} // form to mark
	add := func(form, mark string) {
		if old, ok := forms[form]; form != "" && (!ok || mark < old) {
			forms[form] = mark
		}
	}
	for name, value := range values {
		value = strings.TrimSpace(value)
		if utf8.RuneCountInString(value) < minSecret {
			continue
		}
		mark := "«" + strings.Map(markRune, name) + "»"
		for _, form := range formsOf(value) {
			add(form, mark)
		}
		if !strings.Contains(value, "\n") {
			continue
		}
		for line := range strings.Lines(value) {
			line = strings.TrimSpace(line)
			if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				add(line, mark)
			}
		}
	}
	if len(forms) == 0 {
		return &Redactor{}
	}
	list := make([]string, 0, len(forms))
	for form := range forms {
		list = append(list, form)
	}
	// The replacer prefers what stands first: the longest.
	sort.Slice(list, func(i, j int) bool {
		if len(list[i]) != len(list[j]) {
			return len(list[i]) > len(list[j])
		}
		return list[i] < list[j]
	})
	pairs := make([]string, 0, 2*len(list))
	for _, form := range list {
		pairs = append(pairs, form, forms[form])
	}
	return &Redactor{replacer: strings.NewReplacer(pairs...), forms: len(list)}
}

// markRune keeps a mark free of what would change the text around it.
func markRune(r rune) rune {
	if r < 0x20 || r == '"' || r == '\\' || r == '«' || r == '»' || r == 0x7f {
		return '_'
	}
	return r
}

// formsOf returns the texts by which a value can appear.
func formsOf(value string) []string {
	forms := []string{
		value, url.QueryEscape(value), url.PathEscape(value), componentEscape(value),
	}
	for _, escaped := range jsonForms(value) {
		// Twice: JSON within a string of JSON.
		forms = append(forms, escaped, inner(escaped, false))
	}
	for _, f := range forms[1:4] {
		forms = append(forms, lowerHex(f))
	}
	return append(forms, base64Forms(value)...)
}

// jsonForms are the ways in which encoders write a string: with "<", ">" and
// "&" as they are or escaped, slashes escaped, all but ASCII escaped.
func jsonForms(value string) []string {
	var forms []string
	for _, html := range []bool{false, true} {
		text := inner(value, html)
		slashed := strings.ReplaceAll(text, "/", `\/`)
		forms = append(forms, text, slashed, asciiJSON(text), asciiJSON(slashed))
	}
	return forms
}

func inner(s string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16Of(r) {
			const hex = "0123456789abcdef"
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hex[u>>shift&0xf])
			}
		}
	}
	return b.String()
}

func utf16Of(r rune) []uint16 {
	if r < 0x10000 {
		return []uint16{uint16(r)}
	}
	r -= 0x10000
	return []uint16{uint16(0xd800 + r>>10), uint16(0xdc00 + r&0x3ff)}
}

// componentEscape is JavaScript's encodeURIComponent.
func componentEscape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&0xf]})
	}
	return b.String()
}

// lowerHex writes the digits of %XX in lower case, as some encoders do.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// base64Forms are what a value looks like within base64, at each of the three
// places where it can begin in a group, less the digits that it shares with
// its neighbours; so "user:value" of an Authorization header is found, too.
func base64Forms(value string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 {
			text := enc.EncodeToString(append(make([]byte, lead), value...))
			from := (lead*8 + 5) / 6
			to := (lead + len(value)) * 8 / 6
			out = append(out, text[from:to])
		}
	}
	return out
}

// String returns s without secret values.
func (r *Redactor) String(s string) string {
	if r.replacer == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Bytes returns b without secret values; b itself when there are none.
func (r *Redactor) Bytes(b []byte) []byte {
	if r.replacer == nil || len(b) == 0 {
		return b
	}
	return []byte(r.replacer.Replace(string(b)))
}

// JSON returns a JSON value without secret values. Its structure stays: only
// strings and names change, and a number that is a secret becomes a string.
// What is not JSON is treated as text.
func (r *Redactor) JSON(raw json.RawMessage) json.RawMessage {
	if r.replacer == nil || len(raw) == 0 {
		return raw
	}
	if !json.Valid(raw) {
		return r.Bytes(raw)
	}
	text := string(raw)
	var out strings.Builder
	done := 0 // of text, that out holds already
	replace := func(from, to int, with string) {
		out.WriteString(text[done:from])
		out.WriteString(with)
		done = to
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			end := jsonc.EndOfString(raw, i)
			if clean, changed := r.jsonString(text[i:end]); changed {
				replace(i, end, clean)
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			if number := text[i:end]; len(number) >= minSecret {
				if clean := r.replacer.Replace(number); clean != number {
					replace(i, end, `"`+clean+`"`)
				}
			}
			i = end
		default:
			i++
		}
	}
	if done == 0 {
		return raw
	}
	out.WriteString(text[done:])
	return json.RawMessage(out.String())
}

// jsonString redacts one string of a JSON text, quotes included.
func (r *Redactor) jsonString(quoted string) (clean string, changed bool) {
	s := quoted[1 : len(quoted)-1]
	if len(s) < minSecret {
		return "", false
	}
	escaped := strings.IndexByte(s, '\\') >= 0
	if escaped {
		if err := json.Unmarshal([]byte(quoted), &s); err != nil {
			return "", false
		}
	}
	c := r.replacer.Replace(s)
	if c == s {
		return "", false
	}
	if !escaped && !slices.Contains([]byte(c), '\\') {
		return `"` + c + `"`, true
	}
	return `"` + inner(c, false) + `"`, true
}
