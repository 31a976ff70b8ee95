package engine

import (
	"encoding/json"

	"github.com/casys-ai/pml/core/redact"
)

// Redacting is a Host that knows values which must not be shown or kept. A
// script may have such a value from its own text or input, and put it into
// what it logs, throws and returns.
type Redacting interface {
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// viewOf takes such values out of what a run shows and keeps.
func viewOf(host Host) redact.View {
	if r, ok := host.(Redacting); ok {
		return redact.NewView(r.Redact, r.RedactJSON)
	}
	return redact.View{}
}
