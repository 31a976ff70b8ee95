package hosts

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// tomlText is a configuration of Codex. Only whole lines are changed: pml's own
// table is put at the end, replaced or taken out.
type tomlText struct {
	t       Target
	text    []byte
	root    value
	servers value
}

func (t Target) openTOML(text []byte) (document, error) {
	doc, fault := parseTOML(text)
	if fault != nil {
		return nil, t.refused(*fault)
	}
	d := &tomlText{t: t, text: text, root: valueOf(doc, 0)}
	if doc == nil {
		d.root = value{kind: '{'}
	}
	d.servers = d.root.get(codexKey)
	if d.servers.kind != 0 && d.servers.kind != '{' {
		return nil, t.refused(core.Fault{Message: codexKey + " must be a table"})
	}
	return d, nil
}

func (d *tomlText) entry(name string) (value, bool) {
	v := d.servers.get(name)
	return v, v.kind != 0
}

func (d *tomlText) names() []string {
	var out []string
	for _, m := range d.servers.members {
		out = append(out, m.name)
	}
	return out
}

func (d *tomlText) rest() string { return restOf(d.root, codexKey) }

func (d *tomlText) set(e Entry) (Edit, error) {
	nl := jsonc.Newline(d.text)
	table := d.render(e)
	if _, ok := d.entry(ownName); ok {
		from, to, ok := d.own()
		if !ok {
			return Edit{}, d.t.refused(core.Fault{Message: "pml does not stand there as a table [mcp_servers.pml] of its own"})
		}
		old := string(d.text[from:to])
		if !strings.HasSuffix(old, "\n") {
			table = strings.TrimSuffix(table, nl)
		}
		return Edit{At: from, Old: old, New: table}, nil
	}
	before := ""
	body := bytes.TrimPrefix(d.text, bom)
	if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n")) {
		before = nl
	}
	if len(bytes.TrimSpace(body)) > 0 && !bytes.HasSuffix(body, []byte("\n\n")) && !bytes.HasSuffix(body, []byte("\n\r\n")) {
		before += nl
	}
	return Edit{At: len(d.text), New: before + table}, nil
}

func (d *tomlText) drop(instead string) (Edit, error) {
	from, to, ok := d.own()
	if !ok {
		return Edit{}, d.t.refused(core.Fault{Message: "pml does not stand there as a table [mcp_servers.pml] of its own"})
	}
	if instead != "" {
		return Edit{At: from, Old: string(d.text[from:to]), New: instead}, nil
	}
	// The blank line before it goes too.
	lines := bytes.SplitAfter(d.text[:from], []byte("\n"))
	if n := len(lines) - 2; n >= 1 && len(bytes.TrimSpace(lines[n])) == 0 {
		from -= len(lines[n])
	}
	return Edit{At: from, Old: string(d.text[from:to])}, nil
}

// own is the part of the text with pml's table and those within it; ok is false
// where they do not stand together, or as something else than tables.
func (d *tomlText) own() (from, to int, ok bool) {
	from, to = -1, len(d.text)
	ended := false
	for _, h := range tableHeaders(d.text) {
		mine := len(h.path) >= 2 && h.path[0] == codexKey && h.path[1] == ownName
		switch {
		case mine && (ended || h.list):
			return 0, 0, false
		case mine && from < 0:
			from = h.at
		case !mine && from >= 0 && !ended:
			ended, to = true, d.beforeComments(h.at)
		}
	}
	if from < 0 {
		return 0, 0, false
	}
	if !ended {
		to = d.beforeComments(to)
	}
	return from, to, to > from
}

// beforeComments is where the blank lines and comments begin that end at an
// offset: they belong to what follows.
func (d *tomlText) beforeComments(at int) int {
	for at > 0 {
		line := bytes.LastIndexByte(d.text[:at-1], '\n') + 1
		if text := bytes.TrimSpace(d.text[line:at]); len(text) > 0 && text[0] != '#' {
			break
		}
		at = line
	}
	return at
}

// render writes pml's table.
func (d *tomlText) render(e Entry) string {
	nl := jsonc.Newline(d.text)
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = tomlString(a)
	}
	out := "[" + codexKey + "." + ownName + "]" + nl + "command = " + tomlString(e.Command) + nl + "args = [" + strings.Join(args, ", ") + "]" + nl
	if len(e.Env) > 0 {
		var vars []string
		for _, name := range slices.Sorted(maps.Keys(e.Env)) {
			vars = append(vars, name+" = "+tomlString(e.Env[name]))
		}
		out += "env = { " + strings.Join(vars, ", ") + " }" + nl
	}
	return out
}

// tomlString writes a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// header is a line that begins a table.
type header struct {
	path []string
	at   int  // of its line
	list bool // [[…]]
}

// tableHeaders lists the tables of a text that was found valid before.
func tableHeaders(text []byte) []header {
	skip := len(text) - len(bytes.TrimPrefix(text, bom))
	var p unstable.Parser
	p.Reset(text[skip:])
	var out []header
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		h := header{at: -1, list: e.Kind == unstable.ArrayTable}
		for it := e.Key(); it.Next(); {
			if key := it.Node(); key != nil {
				if h.at < 0 {
					h.at = skip + int(key.Raw.Offset)
				}
				h.path = append(h.path, string(key.Data))
			}
		}
		h.at = max(bytes.LastIndexByte(text[:max(h.at, 0)], '\n')+1, skip)
		out = append(out, h)
	}
	return out
}

// tableOffsets says where the table of each server begins.
func tableOffsets(text []byte) map[string]int {
	out := map[string]int{}
	for _, h := range tableHeaders(text) {
		if len(h.path) < 2 || h.path[0] != codexKey {
			continue
		}
		if _, have := out[h.path[1]]; !have {
			out[h.path[1]] = h.at
		}
	}
	return out
}
