package jsonc

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/tailscale/hujson"
)

// allLevels puts all objects on lines of their own.
const allLevels = math.MaxInt

// encode turns a Go value into one that can be written.
func encode(value any) (Value, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return Value{}, err
	}
	return hujson.Parse(b.Bytes())
}

// quote is a string of JSON.
func quote(s string) string {
	v, err := encode(s)
	if err != nil {
		return `""` // no string fails to be one
	}
	return string(v.Value.(Literal))
}

// item writes a member, or an element where there is no name.
func (d *Doc) item(name *string, value any, indent string, levels int) (string, error) {
	v, err := encode(value)
	if err != nil {
		return "", err
	}
	text := d.render(v, indent, levels)
	if name != nil {
		text = quote(*name) + ": " + text
	}
	return text, nil
}

// render writes a value: so many levels of objects with a line for each member, all
// else on one line.
func (d *Doc) render(v Value, indent string, levels int) string {
	var items []string
	ends := "[]"
	switch x := v.Value.(type) {
	case Literal:
		return string(x)
	case *Object:
		ends = "{}"
		for _, m := range x.Members {
			items = append(items, string(m.Name.Value.(Literal))+": "+d.render(m.Value, indent+d.unit(), levels-1))
		}
	case *Array:
		for _, e := range x.Elements {
			items = append(items, d.render(e, indent+d.unit(), levels))
		}
		levels = 0
	}
	if levels <= 0 || len(items) == 0 {
		return ends[:1] + strings.Join(items, ", ") + ends[1:]
	}
	line := d.newline() + indent
	return ends[:1] + line + d.unit() + strings.Join(items, ","+line+d.unit()) + line + ends[1:]
}

// flat reports whether a value stands on one line.
func (d *Doc) flat(v Value) bool {
	return bytes.IndexByte(d.text[v.StartOffset:v.EndOffset], '\n') < 0
}

func (d *Doc) newline() string { return Newline(d.text) }

// Newline is how the first line of a text ends.
func Newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// unit is what the text indents by: as its first member is, else two spaces.
func (d *Doc) unit() string {
	if first := firstStart(d.Root); first > 0 && d.lineStart(first) > d.Root.StartOffset {
		if own := d.indentOf(first); own != "" {
			return own
		}
	}
	return "  "
}

// lineStart is where the line of an offset begins.
func (d *Doc) lineStart(at int) int { return bytes.LastIndexByte(d.text[:at], '\n') + 1 }

// indentOf is the space at the beginning of an offset's line.
func (d *Doc) indentOf(at int) string {
	line := d.text[d.lineStart(at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// firstStart is where the first member or element begins, 0 if there is none.
func firstStart(v Value) int {
	switch x := v.Value.(type) {
	case *Object:
		if len(x.Members) > 0 {
			return x.Members[0].Name.StartOffset
		}
	case *Array:
		if len(x.Elements) > 0 {
			return x.Elements[0].StartOffset
		}
	}
	return 0
}

// lastEnd is where the last member or element ends, 0 if there is none.
func lastEnd(v Value) int {
	switch x := v.Value.(type) {
	case *Object:
		if n := len(x.Members); n > 0 {
			return x.Members[n-1].Value.EndOffset
		}
	case *Array:
		if n := len(x.Elements); n > 0 {
			return x.Elements[n-1].EndOffset
		}
	}
	return 0
}
