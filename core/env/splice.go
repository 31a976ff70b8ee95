package env

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// splicer changes the text of a configuration file in place: every byte that
// is not part of what changes stays, comments, order, line ends and a byte
// order mark too.
type splicer struct {
	name  string
	text  []byte
	plain []byte // text with comments blanked; offsets are the same
	root  hujson.Value
}

// openSplice reads a text. One without content counts as an empty object. What
// could not be loaded is core.CodeInvalidConfig: it is not made worse.
func openSplice(name string, text []byte) (*splicer, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if _, faults := parseFile(name, FromHome, text); len(faults) > 0 {
		return nil, invalid(faults)
	}
	plain := jsonc.Strip(text).Plain
	root, err := hujson.Parse(plain)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot read %s again: %w", name, err)
	}
	return &splicer{name: name, text: text, plain: plain, root: root}, nil
}

// splice is one replacement in a text; at equal places the first goes first.
type splice struct {
	from, to int
	text     string
}

// apply returns the text with replacements, which do not overlap and are in
// order. What could not be loaded afterwards is an error.
func (s *splicer) apply(parts ...splice) ([]byte, error) {
	var out []byte
	at := 0
	for _, p := range parts {
		out = append(append(out, s.text[at:p.from]...), p.text...)
		at = p.to
	}
	out = append(out, s.text[at:]...)
	if _, faults := parseFile(s.name, FromHome, out); len(faults) > 0 {
		return nil, invalid(faults)
	}
	return out, nil
}

// member finds a member of an object.
func member(v hujson.Value, name string) (hujson.ObjectMember, bool) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return hujson.ObjectMember{}, false
	}
	for _, m := range obj.Members {
		if m.Name.Value.(hujson.Literal).String() == name {
			return m, true
		}
	}
	return hujson.ObjectMember{}, false
}

// set gives the member at a path of names a value; what is missing on the way
// is made.
func (s *splicer) set(path []string, value any) ([]byte, error) {
	at := s.root
	for i, name := range path {
		m, ok := member(at, name)
		switch {
		case !ok:
			for k := len(path) - 1; k > i; k-- {
				value = map[string]any{path[k]: value}
			}
			return s.insert(at, &name, value)
		case i == len(path)-1:
			flat := s.flat(at)
			text, err := s.render(value, s.indentOf(m.Name.StartOffset), flat)
			if err != nil {
				return nil, err
			}
			return s.apply(splice{m.Value.StartOffset, m.Value.EndOffset, text})
		}
		at = m.Value
	}
	return s.text, nil
}

// push appends a value to the list at a path of names, which is made if it is
// missing.
func (s *splicer) push(path []string, value string) ([]byte, error) {
	at := s.root
	for _, name := range path {
		m, ok := member(at, name)
		if !ok {
			return s.set(path, []string{value})
		}
		at = m.Value
	}
	return s.insert(at, nil, value)
}

// insert adds a last member (with a name) or element (without) to an object or
// a list.
func (s *splicer) insert(v hujson.Value, name *string, value any) ([]byte, error) {
	end, inner := v.EndOffset-1, lastEnd(v)
	line := s.lineStart(end)
	ownLine := line > v.StartOffset && blankText(s.text[line:end])
	unit := s.unit()
	outer := s.indentOf(end)
	indent := outer + unit
	if first := firstStart(v); first > 0 && s.lineStart(first) > v.StartOffset {
		indent = s.indentOf(first)
	}
	expand := inner == 0 && blankText(s.text[v.StartOffset+1:end]) && (v.StartOffset == s.root.StartOffset || !s.flat(s.root))
	text, err := s.render(value, indent, !ownLine && !expand)
	if err != nil {
		return nil, err
	}
	if name != nil {
		key, err := s.render(*name, "", true)
		if err != nil {
			return nil, err
		}
		text = key + ": " + text
	}
	var parts []splice
	if inner > 0 {
		parts = append(parts, splice{inner, inner, ","})
		if !ownLine {
			text = " " + text
		}
	}
	switch {
	case ownLine:
		parts = append(parts, splice{line, line, indent + text + s.newline()})
	case expand:
		parts = append(parts, splice{v.StartOffset + 1, end, s.newline() + indent + text + s.newline() + outer})
	default:
		p := v.StartOffset + 1 + len(bytes.TrimRight(s.text[v.StartOffset+1:end], " \t"))
		parts = append(parts, splice{p, p, text})
	}
	return s.apply(parts...)
}

