package redact

import (
	"html"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The characters by which escapes begin that unescape undoes.
const (
	backslash  = `\`
	allEscapes = `\%&`
)

var eachEscape = []string{backslash, "%", "&"}

// unescaped is a text with escapes undone, and where each of them stood.
type unescaped struct {
	text  string
	steps []escape
}

// escape is one that was undone: what stands at:end of the text stood at
// from:to of the source.
type escape struct{ at, end, from, to int }

// sources turns places in the text into those in the source.
func (u unescaped) sources(spans []span) []span {
	for i, s := range spans {
		spans[i].from, spans[i].to = u.source(s.from, s.to)
	}
	return spans
}

// source is where a part of the text, which is not empty, stands in the source:
// whole escapes.
func (u unescaped) source(from, to int) (int, int) {
	at := func(i int) (int, int) {
		n := sort.Search(len(u.steps), func(n int) bool { return u.steps[n].at > i })
		if n == 0 {
			return i, i + 1
		}
		e := u.steps[n-1]
		if i < e.end {
			return e.from, e.to
		}
		return e.to + i - e.end, e.to + i - e.end + 1
	}
	first, _ := at(from)
	_, last := at(to - 1)
	return first, last
}

// unescape undoes one level of the escapes that begin with one of lead: those of
// JSON, of programming languages and shells (\), of URLs (%), of HTML (&). What
// is no escape stays. ok is false when there is none. Where they stood is kept
// only on demand, which takes more memory than the text.
func unescape(s, lead string, steps bool) (u unescaped, ok bool) {
	i := strings.IndexAny(s, lead)
	if i < 0 {
		return u, false
	}
	var leads [256]bool
	for _, c := range []byte(lead) {
		leads[c] = true
	}
	var out []byte
	done := 0 // of s, that out holds
	for i < len(s) {
		if !leads[s[i]] {
			i++
			continue
		}
		text, size := undo(s[i:])
		if size == 0 {
			i++
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(s))
		}
		out = append(out, s[done:i]...)
		at := len(out)
		out = append(out, text...)
		if steps {
			u.steps = append(u.steps, escape{at, len(out), i, i + size})
		}
		i += size
		done = i
	}
	if out == nil {
		return u, false
	}
	u.text = string(append(out, s[done:]...))
	return u, true
}

// undo undoes the escape that a text begins with; size 0: it is none.
func undo(s string) (text string, size int) {
	switch {
	case len(s) < 2:
	case s[0] == '\\':
		return undoBackslash(s)
	case s[0] == '&':
		return undoEntity(s)
	case s[0] == '%':
		if n, ok := hexDigits(s[1:], 2); ok {
			return oneByte(n), 3
		}
	}
	return "", 0
}

// undoBackslash undoes \n, \", \/, \u00e9, \ud83d\ude00, \u{1f600}, \x41.
func undoBackslash(s string) (text string, size int) {
	switch c := s[1]; c {
	case 'n':
		return "\n", 2
	case 'r':
		return "\r", 2
	case 't':
		return "\t", 2
	case 'b':
		return "\b", 2
	case 'f':
		return "\f", 2
	case 'x':
		if n, ok := hexDigits(s[2:], 2); ok {
			return oneByte(n), 4
		}
	case 'u':
		return undoRune(s)
	default:
		// Shells and Markdown escape any sign.
		if c >= ' ' && c < utf8.RuneSelf && !isLetterOrDigit(c) {
			return s[1:2], 2
		}
	}
	return "", 0
}

func undoRune(s string) (text string, size int) {
	if len(s) > 2 && s[2] == '{' {
		end := strings.IndexByte(s[:min(len(s), 12)], '}')
		if end < 0 {
			return "", 0
		}
		n, err := strconv.ParseUint(s[3:end], 16, 32)
		if err != nil || n > utf8.MaxRune {
			return "", 0
		}
		return string(rune(n)), end + 1
	}
	n, ok := hexDigits(s[2:], 4)
	switch {
	case !ok:
		return "", 0
	case n < utf8.RuneSelf:
		return oneByte(n), 6
	}
	if utf16.IsSurrogate(n) && len(s) >= 12 && s[6:8] == `\u` {
		if low, ok := hexDigits(s[8:], 4); ok {
			if r := utf16.DecodeRune(n, low); r != utf8.RuneError {
				return string(r), 12
			}
		}
	}
	return string(n), 6
}

// maxEntity bounds the name of an HTML entity.
const maxEntity = 34

// undoEntity undoes &amp; and &#38; and &#x26;.
func undoEntity(s string) (text string, size int) {
	if c := s[1]; c != '#' && !isLetterOrDigit(c) {
		return "", 0
	}
	end := strings.IndexByte(s[:min(len(s), maxEntity)], ';')
	if end < 2 {
		return "", 0
	}
	if text = html.UnescapeString(s[:end+1]); text == s[:end+1] || strings.HasSuffix(text, ";") && text != ";" {
		return "", 0
	}
	return text, end + 1
}

// bytesAsText are all bytes, of which oneByte cuts one without allocating.
var bytesAsText = func() string {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	return string(all[:])
}()

func oneByte(n rune) string { return bytesAsText[n : n+1] }

// hexDigits reads exactly n hexadecimal digits.
func hexDigits(s string, n int) (rune, bool) {
	if len(s) < n {
		return 0, false
	}
	var out rune
	for i := range n {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		out = out<<4 | rune(c)
	}
	return out, true
}

func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
