package hosts

import (
	"slices"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// value is a JSON value with the offsets at which it begins and ends. The zero
// value is one that is not there.
type value struct {
	kind    byte // '{', '[', '"', '0', 't' (both booleans), 'n' (null); 0: none
	at, end int
	text    string // of a string, number or boolean
	members []member
	items   []value
}

type member struct {
	name string
	value
}

// count says how often an object has a name.
func (v value) count(name string) int {
	n := 0
	for _, m := range v.members {
		if m.name == name {
			n++
		}
	}
	return n
}

// get returns a member of an object. Of a name that stands twice the last one
// counts, as for the hosts.
func (v value) get(name string) value {
	for _, member := range slices.Backward(v.members) {
		if member.name == name {
			return member.value
		}
	}
	return value{}
}

// what names the kind of a value.
func (v value) what() string {
	switch v.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "nothing"
}

// maxDepth bounds how deep objects and lists of a host's file are nested, as
// encoding/json does.
const maxDepth = 10000

// parse reads JSON, with comments and trailing commas whichever host it is of:
// VS Code and Cursor allow them, and in the files of others they mislead
// nobody. Faults never repeat the text, which may hold a secret.
func parse(data []byte) (value, *jsonc.Doc, *core.Fault) {
	doc, wrong := jsonc.Parse(data, maxDepth)
	switch {
	case !utf8.Valid(data):
		return value{}, doc, &core.Fault{Message: "is not UTF-8 text"}
	case wrong != nil:
		f := doc.Fault(wrong.Offset, "not valid JSON from here on")
		return value{}, doc, &f
	}
	return ofJSON(doc.Root), doc, nil
}

// ofJSON is what a part of a text says.
func ofJSON(from jsonc.Value) value {
	v := value{at: from.StartOffset, end: from.EndOffset, kind: byte(from.Value.Kind())}
	switch x := from.Value.(type) {
	case *jsonc.Object:
		for _, m := range x.Members {
			v.members = append(v.members, member{jsonc.Name(m), ofJSON(m.Value)})
		}
	case *jsonc.Array:
		for _, e := range x.Elements {
			v.items = append(v.items, ofJSON(e))
		}
	case jsonc.Literal:
		if v.text = x.String(); v.kind == 'f' {
			v.kind = 't'
		}
	}
	if v.kind == 'n' {
		v.text = ""
	}
	return v
}
