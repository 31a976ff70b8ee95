package keys

// Map binds keys to actions. It is read-only once made.
type Map struct {
	actions map[string][]Action // by key
	keys    map[Action][]string
}

// New returns the default bindings changed by a person's: each action that is
// named there has exactly the keys that are listed. All that is wrong, actions
// and keys that are not known and keys with two meanings in the same place, is
// one core.CodeInvalidConfig.
func New(custom map[string][]string) (*Map, error) {
	return &Map{actions: map[string][]Action{}, keys: map[Action][]string{}}, nil
}

// Actions returns what a key may mean, in the order in which they are tried.
func (m *Map) Actions(k Key) []Action { return m.actions[k.Name] }

// Keys returns the keys of an action, the one to show first.
func (m *Map) Keys(a Action) []string { return m.keys[a] }
