package dag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

// builtin is the server of pml itself: its tools return what their schemas say.
const builtin = "workspace"

// Misfits finds references that the schemas of tools speak against: a path to what the
// output of a tool does not have, and a whole reference to a value of another type than the
// argument takes. Of arguments with references it also finds names that the tool does not take, or lacks:
// their values cannot be checked before they are known, and so nothing else checks them. tools gives a tool as far as it is known; a schema that leaves a place open
// says nothing of it.
//
// It is a fault where the schema of the output is closed (additionalProperties is false) or
// that of pml's own tool, and a warning otherwise: the server may return more than it says.
func (g *Graph) Misfits(tools func(tool string) (core.Tool, bool)) (faults []core.Fault, warnings []core.PlanNote) {
	m := misfits{g: g, known: map[string]core.Tool{}, tools: tools}
	for i := range g.tasks {
		if len(g.refs[i]) > 0 {
			m.task(i)
		}
	}
	return m.faults, m.warnings
}

type misfits struct {
	g        *Graph
	tools    func(string) (core.Tool, bool)
	known    map[string]core.Tool
	faults   []core.Fault
	warnings []core.PlanNote
}

// tool is the tool that a task calls; its schemas are empty where they are not known.
func (m *misfits) tool(task int) core.Tool {
	spec := &m.g.tasks[task]
	if spec.Type != "" && spec.Type != core.TypeTool {
		return core.Tool{}
	}
	t, ok := m.known[spec.Tool]
	if !ok {
		t, _ = m.tools(spec.Tool)
		m.known[spec.Tool] = t
	}
	return t
}

// task looks at the references of one task.
func (m *misfits) task(i int) {
	input := readSchema(m.tool(i).InputSchema)
	m.names(i, input)
	places := placesOf(m.g.tasks[i].Arguments)
	for _, h := range m.g.refs[i] {
		at, placed := places[h.start]
		for _, p := range h.parts {
			if p.ref == nil {
				continue
			}
			wanted := input.below(at)
			if !h.whole || !placed {
				wanted = schema{}
			}
			m.reference(i, p.ref, at, wanted)
		}
	}
}

// names looks at the names of the arguments of one task.
func (m *misfits) names(i int, input schema) {
	var args map[string]json.RawMessage
	if json.Unmarshal(m.g.tasks[i].Arguments, &args) != nil {
		return // the whole of them is a reference
	}
	tool := core.Visible(m.g.tasks[i].Tool, 120, false)
	fault := func(format string, of ...any) {
		m.faults = append(m.faults, core.Fault{Path: fmt.Sprintf("/tasks/%d/arguments", i), Message: fmt.Sprintf(format, of...)})
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if _, ok := input.properties[name]; !ok && input.closed {
			fault("%s takes no %s%s", tool, core.Visible(name, 80, false), core.Suggest(name, input.names()))
		}
	}
	for _, name := range input.required {
		if args[name] == nil {
			fault("%s needs %s", tool, core.Visible(name, 80, false))
		}
	}
}

// reference looks at one reference; wanted is the schema of the place that its value goes to.
func (m *misfits) reference(i int, r *ref, at []step, wanted schema) {
	tool := m.tool(r.task)
	output := readSchema(tool.OutputSchema)
	certain := output.closed || tool.Server == builtin
	say := func(certain bool, format string, args ...any) {
		text := fmt.Sprintf("%s: ", r) + fmt.Sprintf(format, args...)
		if !certain {
			m.warnings = append(m.warnings, core.PlanNote{Message: label(&m.g.tasks[i]) + ": " + text, CallID: m.g.tasks[i].ID})
			return
		}
		m.faults = append(m.faults, core.Fault{Path: fmt.Sprintf("/tasks/%d/arguments", i) + pointerTo(at), Message: text})
	}
	seen := m.g.tasks[r.task].ID
	for _, s := range r.path {
		next, missing := output.step(s)
		if missing {
			say(certain && !output.mayHave(s), "%s returns no %s in %s, which is %s%s", core.Visible(tool.ID(), 120, false), s, seen, output.text(), core.Suggest(s.key, output.names()))
			return
		}
		output = next
		seen += s.suffix()
	}
	if wanted.takes(output) {
		return
	}
	hint := ""
	if fits := output.fitting(wanted); len(fits) == 1 {
		hint = " (did you mean ${" + seen + step{key: fits[0], isKey: true}.suffix() + "}?)"
	}
	say(certain, "it is %s, and %s of %s takes %s%s", output.text(), placeText(at), core.Visible(m.g.tasks[i].Tool, 120, false), wanted.text(), hint)
}

// placeText names a place in arguments.
func placeText(at []step) string {
	text := ""
	for _, s := range at {
		text += s.suffix()
	}
	if text == "" {
		return "the whole of the arguments"
	}
	return strings.TrimPrefix(text, ".")
}

