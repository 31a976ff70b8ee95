package dag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
)

// cacheFrom is the size from which the places found in a result are kept for
// the next reference; below it, reading again is as cheap.
const cacheFrom = 16 << 10

// documents keeps what is known of large results. It holds on to the bytes
// that it was given, as the caller does anyway until the run ends.
type documents struct {
	mu   sync.Mutex
	byID map[int]*document
}

// Resolve returns a task's arguments with each reference replaced by the value
// that it names. output gives the output of a finished task. Everything else,
// the literal text of numbers included, stays as it was written; absent
// arguments are {}. It may be called concurrently.
//
// A task without output, or a path that leads nowhere, is an error of
// core.CodeInvalidArguments that says what is there instead.
func (g *Graph) Resolve(id string, output func(task string) (json.RawMessage, bool)) (json.RawMessage, error) {
	i, ok := g.index[id]
	if !ok {
		return nil, core.Errorf(core.CodeInvalidArguments, "the DAG has no task %q", id)
	}
	args := g.tasks[i].Arguments
	if len(bytes.TrimSpace(args)) == 0 || string(bytes.TrimSpace(args)) == "null" {
		return json.RawMessage("{}"), nil
	}
	if len(g.refs[i]) == 0 {
		return args, nil
	}
	g.docs.mu.Lock()
	defer g.docs.mu.Unlock()
	f := filler{g: g, output: output, local: map[int]*document{}}
	var out []byte
	from := 0
	for _, h := range g.refs[i] {
		out = append(out, args[from:h.start]...)
		var err *core.Error
		if out, err = f.fill(out, h); err != nil {
			err.Message = fmt.Sprintf("the arguments of task %s: %s", id, err.Message)
			return nil, err
		}
		from = h.end
	}
	out = append(out, args[from:]...)
	if t := bytes.TrimSpace(out); len(t) == 0 || t[0] != '{' {
		return nil, core.Errorf(core.CodeInvalidArguments, "the arguments of task %s resolve to %s, not to an object", id, kindOf(t))
	}
	return out, nil
}

// filler fills the holes of one task's arguments.
type filler struct {
	g      *Graph
	output func(task string) (json.RawMessage, bool)
	local  map[int]*document
}

func (f *filler) fill(out []byte, h hole) ([]byte, *core.Error) {
	if h.whole {
		v, err := f.value(h.parts[0].ref)
		return append(out, v...), err
	}
	var b strings.Builder
	for _, p := range h.parts {
		if p.ref == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := f.value(p.ref)
		if err != nil {
			return nil, err
		}
		if err := interpolate(&b, v); err != nil {
			return nil, core.Errorf(core.CodeInvalidArguments, "%s: not valid JSON: %w", p.ref, err)
		}
	}
	return appendString(out, b.String()), nil
}

// interpolate writes a string as it is and any other value as compact JSON.
func interpolate(b *strings.Builder, v json.RawMessage) error {
	if len(v) > 0 && v[0] == '"' {
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		b.WriteString(s)
		return nil
	}
	var c bytes.Buffer
	if err := json.Compact(&c, v); err != nil {
		return err
	}
	b.Write(c.Bytes())
	return nil
}

// appendString writes a JSON string without HTML escapes: they would change
// nothing in the value but make screens hard to read.
func appendString(out []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return append(out, `""`...) // a string always encodes
	}
	return append(out, bytes.TrimRight(b.Bytes(), "\n")...)
}

func (f *filler) value(r *ref) (json.RawMessage, *core.Error) {
	doc, err := f.document(r)
	if err != nil {
		return nil, err
	}
	at, end := 0, len(doc.raw)
	seen := f.g.tasks[r.task].ID
	for _, s := range r.path {
		c := doc.children(at)
		next, ok := lookup(c, s)
		if !ok {
			return nil, core.Errorf(core.CodeInvalidArguments, "%s: there is no %s in %s, which is %s", r, s, seen, describe(c, s, doc.raw[at:end]))
		}
		at, end = next.start, next.end
		seen += s.suffix()
	}
	return doc.raw[at:end], nil
}

func (f *filler) document(r *ref) (*document, *core.Error) {
	if d := f.local[r.task]; d != nil {
		return d, nil
	}
	id := f.g.tasks[r.task].ID
	raw, ok := f.output(id)
	if !ok {
		return nil, core.Errorf(core.CodeInvalidArguments, "%s: task %s has no output: it failed, was skipped or has not finished", r, id)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		raw = core.Null
	}
	d := f.g.docs.byID[r.task]
	if d == nil || !d.same(raw) {
		if !json.Valid(raw) {
			return nil, core.Errorf(core.CodeInvalidArguments, "%s: the output of task %s is not valid JSON", r, id)
		}
		d = newDocument(raw)
		if len(raw) >= cacheFrom {
			f.g.docs.byID[r.task] = d
		}
	}
	f.local[r.task] = d
	return d, nil
}

func lookup(c *container, s step) (span, bool) {
	switch {
	case c == nil:
		return span{}, false
	case c.keys != nil:
		if !s.isKey {
			s.key = strconv.Itoa(s.index)
		}
		v, ok := c.keys[s.key]
		return v, ok
	}
	n := s.index
	if s.isKey { // items.0 is items[0]
		var ok bool
		if n, ok = decimal(s.key); !ok || s.key == "" {
			return span{}, false
		}
	}
	if n >= len(c.elems) {
		return span{}, false
	}
	return c.elems[n], true
}

// String names a step for messages.
func (s step) String() string {
	if s.isKey {
		return "key " + strconv.Quote(s.key)
	}
	return "index " + strconv.Itoa(s.index)
}

func (s step) suffix() string {
	switch {
	case !s.isKey:
		return "[" + strconv.Itoa(s.index) + "]"
	case keyRun(s.key) == len(s.key) && s.key != "":
		return "." + s.key
	}
	return "[" + strconv.Quote(s.key) + "]"
}

// describe says what is at a place where a path went wrong. Keys are foreign
// text, so they are shown quoted and only a few of them.
func describe(c *container, s step, raw []byte) string {
	const shown = 8
	switch {
	case c == nil:
		return kindOf(raw)
	case c.keys == nil:
		return fmt.Sprintf("an array of length %d", len(c.elems))
	case len(c.order) == 0:
		return "an empty object"
	}
	var b strings.Builder
	b.WriteString("an object with ")
	for i, k := range c.order {
		if i == shown {
			fmt.Fprintf(&b, " and %d more", len(c.order)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(core.Visible(k, 40, false)))
	}
	if len(c.order) <= 1000 {
		b.WriteString(core.Suggest(s.key, c.order))
	}
	return b.String()
}

func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
