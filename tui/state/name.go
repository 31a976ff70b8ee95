package state

import "github.com/casys-ai/pml/core"

// nameRunes is how long the name of a run may be on a screen.
const nameRunes = 200

// Name returns what to call a run on a screen: its intent, or its kind and the
// short form of its id where it has none. It is one line and safe to show.
func Name(r core.Run) string { return nameOf(&r) }

func nameOf(r *core.Run) string {
	if r.Intent != "" {
		if plain(r.Intent) {
			return r.Intent
		}
		return core.Visible(r.Intent, nameRunes, false)
	}
	kind := string(r.Kind)
	if kind == "" {
		kind = "run"
	}
	return core.Visible(kind+" "+r.ID.Short(), nameRunes, false)
}

// plain reports whether core.Visible would not change a name; of most it does
// not, and there are thousands.
func plain(s string) bool {
	if len(s) > nameRunes {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
