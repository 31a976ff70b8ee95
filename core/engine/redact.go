package engine

import (
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Redacting is a Host that knows values which must not be shown or kept. A
// script may have such a value from its own text or input, and put it into
// what it logs, throws and returns.
type Redacting interface {
	Redact(text string) string
	RedactJSON(raw json.RawMessage) json.RawMessage
}

func (a *actor) redactText(text string) string {
	if r, ok := a.host.(Redacting); ok {
		return r.Redact(text)
	}
	return text
}

func (a *actor) redactJSON(raw json.RawMessage) json.RawMessage {
	if r, ok := a.host.(Redacting); ok {
		return r.RedactJSON(raw)
	}
	return raw
}

// redactError returns an error that is fit to be shown and kept.
func (a *actor) redactError(err *core.Error) *core.Error {
	if _, ok := a.host.(Redacting); !ok || err == nil {
		return err
	}
	e := *err
	e.Message, e.Stack = a.redactText(e.Message), a.redactText(e.Stack)
	e.Faults, e.Failures = slices.Clone(e.Faults), slices.Clone(e.Failures)
	for i := range e.Faults {
		e.Faults[i].Message = a.redactText(e.Faults[i].Message)
	}
	for i := range e.Failures {
		e.Failures[i].Error = a.redactText(e.Failures[i].Error)
	}
	return &e
}
