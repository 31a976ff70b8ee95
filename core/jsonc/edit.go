package jsonc

import (
	"bytes"
	"slices"
	"strings"
)

// Edit replaces one part of a text.
type Edit struct {
	At  int    `json:"at"`
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Apply returns the text with the replacement made; ok is false, and the text
// as it was, where it does not have the old part at the place.
func (e Edit) Apply(text []byte) (out []byte, ok bool) {
	if e.At < 0 || e.At > len(text) || !bytes.HasPrefix(text[e.At:], []byte(e.Old)) {
		return text, false
	}
	return slices.Concat(text[:e.At], []byte(e.New), text[e.At+len(e.Old):]), true
}

// Reverse is the edit that takes this one back.
func (e Edit) Reverse() Edit { return Edit{At: e.At, Old: e.New, New: e.Old} }

// Set gives the member at a path of names a value; what is missing on the way is
// made.
func (d *Doc) Set(path []string, value any) (Edit, error) {
	at := d.Root
	for i, name := range path[:len(path)-1] {
		m, ok := Find(at, name)
		if !ok {
			for k := len(path) - 1; k > i; k-- {
				value = map[string]any{path[k]: value}
			}
			return d.add(at, &name, value)
		}
		at = m.Value
	}
	name := path[len(path)-1]
	m, ok := Find(at, name)
	if !ok {
		return d.add(at, &name, value)
	}
	levels := allLevels
	if d.flat(at) {
		levels = 0
	}
	return d.Replace(m, value, levels)
}

// Append adds a value to the list at a path of names, which is made if it is
// missing.
func (d *Doc) Append(path []string, value any) (Edit, error) {
	at := d.Root
	for _, name := range path {
		m, ok := Find(at, name)
		if !ok {
			return d.Set(path, []any{value})
		}
		at = m.Value
	}
	return d.add(at, nil, value)
}

// Replace gives a member another value, of which so many levels of objects stand on
// lines of their own.
func (d *Doc) Replace(m Member, value any, levels int) (Edit, error) {
	v, err := encode(value)
	if err != nil {
		return Edit{}, err
	}
	text := d.render(v, d.indentOf(m.Name.StartOffset), levels)
	return d.edit(splice{m.Value.StartOffset, m.Value.EndOffset, text}), nil
}

// add adds a last member (with a name) or element (without) to an object or a
// list.
func (d *Doc) add(v Value, name *string, value any) (Edit, error) {
	end, inner := v.EndOffset-1, lastEnd(v)
	line := d.lineStart(end)
	ownLine := line > v.StartOffset && blank(d.text[line:end])
	outer := d.indentOf(end)
	indent := outer + d.unit()
	if first := firstStart(v); first > 0 && d.lineStart(first) > v.StartOffset {
		indent = d.indentOf(first)
	}
	expand := inner == 0 && blank(d.text[v.StartOffset+1:end]) && (v.StartOffset == d.Root.StartOffset || !d.flat(d.Root))
	levels := 0
	if ownLine || expand {
		levels = allLevels
	}
	text, err := d.item(name, value, indent, levels)
	if err != nil {
		return Edit{}, err
	}
	var parts []splice
	if inner > 0 {
		if d.plain[d.skip(inner)] != ',' {
			parts = append(parts, splice{inner, inner, ","})
		}
		if !ownLine {
			text = " " + text
		}
	}
	nl := d.newline()
	switch {
	case ownLine:
		parts = append(parts, splice{line, line, indent + text + nl})
	case expand:
		parts = append(parts, splice{v.StartOffset + 1, end, nl + indent + text + nl + outer})
	default:
		p := v.StartOffset + 1 + len(bytes.TrimRight(d.text[v.StartOffset+1:end], " \t"))
		parts = append(parts, splice{p, p, text})
	}
	return d.edit(parts...), nil
}

// Prepend returns the ways to put a first member into an object, the best first:
// no byte of the other members changes, not even a comma. So many levels of objects
// in the value stand on lines of their own, where the object itself does. Comments
// may take in what an edit adds: the caller reads the text again.
func (d *Doc) Prepend(obj Value, name string, value any, levels int) ([]Edit, error) {
	v, err := encode(value)
	if err != nil {
		return nil, err
	}
	member := func(indent string, levels int) string { return quote(name) + ": " + d.render(v, indent, levels) }
	open, nl := obj.StartOffset+1, d.newline()
	if first := firstStart(obj); first > 0 {
		if d.lineStart(first) <= obj.StartOffset {
			pad := string(d.text[open : first-len(bytes.TrimLeft(d.text[open:first], " \t"))])
			return []Edit{{At: open, New: pad + member("", 0) + ","}, {At: open, New: member("", 0) + ", "}}, nil
		}
		indent := d.indentOf(first)
		line := indent + member(indent, levels) + ","
		end := open + bytes.IndexByte(d.text[open:], '\n') + 1
		return []Edit{{At: end, New: line + nl}, {At: open, New: nl + line}}, nil
	}
	inner := string(d.text[open : obj.EndOffset-1])
	outer := d.indentOf(obj.EndOffset - 1)
	if !strings.Contains(inner, "\n") {
		outer = d.indentOf(obj.StartOffset)
	}
	indent := outer + d.unit()
	own := nl + indent + member(indent, levels)
	switch {
	case d.flat(d.Root) && obj.StartOffset != d.Root.StartOffset:
		return []Edit{{At: open, New: member("", 0)}, {At: open, New: own + nl + outer}}, nil
	case strings.Contains(inner, "\n"):
		return []Edit{{At: open, New: own}}, nil
	case strings.TrimSpace(inner) == "":
		return []Edit{{At: open, Old: inner, New: own + nl + outer}}, nil
	}
	return []Edit{{At: open, New: own + nl + outer}}, nil
}

// Remove takes a member out of an object, with its comma, and its line if nothing
// else stands on it. Comments stay.
func (d *Doc) Remove(m Member) Edit { return d.cut(m.Name.StartOffset, m.Value.EndOffset) }

// RemoveItem takes an element out of a list as Remove takes a member out of an object.
func (d *Doc) RemoveItem(v Value) Edit { return d.cut(v.StartOffset, v.EndOffset) }

// cut takes out what stands from one offset to another between commas.
func (d *Doc) cut(from, to int) Edit {
	var parts []splice
	after := d.skip(to)
	before := len(bytes.TrimRight(d.plain[:from], " \t\r\n")) - 1
	switch {
	case d.plain[after] == ',' && blank(d.text[to:after]):
		to = after + 1
	case d.plain[after] == ',' && d.text[after-1] == ' ' && d.text[after+1] == ' ': // one is enough
		parts = append(parts, splice{after, after + 2, ""})
	case d.plain[after] == ',':
		parts = append(parts, splice{after, after + 1, ""})
	case d.plain[before] == ',' && blank(d.text[before+1:from]):
		return d.edit(splice{before, to, ""})
	case d.plain[before] == ',':
		parts = append(parts, splice{before, before + 1, ""})
	}
	line, rest := d.lineStart(from), d.text[to:]
	if end := bytes.IndexByte(rest, '\n'); end >= 0 && blank(d.text[line:from]) && blank(rest[:end]) {
		from, to = line, to+end+1
	} else if next := bytes.TrimLeft(rest, " \t"); next[0] != '}' && next[0] != ']' {
		to += len(rest) - len(next)
	}
	own := splice{from, to, ""}
	if len(parts) > 0 && parts[0].from < from {
		return d.edit(parts[0], own)
	}
	return d.edit(append([]splice{own}, parts...)...)
}

// skip is the offset of what follows, after space and comments.
func (d *Doc) skip(at int) int {
	return at + len(d.plain[at:]) - len(bytes.TrimLeft(d.plain[at:], " \t\r\n"))
}

// splice is one replacement in a text.
type splice struct {
	from, to int
	text     string
}

// edit makes one edit of replacements, which do not overlap and are in order.
func (d *Doc) edit(parts ...splice) Edit {
	first, last := parts[0].from, parts[len(parts)-1].to
	var now []byte
	at := first
	for _, p := range parts {
		now = append(append(now, d.text[at:p.from]...), p.text...)
		at = p.to
	}
	return Edit{At: first, Old: string(d.text[first:last]), New: string(now)}
}

func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }
