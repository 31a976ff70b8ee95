package hook

import (
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// FuzzReadReply: what a hook's program answers never changes arguments after the call, gives
// no answer before it, and leaves a result that every client can read.
func FuzzReadReply(f *testing.F) {
	for _, said := range []string{
		"", "text", "{", `{"decision": "block", "reason": "no"}`, `{"continue": false, "stopReason": "stop"}`,
		`{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}`,
		`{"hookSpecificOutput": {"updatedInput": {"a": 1}}}`, `{"hookSpecificOutput": {"updatedToolOutput": "text"}}`,
		`{"hookSpecificOutput": {"updatedMCPToolOutput": [{"type": "text", "text": "a"}], "additionalContext": "b"}}`,
		`{"hookSpecificOutput": {"updatedToolOutput": {"content": [], "structuredContent": {"a": 2}, "isError": true}}}`,
		`{"decision": "deny", "decision": "allow"}`, `{"Decision": "deny"}`, `{"decision": "deny"} {}`,
	} {
		f.Add([]byte(said), true)
		f.Add([]byte(said), false)
	}
	f.Fuzz(func(t *testing.T, said []byte, after bool) {
		in := flow.Input{Flow: &flow.Flow{Type: flow.CallTool}, Node: &flow.Node{}}
		if after {
			in.Answer = &flow.Answer{Result: json.RawMessage(`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`)}
		}
		out, err := readReply(in, said)
		if err != nil {
			if core.CodeOf(err) != core.CodeHookFailed {
				t.Errorf("%q: %v", said, err)
			}
			return
		}
		if after && (len(out.Args) > 0 || out.Ask != nil) || !after && len(out.Response) > 0 {
			t.Errorf("%q, after %v: %+v", said, after, out)
		}
		if len(out.Response) > 0 {
			if _, err := readResult(out.Response); err != nil {
				t.Errorf("%q gives %s: %v", said, out.Response, err)
			}
		}
	})
}
