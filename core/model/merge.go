package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// maxNesting is how deep parts of a value come in pieces; what is deeper comes whole.
const maxNesting = 6

// value is a JSON value that comes in pieces. Strings are kept as they are escaped, so
// that what comes out has the bytes that came in, also where a piece ends in the
// middle of a pair of escapes.
type value struct {
	kind     byte   // '"', '{', '[', 'r' for anything else, 0 for nothing yet
	text     []byte // between the quotes; of 'r' the whole value
	names    []string
	members  map[string]*value
	elements []*value
	at       map[int]*value // elements by the index that the provider gave them
}

// whole lists members that are said again and do not go on.
var whole = []string{"id", "type", "role", "name", "index"}

// merge adds a piece. Lists of objects with an index are merged by it; those without
// are appended.
func (v *value) merge(raw json.RawMessage, depth int) error {
	raw = bytes.TrimSpace(raw)
	kind := byte('r')
	if len(raw) > 0 && depth < maxNesting && (raw[0] == '"' || raw[0] == '{' || raw[0] == '[') {
		kind = raw[0]
	}
	if v.kind == 0 || v.kind == 'r' {
		*v = value{kind: kind}
	} else if kind == 'r' && bytes.Equal(raw, core.Null) {
		return nil
	} else if v.kind != kind {
		return broken("a part of the answer changed its type on the way")
	}
	switch kind {
	case '"':
		v.text = append(v.text, raw[1:len(raw)-1]...)
	case '{':
		var err error
		jsonrpc.EachMember(raw, func(name, part []byte) {
			if err == nil {
				err = v.mergeMember(string(name), part, depth)
			}
		})
		return err
	case '[':
		return v.mergeElements(raw, depth)
	default:
		v.text = slices.Clone(raw)
	}
	return nil
}

func (v *value) mergeMember(name string, part json.RawMessage, depth int) error {
	if slices.Contains(whole, name) {
		if m := v.member(name); !bytes.Equal(part, []byte(`""`)) && !bytes.Equal(part, core.Null) || m.kind == 0 {
			*m = value{kind: 'r', text: slices.Clone(part)}
		}
		return nil
	}
	return v.member(name).merge(part, depth+1)
}

func (v *value) mergeElements(raw json.RawMessage, depth int) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return broken("a list in the answer cannot be read")
	}
	for _, part := range parts {
		if err := v.element(part).merge(part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// element is the one that a piece belongs to: that with its index, else a new one.
func (v *value) element(part json.RawMessage) *value {
	var place struct {
		Index *int `json:"index"`
	}
	_ = json.Unmarshal(part, &place) // a piece that is no object has no index
	if place.Index != nil {
		if e := v.at[*place.Index]; e != nil {
			return e
		}
	}
	e := &value{}
	v.elements = append(v.elements, e)
	if place.Index != nil {
		if v.at == nil {
			v.at = map[int]*value{}
		}
		v.at[*place.Index] = e
	}
	return e
}

// member returns a member of an object, a new one if there is none.
func (v *value) member(name string) *value {
	if m := v.members[name]; m != nil {
		return m
	}
	if v.members == nil {
		v.members = map[string]*value{}
	}
	m := &value{}
	v.names, v.members[name] = append(v.names, name), m
	return m
}

// get returns a member by its path; one that is not there is empty.
func (v *value) get(path ...string) *value {
	for _, name := range path {
		if v = v.members[name]; v == nil {
			return &value{}
		}
	}
	return v
}

// string is what a string says, empty for anything else.
func (v *value) string() string {
	text := v.text
	if v.kind == '"' {
		text = slices.Concat([]byte{'"'}, text, []byte{'"'})
	}
	if len(text) == 0 || text[0] != '"' {
		return ""
	}
	var s string
	_ = json.Unmarshal(text, &s) // every piece was valid
	return s
}

// append writes the value as JSON.
func (v *value) append(b []byte) []byte {
	switch v.kind {
	case '"':
		return append(append(append(b, '"'), v.text...), '"')
	case '{':
		b = append(b, '{')
		for i, name := range v.names {
			if i > 0 {
				b = append(b, ',')
			}
			quoted, _ := json.Marshal(name) // a text always encodes
			b = append(append(b, quoted...), ':')
			b = v.members[name].append(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, e := range v.elements {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.append(b)
		}
		return append(b, ']')
	case 0:
		return append(b, core.Null...)
	}
	return append(b, v.text...)
}

// leaf keeps a value as it is; one that is a string can go on.
func leaf(raw json.RawMessage) value {
	if raw[0] == '"' {
		return value{kind: '"', text: slices.Clone(raw[1 : len(raw)-1])}
	}
	return value{kind: 'r', text: slices.Clone(raw)}
}

// push appends an element to a leaf that is a list, or nothing yet.
func (v *value) push(raw json.RawMessage) error {
	switch {
	case v.kind == 0 || bytes.Equal(v.text, core.Null):
		*v = value{kind: 'r', text: slices.Concat([]byte("["), raw, []byte("]"))}
	case v.kind != 'r' || v.text[0] != '[':
		return broken("a part of the answer changed its type on the way")
	default:
		list := bytes.TrimRight(v.text[:len(v.text)-1], " \t\r\n")
		if len(list) > 1 {
			list = append(list, ',')
		}
		v.text = append(append(list, raw...), ']')
	}
	return nil
}

// drop removes a member.
func (v *value) drop(name string) {
	delete(v.members, name)
	v.names = slices.DeleteFunc(v.names, func(n string) bool { return n == name })
}

// isObject reports whether a text is a JSON object.
func isObject(raw []byte) bool {
	text := bytes.TrimLeft(raw, " \t\r\n")
	return len(text) > 0 && text[0] == '{' && json.Valid(text)
}
