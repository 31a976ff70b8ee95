package dag

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

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
	for i := core.SkipSpace(b, at+1); i < len(b) && b[i] != '}' && b[i] != ']'; {
		key := ""
		if c.keys != nil {
			end := core.StringEnd(b, i)
			if json.Unmarshal(b[i:end], &key) != nil {
				break
			}
			i = core.SkipSpace(b, core.SkipSpace(b, end)+1)
		}
		s := span{i, core.ValueEnd(b, i)}
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
		if i = core.SkipSpace(b, s.end); i < len(b) && b[i] == ',' {
			i = core.SkipSpace(b, i+1)
		}
	}
	d.known[at] = c
	return c
}
