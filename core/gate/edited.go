package gate

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
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

// AskedNow is an open question about a call that writes a file as it would be asked by now,
// where that file has changed since: with the difference from how the file is, its risk where that has
// become higher, and a digest of its own, which a decision names. changed is false where the file
// is as it was, and where the question does not show what is sent as it is.
func AskedNow(h *Host, ap core.Approval) (_ core.Approval, changed bool) {
	shown := map[string]json.RawMessage{}
	if json.Unmarshal(ap.Context, &shown) != nil || shown["file"] == nil {
		return ap, false
	}
	s, err := h.reader.recent()
	if err != nil {
		return ap, false
	}
	call := engine.Call{Tool: ap.Tool, Args: shown["arguments"], ArgsKnown: true}
	if call.Digest, err = core.Digest(call.Args); err != nil {
		return ap, false
	}
	now, same := s.askedNow(call, ap, shown)
	if !same || now.file == nil {
		return ap, false
	}
	file, err := json.Marshal(now.file)
	if err != nil || bytes.Equal(file, shown["file"]) {
		return ap, false
	}
	shown["file"] = file
	if !now.risk.Below(ap.Risk) {
		ap.Risk = now.risk
		shown["risk_why"], _ = json.Marshal(now.why) // a text is one
	}
	digest, err := core.DigestOf([]string{"the file has changed", ap.Digest, string(file)})
	if err != nil {
		return ap, false
	}
	if ap.Context, err = json.Marshal(shown); err != nil {
		return ap, false
	}
	ap.Digest = digest
	return ap, true
}

// judged is what a call that writes a file would do to it, and the risk of that.
type judged struct {
	file *asked.File
	risk core.Risk
	why  string
}

// askedNow judges the call of a question anew. same is false where the question is about other
// arguments than it shows, since it shows marks in the place of values.
func (s *settings) askedNow(call engine.Call, ap core.Approval, shown map[string]json.RawMessage) (now judged, same bool) {
	now.file = s.fileChange(call)
	_, tool, _ := core.SplitTool(call.Tool)
	if ofHost(call) {
		var folder string
		now.risk, now.why = s.hostRisk(tool, call.Args, now.file)
		digest, err := core.DigestOf([]string{"host", call.Tool, call.Digest, s.all.Workspace.Dir})
		if json.Unmarshal(shown["folder"], &folder) == nil && digest != ap.Digest {
			digest, err = core.DigestOf([]string{"host", call.Tool, call.Digest, folder})
		}
		return now, err == nil && digest == ap.Digest
	}
	e := s.effectOf(call.Tool, call.Args, core.Annotations{}, false, now.file)
	e.executed = ap.Once
	now.risk, now.why = e.risk()
	if !e.builtin { // what becomes of a file is not what its risk goes by
		now.risk = core.RiskLow
	}
	ask := s.permissionFor(call, e)
	if executed, err := core.DigestOf([]string{"executed", ask.Digest}); err == nil && ap.Once {
		ask.Digest = executed
	}
	return now, ask.Digest == ap.Digest
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
