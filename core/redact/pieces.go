package redact

import "strings"

// Open is how many bytes at the end of a text may be the beginning of a value, in any of
// the forms that String finds. Whoever shows a text piece by piece keeps them back until
// more of it has come.
func (r *Redactor) Open(text string) int {
	if r.m == nil || text == "" {
		return 0
	}
	// What a cut escape will come to is not known: what is before it is looked at.
	whole := openEscape(text)
	from := r.m.open(text[:whole])
	if r.literal {
		for _, lead := range eachEscape {
			if v, ok := unescape(text[:whole], lead, true); ok {
				from = min(from, r.openIn(v))
			}
		}
	}
	var undone []unescaped
	for level := text[:whole]; len(undone) < maxNested; {
		v, ok := unescape(level, allEscapes, true)
		if !ok {
			break
		}
		undone = append(undone, v)
		at := r.openIn(v)
		for i := len(undone) - 2; i >= 0; i-- {
			at = undone[i].begin(at)
		}
		from = min(from, at)
		level = v.text[:openEscape(v.text)]
	}
	return len(text) - from
}

// openIn is where in its source the end of a text stands that may go on as a value.
func (r *Redactor) openIn(v unescaped) int {
	return v.begin(r.m.open(v.text[:openEscape(v.text)]))
}

// begin is where a place of the text stands in its source.
func (u unescaped) begin(at int) int {
	if at >= len(u.text) {
		return maxSource
	}
	from, _ := u.source(at, at+1)
	return from
}

// maxSource is more than any text is long.
const maxSource = 1 << 30

// open is where the end of a text begins that is the beginning of a form; the length of
// the text when there is none.
func (m *matcher) open(text string) int {
	for at := range len(text) {
		for _, f := range m.first[text[at]] {
			if m.forms[f].begins(text[at:]) {
				return at
			}
		}
	}
	return len(text)
}

// begins reports whether the form begins with a text, and goes on after it.
func (f form) begins(text string) bool {
	if !f.wraps {
		return len(text) < len(f.text) && strings.HasPrefix(f.text, text)
	}
	n := 0
	for i := range len(text) {
		if isSpace(text[i]) {
			continue
		}
		if n == len(f.text) || f.text[n] != text[i] {
			return false
		}
		n++
	}
	return n < len(f.text)
}

// openEscape is where an escape begins that the end of a text may have cut in two; the
// length of the text when there is none.
func openEscape(text string) int {
	for at := 0; at < len(text); {
		if rest := text[at:]; mayGoOn(rest) {
			return at
		} else if _, size := undo(rest); size > 0 {
			at += size
			continue
		}
		at++
	}
	return len(text)
}

// mayGoOn reports whether a text is the beginning of an escape, or of a longer one.
func mayGoOn(text string) bool {
	switch text[0] {
	case '\\': // two of \u can be one escape
		return len(text) < 2 || len(text) < 12 && (text[1] == 'u' || text[1] == 'x')
	case '%':
		return len(text) < 3
	case '&':
		return len(text) < maxEntity && strings.IndexFunc(text[1:], func(c rune) bool { return c != '#' && (c > 'z' || !isLetterOrDigit(byte(c))) }) < 0
	}
	return false
}

// Streaming returns the view for texts that are shown while they are being written: open
// says how many bytes at their end may be the beginning of a value.
func (v View) Streaming(open func(string) int) View {
	v.open = open
	return v
}

// Piece splits a text that goes on into what can be shown of it, without values, and what
// has to wait until more has come.
func (v View) Piece(text string) (shown, rest string) {
	if v.open != nil {
		at := len(text) - v.open(text)
		text, rest = text[:at], text[at:]
	}
	return v.Text(text), rest
}