// pointerTo is a path as a JSON pointer.
func pointerTo(at []step) string {
	var b strings.Builder
	for _, s := range at {
		key := strconv.Itoa(s.index)
		if s.isKey {
			key = pointer(s.key)
		}
		b.WriteString("/" + key)
	}
	return b.String()
}

// placesOf is where in arguments each text stands, by the byte it begins at.
func placesOf(args json.RawMessage) map[int][]step {
	out := map[int][]step{}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber() // of any size
	var value func(at []step) bool
	value = func(at []step) bool {
		from := int(dec.InputOffset())
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		switch tok := tok.(type) {
		case string:
			if n := bytes.IndexByte(args[from:], '"'); n >= 0 {
				out[from+n] = at
			}
		case json.Delim:
			for n := 0; dec.More(); n++ {
				s := step{index: n}
				if tok == '{' {
					key, err := dec.Token()
					if err != nil {
						return false
					}
					s.key, s.isKey = key.(string)
				}
				if !value(append(slices.Clip(at), s)) {
					return false
				}
			}
			_, err = dec.Token()
		}
		return err == nil
	}
	value(nil)
	return out
}

// schema is what a JSON schema certainly says of a value; the zero value says nothing.
type schema struct {
	types      []string // empty: any
	properties map[string]json.RawMessage
	required   []string
	items      json.RawMessage
	closed     bool // there are no other properties
	open       bool // it is said, or may be said elsewhere in the schema, that there are others
}

// kinds are the types of JSON schemas.
var kinds = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// readSchema reads what is certain in a schema: keywords that stand beside each other all
// hold, so one that is not read here can only narrow it.
func readSchema(raw json.RawMessage) schema {
	var words map[string]json.RawMessage
	if json.Unmarshal(raw, &words) != nil || words["$ref"] != nil {
		return schema{}
	}
	var s schema
	var one string
	if json.Unmarshal(words["type"], &one) == nil {
		s.types = []string{one}
	} else if json.Unmarshal(words["type"], &s.types) != nil {
		s.types = nil
	}
	if slices.ContainsFunc(s.types, func(kind string) bool { return !slices.Contains(kinds, kind) }) {
		s.types = nil
	}
	if json.Unmarshal(words["properties"], &s.properties) != nil {
		s.properties = nil
	}
	if json.Unmarshal(words["required"], &s.required) != nil {
		s.required = nil
	}
	s.items = words["items"]
	s.closed = string(words["additionalProperties"]) == "false" && words["patternProperties"] == nil
	for _, word := range []string{"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "$dynamicRef"} {
		s.open = s.open || words[word] != nil && !s.closed
	}
	return s
}

// names are the properties, sorted.
func (s schema) names() []string { return slices.Sorted(maps.Keys(s.properties)) }

// is reports whether the value may be of a type.
func (s schema) is(kind string) bool { return len(s.types) == 0 || slices.Contains(s.types, kind) }

// step is the schema of a part of the value; missing is set where there seems to be none.
func (s schema) step(to step) (next schema, missing bool) {
	key, index := to.key, !to.isKey
	if index {
		key = strconv.Itoa(to.index)
	} else if _, ok := decimal(to.key); ok && to.key != "" {
		index = true // items.0 is items[0]
	}
	object, array := s.is("object"), s.is("array") && index
	switch raw, ok := s.properties[key]; {
	case object && array: // it may be either
		return schema{}, false
	case object && ok:
		return readSchema(raw), false
	case object:
		return schema{}, len(s.types) > 0 && (s.closed || !s.open && len(s.properties) > 0)
	case array:
		return readSchema(s.items), false
	}
	return schema{}, true
}

// mayHave reports whether the value can have a part that the schema does not name.
func (s schema) mayHave(step) bool { return s.is("object") && !s.closed }

// below is the schema of the place at the end of a path, empty where nothing is said of it.
func (s schema) below(path []step) schema {
	for _, to := range path {
		s, _ = s.step(to)
	}
	return s
}

// takes reports whether a value of another schema may be one of this.
func (s schema) takes(value schema) bool {
	if len(s.types) == 0 || len(value.types) == 0 {
		return true
	}
	number := func(kind string) bool { return kind == "number" || kind == "integer" }
	return slices.ContainsFunc(value.types, func(kind string) bool {
		return slices.ContainsFunc(s.types, func(want string) bool { return want == kind || number(want) && number(kind) })
	})
}

// fitting are the properties whose values another schema takes for certain.
func (s schema) fitting(wanted schema) (out []string) {
	for _, name := range s.names() {
		if p := readSchema(s.properties[name]); len(p.types) > 0 && wanted.takes(p) {
			out = append(out, name)
		}
	}
	return out
}

// text says what a value of the schema is.
func (s schema) text() string {
	if len(s.types) == 0 {
		return "any value"
	}
	var words []string
	for _, kind := range s.types {
		switch kind {
		case "null":
			words = append(words, kind)
		case "array", "integer", "object":
			words = append(words, "an "+kind)
		default:
			words = append(words, "a "+core.Visible(kind, 20, false))
		}
	}
	return strings.Join(words, " or ")
}
