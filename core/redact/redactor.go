// Package redact keeps secret values out of what is shown, logged and journaled:
// Redactor finds values in any of the forms that encodings give them, Secrets are
// those of one workspace, which come and go, and View takes them out of runs,
// errors, events and whatever else the vocabulary of core has.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// minSecret is the least number of characters of a value that is redacted:
// shorter ones ("true", "8080") occur everywhere.
const minSecret = 8

// minLine is the least length of a line of a longer value that is redacted on
// its own, because logs are written line by line.
const minLine = 16

// maxNested is how many encodings around a value are seen through, such as JSON
// in a string of JSON in a URL.
const maxNested = 3

// Redactor replaces secret values by «NAME»: as they are, escaped as JSON, for
// a URL or for HTML in whichever way, as hexadecimal digits, and within base64,
// also where that is broken into lines. It is safe for concurrent use. A value
// that is cut in two by a boundary between two inputs is not seen; redact whole
// messages or lines.
type Redactor struct {
	m *matcher // nil: nothing to redact
	// literal: a value holds a sign by which escapes begin, so that it is also looked
	// for with the escapes of one kind undone only.
	literal bool
	marks   []string // what stands in the place of the values
}

// New makes a Redactor of values by name. Values of fewer than 8
// characters are left alone.
func New(values map[string]string) *Redactor {
	r := &Redactor{}
	forms := map[form]string{} // to mark
	add := func(value, mark string) {
		r.literal = r.literal || strings.ContainsAny(value, allEscapes)
		for _, f := range formsOf(value) {
			if old, ok := forms[f]; !ok || mark < old {
				forms[f] = mark
			}
		}
	}
	for name, value := range values {
		value = strings.TrimSpace(value)
		if utf8.RuneCountInString(value) < minSecret {
			continue
		}
		mark := "«" + strings.Map(markRune, name) + "»"
		add(value, mark)
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
	if len(forms) > 0 {
		r.m = newMatcher(forms)
		r.marks = slices.Compact(slices.Sorted(maps.Values(forms)))
	}
	return r
}

// Mark returns what this Redactor puts in the place of a value, where a text holds
// it; else it is empty.
func (r *Redactor) Mark(text string) string {
	if i := slices.IndexFunc(r.marks, func(m string) bool { return strings.Contains(text, m) }); i >= 0 {
		return r.marks[i]
	}
	return ""
}

// markRune keeps a mark free of what would change the text around it.
func markRune(r rune) rune {
	if r < 0x20 || r == '"' || r == '\\' || r == '«' || r == '»' || r == 0x7f {
		return '_'
	}
	return r
}

// span is where a value stands in a text.
type span struct {
	from, to int
	mark     string
}

// look finds the values in a text, and in what it is with its escapes undone; it
// ends when found says so. Without places the spans are not those of the text.
func (r *Redactor) look(text string, places bool, found func([]span) (enough bool)) {
	if found(r.m.find(text)) {
		return
	}
	if r.literal {
		for _, lead := range eachEscape {
			if v, ok := unescape(text, lead, places); ok && found(v.sources(r.m.find(v.text))) {
				return
			}
		}
	}
	var undone []unescaped
	for range maxNested {
		v, ok := unescape(text, allEscapes, places)
		if !ok {
			return
		}
		text, undone = v.text, append(undone, v)
		spans := r.m.find(text)
		for _, v := range slices.Backward(undone) {
			spans = v.sources(spans)
		}
		if found(spans) {
			return
		}
	}
}

// spans finds all values in a text.
func (r *Redactor) spans(text string) (all []span) {
	if !r.holds(text) { // nearly always, and found out with less memory
		return nil
	}
	r.look(text, true, func(found []span) bool {
		all = append(all, found...)
		return false
	})
	return all
}

// holds reports whether there is any value in a text.
func (r *Redactor) holds(text string) (any bool) {
	r.look(text, false, func(found []span) bool {
		any = len(found) > 0
		return any
	})
	return any
}

// replace puts marks in the place of values. Of values that overlap the one
// that begins first counts, of those the longest; what sticks out of it is
// replaced, too.
func (r *Redactor) replace(text string) string {
	found := r.spans(text)
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.mark, b.mark))
	})
	var out strings.Builder
	done, last := 0, ""
	for _, s := range found {
		if s.to <= done {
			continue
		}
		if s.from >= done {
			out.WriteString(text[done:s.from])
			last = ""
		}
		if s.mark != last {
			out.WriteString(s.mark)
		}
		done, last = s.to, s.mark
	}
	out.WriteString(text[done:])
	return out.String()
}

// String returns s without secret values.
func (r *Redactor) String(s string) string {
	if r.m == nil {
		return s
	}
	return r.replace(s)
}

// Bytes returns b without secret values; b itself when there are none.
func (r *Redactor) Bytes(b []byte) []byte {
	if r.m == nil || len(b) == 0 {
		return b
	}
	text := string(b)
	if clean := r.replace(text); clean != text {
		return []byte(clean)
	}
	return b
}

// JSON returns a JSON value without secret values. Its structure stays: only
// strings and names change, and a number that is a secret becomes a string.
// What is not JSON is treated as text.
func (r *Redactor) JSON(raw json.RawMessage) json.RawMessage {
	if r.m == nil || len(raw) == 0 {
		return raw
	}
	// Nearly all values hold no secret: that is found out at once for all of
	// their strings.
	text := string(raw)
	strs := text
	if v, ok := unescape(text, backslash, false); ok {
		strs = v.text
	}
	if !json.Valid(raw) {
		return r.Bytes(raw)
	}
	if !r.holds(strs) {
		return raw
	}
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
			end := core.StringEnd(raw, i)
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
				if clean := r.replace(number); clean != number {
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
	c := r.replace(s)
	if c == s {
		return "", false
	}
	if !escaped && !slices.Contains([]byte(c), '\\') {
		return `"` + c + `"`, true
	}
	return `"` + quote(c) + `"`, true
}

// quote is the inside of a JSON string.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}
