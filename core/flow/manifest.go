package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
)

// schema is as much of a JSON schema as manifests use for parameters.
type schema struct {
	Properties map[string]struct {
		Type    string            `json:"type"`
		Enum    []json.RawMessage `json:"enum"`
		Default json.RawMessage   `json:"default"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// parameters checks those of a node against the manifest's schema and fills in the
// defaults. A parameter that the schema does not name is wrong.
func (m *Manifest) parameters(given json.RawMessage) (json.RawMessage, []string) {
	var s schema
	if len(m.Parameters) > 0 {
		if err := json.Unmarshal(m.Parameters, &s); err != nil {
			return nil, []string{"the parameters of the manifest " + quoted(m.Name) + " are no JSON schema of an object"}
		}
	}
	values := map[string]json.RawMessage{}
	if len(given) > 0 && json.Unmarshal(given, &values) != nil {
		return nil, []string{"the parameters must be an object"}
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		p, known := s.Properties[name]
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("there is no parameter %s%s", quoted(name), core.Suggest(name, slices.Sorted(maps.Keys(s.Properties)))))
		case !ofType(values[name], p.Type):
			wrong = append(wrong, fmt.Sprintf("the parameter %s must be of the type %s", quoted(name), quoted(p.Type)))
		case len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(e json.RawMessage) bool { return same(e, values[name]) }):
			wrong = append(wrong, fmt.Sprintf("the parameter %s must be one of %s", quoted(name), bytes.Join(rawList(p.Enum), []byte(", "))))
		}
	}
	for name, p := range s.Properties {
		if values[name] == nil && len(p.Default) > 0 {
			values[name] = p.Default
		}
	}
	for _, name := range s.Required {
		if values[name] == nil {
			wrong = append(wrong, fmt.Sprintf("the parameter %s is missing", quoted(name)))
		}
	}
	out, err := json.Marshal(values)
	if err != nil {
		wrong = append(wrong, "the parameters are no JSON")
	}
	return out, wrong
}

func rawList(list []json.RawMessage) (out [][]byte) {
	for _, raw := range list {
		out = append(out, raw)
	}
	return out
}

func same(a, b json.RawMessage) bool {
	x, err := core.Digest(a)
	y, err2 := core.Digest(b)
	return err == nil && err2 == nil && x == y
}

// ofType reports whether a value is of a type of JSON schema; empty: any.
func ofType(raw json.RawMessage, want string) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	is := ""
	switch v := v.(type) {
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	case float64:
		if is = "number"; v == float64(int64(v)) && want == "integer" {
			is = "integer"
		}
	default:
		is = "null"
	}
	return want == "" || is == want
}
