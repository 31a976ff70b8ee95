package engine

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/redact"
)

// Redacting is a Host that knows values which must not be shown or kept. A
// script may have such a value from its own text or input, and put it into
// what it logs, throws and returns.
type Redacting interface {
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// Passing is a Host with hook flows, which keep what became of the calls that they let
// pass. The engine also names those that get no answer, so that Call shows them none: they were
// refused, or their run ended first. Unanswered returns at once; a call may be named twice.
type Passing interface {
	Unanswered(call Call, err *core.Error)
}

// viewOf takes such values out of what a run shows and keeps.
func viewOf(host Host) redact.View {
	if r, ok := unbounded(host).(Redacting); ok {
		return redact.NewView(r.Redact, r.RedactJSON)
	}
	return redact.View{}
}

// unbounded is the host of a run as its workspace has it, which may do more than a Host.
func unbounded(host Host) Host {
	if bounded, ok := host.(*allowedHost); ok {
		return bounded.Host
	}
	return host
}
