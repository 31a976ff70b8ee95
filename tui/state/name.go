package state

import "github.com/casys-ai/pml/core"

// idRunes is how long an id may be on a screen.
const idRunes = 200

// Name returns what to call a run on a screen: one line, safe to show, never its kind
// or its id.
func Name(r core.Run) string { return r.Title() }
