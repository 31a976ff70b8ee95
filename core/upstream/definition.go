package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// A definition is read by pml and by the host that it is passed on to, and both
// must read the same, whatever a server writes: names are read exactly, nothing
// that some reader takes for another member is passed on, and all that is passed
// on is part of the tool that is compared with the one that was approved.

// The members that a definition and its annotations have.
var (
	toolMembers = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta"}
	toolHints   = []string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
)

var errNoDefinition = errors.New("a tool is no object")

// members are those of a JSON object by their exact names.
type members map[string]json.RawMessage

// readDefinition reads the definition of a tool, and makes it one that cannot
// be read otherwise: of doubled members, at any depth, the last counts and is
// kept, and those that differ from the ones of MCP in nothing but case are left
// out.
func readDefinition(server string, raw json.RawMessage) (Definition, error) {
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	if doubled(raw) {
		var err error
		if raw, err = single(raw); err != nil {
			return Definition{}, err
		}
	}
	var all members
	if err := json.Unmarshal(raw, &all); err != nil {
		return Definition{}, err
	}
	if all == nil {
		return Definition{}, errNoDefinition
	}
	odd := all.dropLike(toolMembers)
	var hints members
	if given := all["annotations"]; given != nil {
		if err := json.Unmarshal(given, &hints); err != nil {
			return Definition{}, err
		}
		if hints.dropLike(toolHints) {
			odd = true
			all["annotations"] = hints.text()
		}
	}
	if odd {
		raw = all.text()
	}
	t, err := toolOf(server, all, hints)
	return Definition{t, raw}, err
}

func toolOf(server string, all, hints members) (core.Tool, error) {
	t := core.Tool{Server: server, InputSchema: orNone(all["inputSchema"]), OutputSchema: orNone(all["outputSchema"])}
	var hinted string
	err := errors.Join(
		all.read("name", &t.Name), all.read("title", &t.Title), all.read("description", &t.Description),
		hints.read("title", &hinted),
		hints.read("readOnlyHint", &t.Annotations.ReadOnly), hints.read("destructiveHint", &t.Annotations.Destructive),
		hints.read("idempotentHint", &t.Annotations.Idempotent), hints.read("openWorldHint", &t.Annotations.OpenWorld),
	)
	if t.Title == "" {
		t.Title = hinted
	}
	t.Rest = restOf(all, hints, hinted != t.Title)
	return t, err
}

// restOf is what a definition says that a core.Tool has no field for; what says
// nothing, or what everybody assumes, is left out.
func restOf(all, hints members, titled bool) json.RawMessage {
	rest := members{}
	for name, value := range all {
		if !slices.Contains(toolMembers[:6], name) && !saysNothing(name, value) {
			rest[name] = value
		}
	}
	about := members{}
	for name, value := range hints {
		if (!slices.Contains(toolHints, name) || name == "title" && titled) && !saysNothing(name, value) {
			about[name] = value
		}
	}
	if len(about) > 0 {
		rest["annotations"] = about.text()
	}
	if len(rest) == 0 {
		return nil
	}
	return rest.text()
}

// saysNothing reports whether a member may as well be missing.
func saysNothing(name string, value json.RawMessage) bool {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return false
	}
	switch b.String() {
	case "null", "{}", "[]", `""`:
		return true
	case `{"taskSupport":"forbidden"}`:
		return name == "execution"
	}
	return false
}

// read reads a member; one that is missing or null leaves v as it is.
func (m members) read(name string, v any) error {
	if orNone(m[name]) == nil {
		return nil
	}
	return json.Unmarshal(m[name], v)
}

// dropLike drops the members whose names are among those given but for case, as
// some readers take them, and reports whether there were any.
func (m members) dropLike(names []string) bool {
	before := len(m)
	maps.DeleteFunc(m, func(name string, _ json.RawMessage) bool {
		return !slices.Contains(names, name) && slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(name, known) })
	})
	return len(m) < before
}

// orNone makes a JSON null the same as a missing value.
func orNone(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(raw, core.Null) {
		return nil
	}
	return raw
}

// text is the object, its members in order of their names.
func (m members) text() json.RawMessage {
	text, err := encoded(m)
	if err != nil {
		return nil // its members are valid JSON
	}
	return text
}

func encoded(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// doubled reports whether an object in a value, which is valid JSON, has two
// members of one name. It looks at each byte once, however deep it is nested.
func doubled(value []byte) bool {
	type level struct {
		names map[string]bool // nil for an array
		named bool            // the name of the member has passed
	}
	levels := []level{{}} // of the value itself
	for i := 0; i < len(value); i++ {
		in := &levels[len(levels)-1]
		switch value[i] {
		case '{':
			levels = append(levels, level{names: map[string]bool{}})
		case '[':
			levels = append(levels, level{})
		case '}', ']':
			levels = levels[:len(levels)-1]
		case ',':
			in.named = false
		case '"':
			end := core.StringEnd(value, i)
			if in.names != nil && !in.named {
				name := string(jsonrpc.Unquoted(value[i:end]))
				if in.names[name] {
					return true
				}
				in.names[name], in.named = true, true
			}
			i = end - 1
		}
	}
	return false
}

// single is a value with the last of its doubled members only; numbers keep
// their digits.
func single(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return encoded(v)
}
