package hosts

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// jsonText is a configuration in JSON, comments allowed.
type jsonText struct {
	t    Target
	text []byte
	root value
	list value // the table of servers; none: there is none yet
}

func (t Target) openJSON(text []byte) (document, error) {
	j := &jsonText{t: t, text: text}
	if j.blank() {
		j.root = value{kind: '{'}
		return j, nil
	}
	root, src, fault := parse(text)
	if fault != nil {
		return nil, t.refused(*fault)
	}
	if root.kind != '{' {
		return nil, t.refused(src.fault(root.at, "it must be an object, not %s", root.what()))
	}
	j.root, j.list = root, root.get(t.key)
	switch {
	case root.count(t.key) > 1:
		return nil, t.refused(src.fault(j.list.at, "%q stands twice in it", t.key))
	case j.list.kind != 0 && j.list.kind != '{':
		return nil, t.refused(src.fault(j.list.at, "%q must be an object, not %s", t.key, j.list.what()))
	case j.list.count(ownName) > 1:
		return nil, t.refused(src.fault(j.list.get(ownName).at, "%q stands twice in %q", ownName, t.key))
	}
	return j, nil
}

func (j *jsonText) blank() bool { return len(bytes.TrimSpace(bytes.TrimPrefix(j.text, bom))) == 0 }

func (j *jsonText) entry(name string) (value, bool) {
	v := j.list.get(name)
	return v, v.kind != 0
}

func (j *jsonText) names() []string {
	var out []string
	for _, m := range j.list.members {
		out = append(out, m.name)
	}
	return out
}

func (j *jsonText) rest() string { return restOf(j.root, j.t.key) }

// set puts a new entry before the others: then no byte of theirs changes, not
// even a comma.
func (j *jsonText) set(e Entry) (Edit, error) {
	if old, ok := j.entry(ownName); ok {
		own := j.member(ownName)
		return Edit{At: old.at, Old: string(j.text[old.at:old.end]), New: j.render(e, j.indentOf(own.nameAt), j.flat(old) && j.flat(j.root))}, nil
	}
	if j.blank() {
		body := "{" + j.newline() + j.unit() + j.table(e, j.unit(), false) + j.newline() + "}" + j.newline()
		return Edit{At: 0, Old: string(j.text), New: body}, nil
	}
	into, render := j.root, j.table
	if j.list.kind == '{' {
		into, render = j.list, func(e Entry, indent string, flat bool) string {
			return quoted(ownName) + ": " + j.render(e, indent, flat)
		}
	}
	for _, edit := range j.places(into, func(indent string, flat bool) string { return render(e, indent, flat) }) {
		if after, ok := edit.Apply(j.text); ok {
			if now, err := j.t.openJSON(after); err == nil {
				if _, there := now.entry(ownName); there {
					return edit, nil
				}
			}
		}
	}
	return Edit{}, j.t.refused(core.Fault{Message: "pml finds no place in it"})
}

// places are the ways to put a first member into an object, the best first.
func (j *jsonText) places(obj value, render func(indent string, flat bool) string) []Edit {
	open, nl := obj.at+1, j.newline()
	if len(obj.members) > 0 {
		first := obj.members[0].nameAt
		if j.lineStart(first) <= obj.at {
			pad := string(j.text[open : open+len(j.text[open:first])-len(bytes.TrimLeft(j.text[open:first], " \t"))])
			return []Edit{{At: open, New: pad + render("", true) + ","}, {At: open, New: render("", true) + ", "}}
		}
		indent := j.indentOf(first)
		line := indent + render(indent, false) + ","
		end := open + bytes.IndexByte(j.text[open:], '\n') + 1
		return []Edit{{At: end, New: line + nl}, {At: open, New: nl + line}}
	}
	inner := string(j.text[open : obj.end-1])
	outer := j.indentOf(obj.end - 1)
	if !strings.Contains(inner, "\n") {
		outer = j.indentOf(obj.at)
	}
	indent := outer + j.unit()
	own := nl + indent + render(indent, false)
	switch {
	case j.flat(j.root) && obj.at != j.root.at:
		return []Edit{{At: open, New: render("", true)}, {At: open, New: own + nl + outer}}
	case strings.Contains(inner, "\n"):
		return []Edit{{At: open, New: own}}
	case strings.TrimSpace(inner) == "":
		return []Edit{{At: open, Old: inner, New: own + nl + outer}}
	}
	return []Edit{{At: open, New: own + nl + outer}}
}

