package hook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// The events of the hook protocol of agent hosts.
const (
	preToolUse  = "PreToolUse"
	postToolUse = "PostToolUse"
)

// event is what a program, or a URL, is given: the members of the hook protocol of
// agent hosts, and behind them some of pml's own.
type event struct {
	SessionID      core.ID         `json:"session_id"`
	TranscriptPath string          `json:"transcript_path"`
	Cwd            string          `json:"cwd"`
	PermissionMode string          `json:"permission_mode"`
	Name           string          `json:"hook_event_name"`
	ToolName       string          `json:"tool_name"`
	ToolUseID      string          `json:"tool_use_id"`
	ToolInput      json.RawMessage `json:"tool_input"`
	ToolResponse   json.RawMessage `json:"tool_response,omitempty"`

	Error       *scriptError     `json:"error,omitempty"`
	Annotations core.Annotations `json:"annotations"`
	WorkflowID  core.ID          `json:"workflow_id"`
	FlowID      string           `json:"flow_id"`
	Client      string           `json:"client"`
}

func eventOf(in flow.Input) ([]byte, error) {
	server, tool := names(in.Request)
	e := event{
		SessionID: in.Request.RunID, Cwd: in.Request.Workspace, PermissionMode: "default", Name: preToolUse,
		ToolName: "mcp__" + server + "__" + tool, ToolUseID: in.Request.CallID, ToolInput: in.Request.Args,
		Annotations: in.Request.Annotations, WorkflowID: in.Request.RunID, FlowID: in.Flow.ID, Client: in.Request.Client,
	}
	if len(e.ToolInput) == 0 {
		e.ToolInput = json.RawMessage("{}")
	}
	if in.Answer != nil {
		e.Name, e.ToolResponse = postToolUse, in.Answer.Result
		if err := in.Answer.Err; err != nil {
			e.Error = &scriptError{err.Code, err.Message}
			e.ToolResponse, _ = json.Marshal(map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": err.Message}}})
		}
	}
	return json.Marshal(e)
}

// reply is what a program says on its standard output, or a URL in its answer.
type reply struct {
	Continue       *bool  `json:"continue"`
	StopReason     string `json:"stopReason"`
	SuppressOutput bool   `json:"suppressOutput"`
	SystemMessage  string `json:"systemMessage"`
	Decision       string `json:"decision"`
	Reason         string `json:"reason"`
	Specific       *struct {
		Event             string          `json:"hookEventName"`
		Decision          string          `json:"permissionDecision"`
		Reason            string          `json:"permissionDecisionReason"`
		Input             json.RawMessage `json:"updatedInput"`
		Output            json.RawMessage `json:"updatedToolOutput"`
		MCPOutput         json.RawMessage `json:"updatedMCPToolOutput"`
		AdditionalContext string          `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

// readReply reads what a program that ended well has said. Text without a brace is for
// people; what begins or holds JSON that pml does not understand may be a decision, and
// is an error.
func readReply(in flow.Input, said []byte) (out flow.Output, err error) {
	said = bytes.TrimSpace(said)
	if len(said) == 0 {
		return out, nil
	}
	if !bytes.ContainsRune(said, '{') {
		out.Console = strings.Split(string(said), "\n")
		return out, nil
	}
	var r reply
	if core.CheckKeys("what it wrote", said) != nil || !json.Valid(said) {
		return out, core.Errorf(core.CodeHookFailed, "what it wrote is no JSON object, and no plain text either: %s", core.Visible(string(said), 200, false))
	}
	if err := strict(said, &r); err != nil {
		return out, core.Errorf(core.CodeHookFailed, "pml does not understand what it answered: %w", err)
	}
	return r.output(in)
}

func (r *reply) output(in flow.Input) (out flow.Output, err error) {
	if r.SystemMessage != "" {
		out.Console = append(out.Console, r.SystemMessage)
	}
	if r.Continue != nil && !*r.Continue {
		out.Block = &flow.Block{Message: cmp.Or(r.StopReason, r.Reason)}
		return out, nil
	}
	if err := decide(in, &out, r.Decision, r.Reason); err != nil || r.Specific == nil {
		return out, err
	}
	s := r.Specific
	if s.Event != "" && s.Event != preToolUse && s.Event != postToolUse || (s.Event == postToolUse) != (in.Answer != nil) && s.Event != "" {
		return out, core.Errorf(core.CodeHookFailed, "its answer is about the event %s", core.Visible(s.Event, 40, false))
	}
	if err := decide(in, &out, s.Decision, s.Reason); err != nil || out.Block != nil {
		return out, err
	}
	if given(s.Input) {
		if in.Answer != nil {
			return out, core.Errorf(core.CodeHookFailed, "it gave updatedInput after the call was made")
		}
		out.Args = s.Input
	}
	if out.Response, err = outputOf(in, s.Output, s.MCPOutput); err != nil {
		return out, err
	}
	if s.AdditionalContext == "" {
		return out, nil
	}
	if in.Answer == nil || in.Answer.Err != nil {
		out.Console = append(out.Console, s.AdditionalContext)
		return out, nil
	}
	return out, addText(in, &out, s.AdditionalContext)
}

// decide reads a decision. Nothing that a hook allows is allowed by that: rules and
// people decide as without it.
func decide(in flow.Input, out *flow.Output, decision, reason string) error {
	switch decision {
	case "", "allow", "approve":
	case "deny", "block":
		out.Block = &flow.Block{Message: reason}
	case "ask", "defer":
		if in.Answer != nil {
			return core.Errorf(core.CodeHookFailed, "it asks for a person after the call was made")
		}
		out.Ask = &flow.Question{Message: core.Visible(reason, maxMessage, true)}
	default:
		return core.Errorf(core.CodeHookFailed, "its decision is %s; decisions are allow, deny, ask and defer", core.Visible(decision, 40, false))
	}
	return nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, core.Null) }

// outputOf is another output of a tool, which may be a whole result, its content, or
// a text.
func outputOf(in flow.Input, outputs ...json.RawMessage) (json.RawMessage, error) {
	for _, raw := range outputs {
		if !given(raw) {
			continue
		}
		if in.Answer == nil {
			return nil, core.Errorf(core.CodeHookFailed, "it gave an output of the tool before the call was made")
		}
		var err error
		switch raw[0] {
		case '"':
			raw, err = json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": raw}}})
		case '[':
			raw, err = json.Marshal(map[string]any{"content": raw})
		}
		if err != nil {
			return nil, err
		}
		return readResponse(in, raw)
	}
	return nil, nil
}

// addText adds a text to the content of a result.
func addText(in flow.Input, out *flow.Output, text string) error {
	raw := in.Answer.Result
	if len(out.Response) > 0 {
		raw = out.Response
	}
	r, err := readResult(raw)
	if err != nil {
		return err
	}
	block, err := json.Marshal(map[string]string{"type": "text", "text": text})
	if err != nil {
		return err
	}
	if r.members["content"], err = json.Marshal(append(r.content, block)); err != nil {
		return err
	}
	out.Response, err = json.Marshal(r.members)
	return err
}
