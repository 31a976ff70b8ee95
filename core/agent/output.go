package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

// maxFaults is how many faults of its result the model is shown.
const maxFaults = 20

// finish ends the agent with what the model said last. Where a schema was asked for, a
// text that does not match it is shown to the model once, with what is wrong; the
// second time it is the failure of the agent.
func (l *Loop) finish(text string) Step {
	if len(l.spec.OutputSchema) == 0 {
		return l.end(core.AgentEndTurn, true)
	}
	value := jsonIn(text)
	faults := l.faults(value)
	if len(faults) == 0 {
		s := l.end(core.AgentEndTurn, true)
		s.Result.Output = value
		return s
	}
	if l.mended {
		e := core.Errorf(core.CodeModelOutput, "what the model said at the end does not match the schema that was asked for, also after it was shown what is wrong")
		e.Faults = faults
		return Step{Done: true, Err: e}
	}
	l.mended = true
	var b strings.Builder
	b.WriteString("Your answer does not match the JSON schema that was asked for. Answer again with JSON and nothing else. What is wrong:")
	for _, f := range faults {
		fmt.Fprintf(&b, "\n- %s", f)
	}
	l.turns = append(l.turns, model.Message{Text: b.String()})
	return l.ask()
}

// faults are what is wrong with a result by the schema, the first of them.
func (l *Loop) faults(value json.RawMessage) []core.Fault {
	switch {
	case value == nil:
		return []core.Fault{{Message: "it is not JSON"}}
	case core.TooDeep(value):
		return []core.Fault{{Message: "it is nested too deeply"}}
	}
	faults := l.check(l.spec.OutputSchema, value)
	return faults[:min(len(faults), maxFaults)]
}

// jsonIn is the JSON that a model has written, which may stand in a fenced block of
// Markdown; nil if it is none.
func jsonIn(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if rest, fenced := strings.CutPrefix(text, "```"); fenced {
		_, rest, _ = strings.Cut(rest, "\n")
		if body, _, closed := strings.Cut(rest, "```"); closed {
			text = strings.TrimSpace(body)
		}
	}
	if !json.Valid([]byte(text)) || len(text) > maxText {
		return nil
	}
	return json.RawMessage(text)
}