// drop takes the entry out with its comma, and its lines where nothing else
// stands on them.
func (j *jsonText) drop(instead string) (Edit, error) {
	m := j.member(ownName)
	if instead != "" {
		return Edit{At: m.at, Old: string(j.text[m.at:m.end]), New: instead}, nil
	}
	from, to := m.nameAt, m.end
	plain := j.withCommas()
	after := skipSpace(plain, to)
	before := len(bytes.TrimRight(plain[:from], " \t\r\n")) - 1
	keep := "" // what stands between the entry and its comma: comments
	switch {
	case after < len(plain) && plain[after] == ',':
		keep = strings.TrimSpace(string(j.text[to:after]))
		to = after + 1
	case before >= 0 && plain[before] == ',':
		keep = strings.TrimRight(string(j.text[before+1:from]), " \t")
		if strings.TrimSpace(keep) == "" {
			keep = ""
		}
		from = before
	}
	if line := j.lineStart(from); keep == "" && len(bytes.TrimSpace(j.text[line:from])) == 0 {
		if end := bytes.IndexByte(j.text[to:], '\n'); end >= 0 && len(bytes.TrimSpace(j.text[to:to+end])) == 0 {
			from, to = line, to+end+1
		}
	}
	return Edit{At: from, Old: string(j.text[from:to]), New: keep}, nil
}

// withCommas is the text without comments, trailing commas kept.
func (j *jsonText) withCommas() []byte {
	stripped := jsonc.Strip(j.text)
	for _, at := range stripped.Commas {
		stripped.Plain[at] = ','
	}
	return stripped.Plain
}

func skipSpace(b []byte, at int) int {
	return at + len(b[at:]) - len(bytes.TrimLeft(b[at:], " \t\r\n"))
}

func (j *jsonText) member(name string) member {
	for _, m := range j.list.members {
		if m.name == name {
			return m
		}
	}
	return member{}
}

// table is the member that holds the servers, with the entry in it.
func (j *jsonText) table(e Entry, indent string, flat bool) string {
	if flat {
		return quoted(j.t.key) + ": {" + quoted(ownName) + ": " + j.render(e, "", true) + "}"
	}
	nl, inner := j.newline(), indent+j.unit()
	return quoted(j.t.key) + ": {" + nl + inner + quoted(ownName) + ": " + j.render(e, inner, false) + nl + indent + "}"
}

// render writes the entry as an object whose last line is indented as given.
func (j *jsonText) render(e Entry, indent string, flat bool) string {
	var members []string
	if j.t.kind != "" {
		members = append(members, `"type": `+quoted(j.t.kind))
	}
	members = append(members, `"command": `+quoted(e.Command))
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = quoted(a)
	}
	members = append(members, `"args": [`+strings.Join(args, ", ")+`]`)
	if dir, ok := e.Env[workspaceVariable]; ok {
		members = append(members, `"env": {`+quoted(workspaceVariable)+": "+quoted(dir)+"}")
	}
	if flat {
		return "{" + strings.Join(members, ", ") + "}"
	}
	line := j.newline() + indent + j.unit()
	return "{" + line + strings.Join(members, ","+line) + j.newline() + indent + "}"
}

// quoted is a string of JSON; none that is written here can fail to be one.
func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (j *jsonText) flat(v value) bool { return bytes.IndexByte(j.text[v.at:v.end], '\n') < 0 }

func (j *jsonText) newline() string { return newlineOf(j.text) }

// newlineOf is how the first line of a text ends.
func newlineOf(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// unit is what the file indents by: as its first member is, else two spaces.
func (j *jsonText) unit() string {
	if m := j.root.members; len(m) > 0 && j.lineStart(m[0].nameAt) > j.root.at {
		if own := j.indentOf(m[0].nameAt); own != "" {
			return own
		}
	}
	return "  "
}

func (j *jsonText) lineStart(at int) int { return bytes.LastIndexByte(j.text[:at], '\n') + 1 }

// indentOf is the space at the beginning of an offset's line.
func (j *jsonText) indentOf(at int) string {
	line := j.text[j.lineStart(at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}