// remove takes a member out of an object, with its comma, and its line if
// nothing else stands on it.
func (s *splicer) remove(v hujson.ObjectMember) ([]byte, error) {
	from, to := v.Name.StartOffset, v.Value.EndOffset
	var parts []splice
	after := to + len(s.plain[to:]) - len(bytes.TrimLeft(s.plain[to:], " \t\r\n"))
	before := len(bytes.TrimRight(s.plain[:from], " \t\r\n")) - 1
	switch {
	case s.plain[after] == ',' && blankText(s.text[to:after]):
		to = after + 1
	case s.plain[after] == ',':
		parts = append(parts, splice{after, after + 1, ""})
	case s.plain[before] == ',' && blankText(s.text[before+1:from]):
		return s.apply(splice{before, to, ""})
	case s.plain[before] == ',':
		parts = append(parts, splice{before, before + 1, ""})
	}
	line, rest := s.lineStart(from), s.text[to:]
	if end := bytes.IndexByte(rest, '\n'); end >= 0 && blankText(s.text[line:from]) && len(bytes.TrimSpace(rest[:end])) == 0 {
		from, to = line, to+end+1
	} else {
		to += len(rest) - len(bytes.TrimLeft(rest, " \t"))
	}
	own := splice{from, to, ""}
	if len(parts) > 0 && parts[0].from < from {
		return s.apply(parts[0], own)
	}
	return s.apply(append([]splice{own}, parts...)...)
}

// render writes a value: objects on lines of their own, lists of plain values
// on one line; all on one line when flat.
func (s *splicer) render(value any, indent string, flat bool) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	if err == nil {
		var v hujson.Value
		if v, err = hujson.Parse(b.Bytes()); err == nil {
			var out strings.Builder
			r := renderer{b: &out, newline: s.newline(), unit: s.unit(), flat: flat}
			r.value(v, indent)
			return out.String(), nil
		}
	}
	return "", core.Errorf(core.CodeInternal, "cannot write an entry of %s: %w", s.name, err)
}

type renderer struct {
	b             *strings.Builder
	newline, unit string
	flat          bool
}

func (r *renderer) value(v hujson.Value, indent string) {
	switch x := v.Value.(type) {
	case *hujson.Object:
		r.list('{', '}', len(x.Members), indent, r.flat, func(i int, indent string) {
			r.b.Write(x.Members[i].Name.Value.(hujson.Literal))
			r.b.WriteString(": ")
			r.value(x.Members[i].Value, indent)
		})
	case *hujson.Array:
		r.list('[', ']', len(x.Elements), indent, true, func(i int, indent string) { r.value(x.Elements[i], indent) })
	case hujson.Literal:
		r.b.Write(x)
	}
}

func (r *renderer) list(open, end byte, n int, indent string, flat bool, item func(i int, indent string)) {
	r.b.WriteByte(open)
	for i := range n {
		switch {
		case !flat:
			r.b.WriteString(r.newline + indent + r.unit)
		case i > 0:
			r.b.WriteByte(' ')
		}
		item(i, indent+r.unit)
		if i < n-1 {
			r.b.WriteByte(',')
		}
	}
	if !flat && n > 0 {
		r.b.WriteString(r.newline + indent)
	}
	r.b.WriteByte(end)
}

// flat reports whether a value stands on one line.
func (s *splicer) flat(v hujson.Value) bool {
	return bytes.IndexByte(s.text[v.StartOffset:v.EndOffset], '\n') < 0
}

func (s *splicer) newline() string {
	if bytes.Contains(s.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// unit is what the file indents by: as its first member is, else two spaces.
func (s *splicer) unit() string {
	if first := firstStart(s.root); first > 0 {
		if own := s.indentOf(first); own != "" && s.lineStart(first) > s.root.StartOffset {
			return own
		}
	}
	return "  "
}

// lineStart is where the line of an offset begins.
func (s *splicer) lineStart(at int) int { return bytes.LastIndexByte(s.text[:at], '\n') + 1 }

// indentOf is the space at the beginning of an offset's line.
func (s *splicer) indentOf(at int) string {
	line := s.text[s.lineStart(at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func blankText(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// firstStart is where the first member or element begins, 0 if there is none.
func firstStart(v hujson.Value) int {
	switch x := v.Value.(type) {
	case *hujson.Object:
		if len(x.Members) > 0 {
			return x.Members[0].Name.StartOffset
		}
	case *hujson.Array:
		if len(x.Elements) > 0 {
			return x.Elements[0].StartOffset
		}
	}
	return 0
}

// lastEnd is where the last member or element ends, 0 if there is none.
func lastEnd(v hujson.Value) int {
	switch x := v.Value.(type) {
	case *hujson.Object:
		if n := len(x.Members); n > 0 {
			return x.Members[n-1].Value.EndOffset
		}
	case *hujson.Array:
		if n := len(x.Elements); n > 0 {
			return x.Elements[n-1].EndOffset
		}
	}
	return 0
}
