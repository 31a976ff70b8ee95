package suggest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxSchema bounds the schemas that are read; a larger one counts as one without
// properties, whose arguments nobody can fill.
const maxSchema = 256 << 10

// schema is what suggestions need of the JSON Schema of a tool's input or output.
type schema struct {
	props    map[string]property
	names    []string // required ones first, in the schema's order, then the others
	required []string
}

// property is one property of an object.
type property struct {
	name     string
	words    []string // of its name
	types    []string
	format   string
	about    string
	items    string // type of the items of an array
	enum     []string
	fallback json.RawMessage // const or default
	required bool
}

type rawProperty struct {
	Type        json.RawMessage   `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Title       string            `json:"title"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	Items       *struct {
		Type json.RawMessage `json:"type"`
	} `json:"items"`
}

// parseSchema reads a schema as far as it is one. Parts that are something else
// than they should be are left out.
func parseSchema(raw json.RawMessage) schema {
	var doc struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   json.RawMessage            `json:"required"`
	}
	s := schema{props: map[string]property{}}
	if len(raw) > maxSchema || json.Unmarshal(raw, &doc) != nil {
		return s
	}
	var required []string
	if json.Unmarshal(doc.Required, &required) != nil {
		required = nil
	}
	for name, p := range doc.Properties {
		s.props[name] = parseProperty(name, p, slices.Contains(required, name))
	}
	for _, name := range required {
		if _, ok := s.props[name]; !ok {
			s.props[name] = property{name: name, words: nameWords(name), required: true}
		}
		if !slices.Contains(s.required, name) {
			s.required = append(s.required, name)
		}
	}
	s.names = slices.Clone(s.required)
	for _, name := range slices.Sorted(maps.Keys(s.props)) {
		if !s.props[name].required {
			s.names = append(s.names, name)
		}
	}
	return s
}

func parseProperty(name string, raw json.RawMessage, required bool) property {
	p := property{name: name, words: nameWords(name), required: required}
	var r rawProperty
	if json.Unmarshal(raw, &r) != nil {
		return p // true, or something that is not a schema
	}
	p.types, p.format, p.about = typesOf(r.Type), r.Format, r.Title+" "+r.Description
	for _, e := range r.Enum {
		var word string
		if json.Unmarshal(e, &word) == nil {
			p.enum = append(p.enum, word)
		}
	}
	if p.fallback = r.Const; len(p.fallback) == 0 {
		p.fallback = r.Default
	}
	if r.Items != nil {
		if t := typesOf(r.Items.Type); len(t) > 0 {
			p.items = t[0]
		}
	}
	return p
}

// typesOf reads "type", which is a word or a list of words.
func typesOf(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(raw, &many) != nil {
		return nil
	}
	return many
}

// is reports whether a property can hold a type. One without types can hold all.
func (p property) is(t string) bool {
	return len(p.types) == 0 || slices.Contains(p.types, t) || t == "integer" && slices.Contains(p.types, "number")
}

// text reports whether a property is a string and nothing else has been said of it.
func (p property) text() bool { return p.is("string") && len(p.enum) == 0 }

// called reports whether one of the words of a property's name is in a set.
func (p property) called(set map[string]bool) bool {
	return slices.ContainsFunc(p.words, func(w string) bool { return set[w] })
}

// words are those of all properties, for the ranking.
func (s schema) words() []string {
	var out []string
	for _, name := range s.names {
		p := s.props[name]
		out = append(out, p.words...)
		about := p.about
		if len(about) > 300 {
			about = strings.ToValidUTF8(about[:300], "")
		}
		out = append(out, words(about)...)
	}
	return out
}
