package dag

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// maxID bounds the length of a task id, and with it the work of finding the
// longest id at the start of a reference.
const maxID = 128

// step is one part of the path behind a task id: a key, or an index.
type step struct {
	key   string
	index int
	isKey bool
}

// ref refers to a value in the output of a task.
type ref struct {
	task int
	path []step
	text string // as written, for messages
}

// part is a piece of an interpolated string: literal text or a reference.
type part struct {
	text string
	ref  *ref
}

// hole is a string of the arguments that holds references: bytes start to end
// (quotes included) are replaced. A whole reference has one part and keeps the
// type of its value.
type hole struct {
	start, end int
	parts      []part
	whole      bool
}

// template is what has to be filled into a task's arguments, in text order.
type template []hole

// finder finds references to the tasks of one graph.
type finder struct {
	index map[string]int
	// literal and unknown are called for `$…` that looks like a reference: text
	// that stays as it is, and $OUTPUT[id] of a task that does not exist.
	literal func(text, hint string)
	unknown func(text, id string)
}

// scan finds the references in a valid JSON value. Keys are left alone.
func (f *finder) scan(args []byte) template {
	if bytes.IndexByte(args, '$') < 0 && !bytes.Contains(args, []byte(`\u0024`)) {
		return nil
	}
	var t template
	for i := 0; i < len(args); {
		if args[i] != '"' {
			i++
			continue
		}
		end := core.StringEnd(args, i)
		tok := args[i:end]
		if next := core.SkipSpace(args, end); next < len(args) && args[next] == ':' {
			i = next // a key
			continue
		}
		var s string
		if json.Unmarshal(tok, &s) == nil && strings.IndexByte(s, '$') >= 0 {
			if parts, whole := f.parse(s); parts != nil {
				t = append(t, hole{start: i, end: end, parts: parts, whole: whole})
			}
		}
		i = end
	}
	return t
}

// parse splits a string into its references and the text around them. It
// returns nil when there is no reference.
func (f *finder) parse(s string) (parts []part, whole bool) {
	if strings.HasPrefix(s, "$") && !strings.HasPrefix(s, "${") {
		if r := f.ref(s[1:]); r != nil {
			r.text = s
			return []part{{ref: r}}, true
		}
	}
	found, from := false, 0
	for i := 0; i < len(s); {
		d := strings.IndexByte(s[i:], '$')
		if d < 0 {
			break
		}
		i += d
		body, ok := braced(s[i:])
		if !ok {
			f.bare(s, i)
			i++
			continue
		}
		text := s[i : i+len(body)+3]
		if r := f.ref(body); r != nil {
			r.text = text
			if i > from {
				parts = append(parts, part{text: s[from:i]})
			}
			parts = append(parts, part{ref: r})
			found, from = true, i+len(text)
		} else if looksLikeRef(body) {
			f.literal(text, "")
		}
		i += len(text)
	}
	if !found {
		return nil, false
	}
	if from < len(s) {
		parts = append(parts, part{text: s[from:]})
	}
	return parts, len(parts) == 1
}

// braced returns the body of a `${…}` at the start of s.
func braced(s string) (body string, ok bool) {
	if !strings.HasPrefix(s, "${") {
		return "", false
	}
	end := strings.IndexAny(s[2:], "}{$")
	if end < 0 || s[2+end] != '}' {
		return "", false
	}
	return s[2 : 2+end], true
}

// bare remarks on a `$name` without braces that is not a reference.
func (f *finder) bare(s string, at int) {
	rest := s[at+1:]
	if at == 0 && looksLikeRef(rest) {
		f.literal(s, "")
		return
	}
	run := rest[:idRun(rest)]
	for n := len(run); n > 0; n-- {
		if _, ok := f.index[run[:n]]; ok {
			if n < len(run) && isWord(run[n]) {
				continue
			}
			f.literal("$"+run[:n], "${"+run[:n]+"}")
			return
		}
	}
}

// ref reads the id and path of a reference, the `$` left out. The longest
// known id wins. nil: it is none.
func (f *finder) ref(s string) *ref {
	if rest, ok := strings.CutPrefix(s, "OUTPUT["); ok {
		if id, tail, ok := strings.Cut(rest, "]"); ok && validID(id) {
			if path, ok := parsePath(tail); ok {
				task, known := f.index[id]
				if known {
					return &ref{task: task, path: path}
				}
				if _, isTask := f.index["OUTPUT"]; !isTask {
					f.unknown("$"+s, id)
					return nil
				}
			}
		}
	}
	for n := idRun(s); n > 0; n-- {
		if n < len(s) && s[n] != '.' && s[n] != '[' {
			continue
		}
		if task, ok := f.index[s[:n]]; ok {
			if path, ok := parsePath(s[n:]); ok {
				return &ref{task: task, path: path}
			}
		}
	}
	return nil
}

// parsePath reads `.key`, `[0]` and `["any key"]` until the end.
func parsePath(s string) ([]step, bool) {
	var path []step
	for len(s) > 0 {
		switch s[0] {
		case '.':
			n := keyRun(s[1:])
			if n == 0 {
				return nil, false
			}
			path = append(path, step{key: s[1 : 1+n], isKey: true})
			s = s[1+n:]
		case '[':
			end := strings.IndexByte(s, ']')
			if len(s) > 1 && (s[1] == '"' || s[1] == '\'') {
				if end = strings.Index(s[2:], s[1:2]+"]"); end < 0 {
					return nil, false
				}
				path = append(path, step{key: s[2 : 2+end], isKey: true})
				s = s[end+4:]
				continue
			}
			if end < 0 {
				return nil, false
			}
			n, ok := decimal(s[1:end])
			if !ok {
				return nil, false
			}
			path = append(path, step{index: n})
			s = s[end+1:]
		default:
			return nil, false
		}
	}
	return path, true
}

// decimal reads an index: digits only, small enough for an int.
func decimal(s string) (int, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func looksLikeRef(s string) bool {
	if s == "" || s[0] != '_' && !unicode.IsLetter(rune(s[0])) || s[0] >= utf8.RuneSelf {
		return false
	}
	n := 0
	for n < len(s) && isWord(s[n]) {
		n++
	}
	_, ok := parsePath(s[n:])
	return ok
}

// idRun is the length of the part of s that an id could cover.
func idRun(s string) int {
	n := 0
	for n < len(s) && n < maxID && isIDByte(s[n]) {
		n++
	}
	return n
}

func keyRun(s string) int {
	for i, r := range s {
		if r != '_' && r != '-' && r != '@' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) {
			return i
		}
	}
	return len(s)
}

func isWord(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isIDByte(c byte) bool { return isWord(c) || c == '.' || c == ':' }

func validID(id string) bool { return id != "" && len(id) <= maxID && idRun(id) == len(id) }

// String gives the reference as it is written.
func (r *ref) String() string { return r.text }
