package keys

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// Map binds keys to actions. It is read-only once made.
type Map struct {
	actions map[string][]Action // by key
	keys    map[Action][]string
}

// fixed are actions that keep their keys: without them a person could be shut
// in, or decide with a key that types.
var fixed = []Action{QuitNow, Open, Back}

// noDecision are keys on which no decision may lie: they are pressed without
// looking.
var noDecision = []string{"enter", "space", "esc", "tab", "shift+tab", "up", "down", "left", "right"}

// decisions are the actions that decide.
var decisions = []Action{Approve, ApproveRemember, Deny, Abort, Halt}

// named are the keys with a name; others are one character, perhaps with ctrl+
// or alt+ before it.
var named = []string{
	"space", "enter", "esc", "tab", "shift+tab", "up", "down", "left", "right", "home", "end", "pgup", "pgdown",
	"backspace", "delete", "insert", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// New returns the default bindings changed by a person's: each action that is
// named there has exactly the keys that are listed, none for an empty list. All
// that is wrong, actions and keys that are not known and keys with two meanings
// in the same place, is one core.CodeInvalidConfig.
func New(custom map[string][]string) (*Map, error) {
	m := &Map{actions: map[string][]Action{}, keys: map[Action][]string{}}
	var faults []core.Fault
	wrong := func(action, format string, args ...any) {
		faults = append(faults, core.Fault{Path: "/tui/keys/" + core.Visible(action, 40, false), Message: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		switch {
		case !slices.Contains(names(), name):
			wrong(name, "no action is called %q%s", core.Visible(name, 40, false), core.Suggest(name, names()))
		case slices.Contains(fixed, Action(name)):
			wrong(name, "the keys of %s cannot be changed", name)
		}
		for _, key := range custom[name] {
			if !valid(key) {
				wrong(name, "%q is no key; use one character, ctrl+ or alt+ with one, or one of %s", core.Visible(key, 20, false), strings.Join(named, ", "))
			} else if slices.Contains(decisions, Action(name)) && slices.Contains(noDecision, key) {
				wrong(name, "a decision cannot lie on %s, which is pressed without looking", key)
			}
		}
	}
	used := map[string][]binding{}
	for _, b := range bindings {
		own, changed := custom[string(b.action)]
		if !changed || slices.Contains(fixed, b.action) {
			own = b.keys
		}
		m.keys[b.action] = own
		for _, key := range own {
			for _, other := range used[key] {
				if other.scope&b.scope != 0 && other.action != b.action {
					wrong(string(b.action), "%s is the key of %s already, in the same place", core.Visible(key, 20, false), other.action)
				}
			}
			used[key] = append(used[key], b)
			m.actions[key] = append(m.actions[key], b.action)
		}
	}
	if len(faults) > 0 {
		err := core.Errorf(core.CodeInvalidConfig, "the keys of the terminal cannot be used as configured")
		err.Faults = faults
		return nil, err
	}
	return m, nil
}

// valid reports whether a text names a key.
func valid(key string) bool {
	if slices.Contains(named, key) {
		return true
	}
	rest, ctrl := strings.CutPrefix(key, "ctrl+")
	if !ctrl {
		rest, _ = strings.CutPrefix(key, "alt+")
	}
	r, size := utf8.DecodeRuneInString(rest)
	if size != len(rest) || size == 0 || r == utf8.RuneError || core.Visible(rest, 0, false) != rest || r == ' ' {
		return false
	}
	return !ctrl || r >= 'a' && r <= 'z'
}

func names() []string {
	out := make([]string, len(bindings))
	for i, b := range bindings {
		out[i] = string(b.action)
	}
	return out
}

// Actions returns what a key may mean, in the order in which they are tried.
// The slice is the map's own. Pasted text never means anything.
func (m *Map) Actions(k Key) []Action {
	if k.Paste {
		return nil
	}
	return m.actions[k.Name]
}

// Keys returns the keys of an action, the one to show first. The slice is the
// map's own; it may be empty.
func (m *Map) Keys(a Action) []string { return m.keys[a] }

// Label says what an action does, in a few words.
func Label(a Action) string {
	for _, b := range bindings {
		if b.action == a {
			return b.label
		}
	}
	return ""
}

// Where names the panels in which an action means something; empty where it is all of them.
func Where(a Action) string {
	for _, b := range bindings {
		if b.action != a || b.scope == everywhere {
			continue
		}
		var names []string
		for _, in := range scopeNames {
			if b.scope&in.scope != 0 {
				names = append(names, in.name)
			}
		}
		return strings.Join(names, ", ")
	}
	return ""
}

// All lists the actions in the order in which help shows them.
func All() []Action {
	out := make([]Action, len(bindings))
	for i, b := range bindings {
		out[i] = b.action
	}
	return out
}

// Schema is the JSON schema of the configuration's keys: for each action a list
// of keys, with what it does and what its keys are without it.
func Schema() json.RawMessage {
	properties := map[string]any{}
	for _, b := range bindings {
		if slices.Contains(fixed, b.action) {
			continue
		}
		properties[string(b.action)] = map[string]any{
			"description": b.label, "type": "array", "items": map[string]any{"type": "string"}, "default": b.keys,
		}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tui.keys", "type": "object",
		"properties": properties, "additionalProperties": false,
	}, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return raw
}
