package gate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// Conditions are judged with the arguments that are sent, and by what is known of the
// tool; a failed one never lets a call through.
func TestConditions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ permissions, tool, args, want string }{
		"Allows":          {`{"allow":["fake:fail",{"tool":"fake:write","where":"under(args.path, 'docs')"}]}`, "fake:write", `{"path":"docs/a.md"}`, "ok"},
		"DoesNot":         {`{"allow":[{"tool":"fake:write","where":"under(args.path, 'docs')"}]}`, "fake:write", `{"path":"docs/../a.md"}`, "tool_permission"},
		"AllowFails":      {`{"allow":[{"tool":"fake:write","where":"args.n < 3"}]}`, "fake:write", `{"n":"1"}`, "tool_permission"},
		"Denies":          {`{"allow":["*"],"deny":[{"tool":"fake","where":"args.n > 3"}]}`, "fake:write", `{"n":4}`, "permission_denied"},
		"DeniesNot":       {`{"allow":["*"],"deny":[{"tool":"fake","where":"args.n > 3"}]}`, "fake:write", `{"n":3}`, "ok"},
		"DenyFails":       {`{"allow":["*"],"deny":[{"tool":"fake","where":"args.n > 3"}]}`, "fake:write", `{}`, "permission_denied"},
		"Asks":            {`{"allow":["*"],"ask":[{"tool":"fake:write","where":"has(args.force) && args.force"}]}`, "fake:write", `{"force":true}`, "tool_permission"},
		"AsksNot":         {`{"allow":["*"],"ask":[{"tool":"fake:write","where":"has(args.force) && args.force"}]}`, "fake:write", `{}`, "ok"},
		"Annotations":     {`{"allow":["*"],"deny":[{"tool":"fake","where":"!annotations.read_only"}]}`, "fake:write", `{}`, "permission_denied"},
		"AnnotationsRead": {`{"allow":["*"],"deny":[{"tool":"fake","where":"!annotations.read_only"}]}`, "fake:read", `{}`, "ok"},
		"Client":          {`{"allow":["*"],"deny":[{"tool":"fake","where":"client == 'agent-x'"}]}`, "fake:write", `{}`, "permission_denied"},
		"ClientOfScript":  {`{"allow":["*"],"deny":[{"tool":"fake","where":"client != 'run:r'"}]}`, "fake:write", `{}`, "ok"},
		"Run":             {`{"allow":[{"tool":"fake","where":"run.kind == 'code' && run.name == 'nightly' && run.depth == 0"}]}`, "fake:write", `{}`, "ok"},
		"Workspace":       {`{"allow":[{"tool":"fake","where":"workspace endsWith '/ws' && server == 'fake'"}]}`, "fake:write", `{}`, "ok"},
		"BuiltinRead":     {`{"ask":[{"tool":"workspace","where":"args.path != '.'"}]}`, "workspace:stat", `{"path":"x"}`, "tool_permission"},
		"BuiltinReadOK":   {`{"ask":[{"tool":"workspace","where":"args.path != '.'"}]}`, "workspace:stat", `{"path":"."}`, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, tt.permissions).trust().open()
			call := p.call(tt.tool, tt.args).Of(&core.Run{ID: "r", Name: "nightly", Kind: core.KindCode, RequestedBy: core.Actor{Via: core.ViaMCP, Client: core.Client{Name: "agent-x"}}})
			if name == "Client" { // the host calls the tool itself
				call.ID = core.OfferedTask
			}
			if v := p.Check(t.Context(), call); len(v.Ask) > 0 && v.Ask[0].Type == core.ApproveIntegrity { // the server is new
				p.mustApprove(v)
			}
			v := p.Check(t.Context(), call)
			got := "ok"
			switch {
			case v.Deny != nil:
				got = string(v.Deny.Code)
			case len(v.Ask) > 0:
				got = string(v.Ask[0].Type)
			}
			if got != tt.want {
				t.Errorf("%s (%v), want %s", got, v.Deny, tt.want)
			}
			if want := map[string]string{"Allows": "allow fake:write where under(args.path, 'docs')", "AsksNot": "allow *", "AnnotationsRead": "allow *"}[name]; want != "" && v.AllowedBy != want {
				t.Errorf("it is allowed by %q, want %q", v.AllowedBy, want)
			}
			if said := strings.Contains(questionOf(v), `"rule":"ask `); said != (name == "Asks" || name == "BuiltinRead") {
				t.Errorf("it names the rule that asks: %v: %s", said, questionOf(v))
			}
			if said := strings.Contains(questionOf(v), `The condition of the rule "fake:write where args.n < 3" in permissions.allow could not be evaluated`); said != (name == "AllowFails") {
				t.Errorf("it says that a condition has failed: %v", said)
			}
		})
	}
}

func questionOf(v engine.Verdict) string {
	if len(v.Ask) == 0 {
		return ""
	}
	raw, _ := json.Marshal(v.Ask[0].Context) // the texts of a question can be written
	return v.Ask[0].Description + string(raw)
}

// What a person makes of the arguments is judged again, what is only planned without
// arguments is not judged yet, and a rule that changes in the middle holds for the call.
func TestConditions_Again(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"allow":[{"tool":"workspace:write_file","where":"under(args.path, 'docs')"}],"deny":[{"tool":"workspace:write_file","where":"size(args.content) > 3"}]}`).trust().open()
	const fits, big = `{"path":"docs/a.md","content":"abc"}`, `{"path":"docs/a.md","content":"abcd"}`
	p.want("workspace:write_file", fits, "ok")
	p.want("workspace:write_file", big, "permission_denied")
	if _, err := p.Edited(t.Context(), p.call("workspace:write_file", big), nil); core.CodeOf(err) != core.CodePermissionDenied {
		t.Errorf("edited: %v", err)
	}
	if _, err := p.Call(t.Context(), p.call("workspace:write_file", big), func(string) {}); core.CodeOf(err) != core.CodePermissionDenied {
		t.Errorf("called: %v", err)
	}
	planned := p.call("workspace:write_file", fits)
	planned.Planned, planned.ArgsKnown, planned.Args = true, false, nil
	if v := p.Check(t.Context(), planned); v.Deny != nil || len(v.Ask) != 1 {
		t.Errorf("planned: %+v", v)
	}
	p.write(".pml.json", strings.Replace(p.read(".pml.json"), `) \u003e 3`, `) \u003e 2`, 1))
	if _, err := p.Call(t.Context(), p.call("workspace:write_file", fits), func(string) {}); core.CodeOf(err) != core.CodePermissionDenied {
		t.Errorf("a stricter rule: %v", err)
	}
}

// The error of a condition holds no value of the call.
func TestConditions_SayNoValues(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"deny":[{"tool":"workspace:stat","where":"args.path < 3"}]}`).trust().open()
	v := p.want("workspace:stat", `{"path":"hunter2"}`, "permission_denied")
	raw, err := json.Marshal(v.Deny)
	if err != nil || strings.Contains(string(raw), "hunter2") || !strings.Contains(string(raw), "cannot be evaluated") {
		t.Errorf("%s %v", raw, err)
	}
}
