package gate

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// Edited is the question about a call whose arguments a person has changed, judged
// anew: what it would ask, at which risk, under which digest. What the gates refuse of
// it, and arguments that do not fit the tool, are the error. before is the context of
// the question that was asked: flows have looked at the call by then, and do not again.
func (h *Host) Edited(ctx context.Context, call engine.Call, before json.RawMessage) (engine.Ask, error) {
	call = withFlowsOf(call, before)
	s, err := h.reader.recent()
	if err != nil {
		return engine.Ask{}, err
	}
	if mark := s.redact.Mark(plain(call.Args)); mark != "" {
		return engine.Ask{}, core.Errorf(core.CodeInvalidArguments, "the arguments hold %s, which pml shows in the place of a value of .env or of a key; it would be sent as it stands: approve or deny them unchanged", core.Visible(mark, 120, false))
	}
	v := h.Check(ctx, call)
	if v.Deny != nil {
		return engine.Ask{}, v.Deny
	}
	for _, ask := range v.Ask {
		if ask.Type == core.ApproveTool {
			return ask, nil
		}
	}
	// Nobody would be asked about them; somebody is, and says yes to this.
	return s.byFlows(call, s.permission(call, core.Annotations{}, false)), nil
}

// plain is JSON without escapes that could hide a text in it.
func plain(raw json.RawMessage) string {
	var v any
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if json.Unmarshal(raw, &v) != nil || enc.Encode(v) != nil {
		return string(raw)
	}
	return out.String()
}

// Permitted reports whether the gates let a call through by now that they asked a person
// about: a rule that was written meanwhile is read. before is the context of the question.
func Permitted(ctx context.Context, h *Host, call engine.Call, before json.RawMessage) bool {
	h.reader.lookAgain()
	v := h.Check(ctx, withFlowsOf(call, before))
	return v.Known && v.Deny == nil && len(v.Ask) == 0
}
