package env

import (
	"github.com/casys-ai/pml/core/jsonc"
)

// Terminal is how pml tui looks and behaves. It is of this machine only: a
// workspace cannot say on which keys a person decides.
type Terminal struct {
	Theme  string // ansi, dark, light, modus
	ASCII  bool   // draw with ASCII characters only
	Plain  bool   // a dialogue of lines, for screen readers
	Notify string // off, bell, osc
	// Keys are the keys of actions that a person has bound anew. Their names are
	// the terminal's and are checked there.
	Keys map[string][]string
}

type terminalPart struct {
	Theme  *string             `json:"theme,omitempty"`
	ASCII  *bool               `json:"ascii,omitempty"`
	Plain  *bool               `json:"plain,omitempty"`
	Notify *string             `json:"notify,omitempty"`
	Keys   map[string][]string `json:"keys,omitempty"`
}

func (p *terminalPart) fields() []field {
	keys := sch{
		"type": "object", "additionalProperties": sch{"type": "array", "items": sch{"type": "string"}},
		"description": "The keys of an action, instead of its own. pml tui --print-keys lists the actions.",
	}
	return []field{
		{"theme", schEnum("The colours. auto are the terminal's own, and dark ones on a light background where the terminal says that it has one; ansi are its own in any case, modus those that can be told apart without red and green.", "auto", "ansi", "dark", "light", "modus"), readEnum(&p.Theme, "auto", "ansi", "dark", "light", "modus")},
		{"ascii", sch{"type": "boolean", "description": "Draw with ASCII characters only."}, readBool(&p.ASCII)},
		{"plain", sch{"type": "boolean", "description": "A dialogue of lines instead of a full screen, for screen readers."}, readBool(&p.Plain)},
		{"notify", schEnum("How to tell of what waits.", "off", "bell", "osc"), readEnum(&p.Notify, "off", "bell", "osc")},
		{"keys", keys, readKeys(&p.Keys)},
	}
}

// readTerminal reads the terminal's part, and refuses one that a workspace
// would bring.
func readTerminal(fields []field, origin Origin) func(*decoder, jsonc.Value, string) {
	read := readObject(fields)
	return func(d *decoder, v jsonc.Value, at string) {
		if origin == FromWorkspace {
			d.fault(v, at, "the terminal belongs to this machine: put it in config.json of pml's home")
			return
		}
		read(d, v, at)
	}
}

func readKeys(to *map[string][]string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		*to = map[string][]string{}
		d.members(v, at, func(name string, _, member jsonc.Value, at string) {
			(*to)[name] = d.strs(member, at)
		})
	}
}

// terminal is the home's part with its defaults.
func (m *merger) terminal(h terminalPart) Terminal {
	return Terminal{
		Theme:  pick(m, "/tui/theme", "auto", h.Theme, nil),
		ASCII:  pick(m, "/tui/ascii", false, h.ASCII, nil),
		Plain:  pick(m, "/tui/plain", false, h.Plain, nil),
		Notify: pick(m, "/tui/notify", "osc", h.Notify, nil),
		Keys:   h.Keys,
	}
}

// keys makes an empty object of missing keys: readers expect one.
func (t Terminal) keys() map[string][]string {
	if t.Keys == nil {
		return map[string][]string{}
	}
	return t.Keys
}
