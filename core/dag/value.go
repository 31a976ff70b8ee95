package dag

import (
	"encoding/json"
)

// The functions below walk JSON that is known to be valid. They never recurse
// and touch each byte once, so that a reference into a large result costs no
// more than reading it.

// stringEnd returns the offset behind the string that starts at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns the offset behind the value that starts at i.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = stringEnd(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

type span struct{ start, end int }

// container lists the members of an object or the elements of an array.
type container struct {
	elems []span
	keys  map[string]span
	order []string
}

// document is a value with the places of its members, found when first asked
// for: many references into one large result read it once.
type document struct {
	raw   json.RawMessage
	known map[int]*container
}

func newDocument(raw json.RawMessage) *document {
	return &document{raw: raw, known: map[int]*container{}}
}

// same reports whether the document was made from exactly these bytes.
func (d *document) same(raw json.RawMessage) bool {
	return len(d.raw) == len(raw) && len(raw) > 0 && &d.raw[0] == &raw[0]
}

// children returns the members of the container at an offset; nil when the
// value there is none.
func (d *document) children(at int) *container {
	if c, ok := d.known[at]; ok {
		return c
	}
	b := d.raw
	if at >= len(b) || b[at] != '{' && b[at] != '[' {
		return nil
	}
	c := &container{}
	if b[at] == '{' {
		c.keys = map[string]span{}
	}
	for i := skipSpace(b, at+1); i < len(b) && b[i] != '}' && b[i] != ']'; {
		key := ""
		if c.keys != nil {
			end := stringEnd(b, i)
			if json.Unmarshal(b[i:end], &key) != nil {
				break
			}
			i = skipSpace(b, skipSpace(b, end)+1)
		}
		s := span{i, valueEnd(b, i)}
		if s.end == s.start {
			break // not valid JSON after all
		}
		if c.keys != nil {
			if _, twice := c.keys[key]; !twice {
				c.order = append(c.order, key)
			}
			c.keys[key] = s
		} else {
			c.elems = append(c.elems, s)
		}
		if i = skipSpace(b, s.end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	d.known[at] = c
	return c
}
