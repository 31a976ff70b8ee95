package gate

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/where"
)

// ruled is a call as rules see it. hints are those of its tool; nil: the tool is not
// known yet. The conditions of a call whose arguments are not known match nothing.
func (s *settings) ruled(call engine.Call, hints *core.Annotations) policy.Call {
	out := policy.Call{Tool: call.Tool}
	if call.ArgsKnown && s.policy.Conditional() {
		out.Facts = s.facts(call, hints)
	}
	return out
}

func (s *settings) facts(call engine.Call, hints *core.Annotations) func() policy.Facts {
	return func() policy.Facts {
		f := policy.Facts{ToolKnown: hints != nil}
		f.Args = call.Args
		if args, err := where.Decode(call.Args); err == nil { // else each condition has failed
			f.Args = args
		}
		if hints != nil {
			f.Annotations = *hints
		}
		f.Client = ClientOf(call)
		f.Owner, f.Workspace = call.Owner, s.all.Workspace.Dir
		f.Run = where.Run{Name: call.RunName, Kind: string(call.Kind), Depth: call.Depth}
		return f
	}
}

// denies is the refusal of a call by a rule with a condition; nil where none denies
// it. Rules without one have been applied before (forbidden).
func (s *settings) denies(call engine.Call, hints *core.Annotations) *core.Error {
	if !s.policy.Conditional() {
		return nil
	}
	if v, denied := s.policy.Denied(s.ruled(call, hints)); denied {
		return deniedBy(call.Tool, v)
	}
	return nil
}

func deniedBy(tool string, v policy.Verdict) *core.Error {
	rule := core.Visible(v.Rule, 300, false)
	if v.Failed != nil && v.Failed.Rule == v.Rule {
		return core.Errorf(core.CodePermissionDenied, "%s is denied: the condition of the rule %q in permissions.deny cannot be evaluated for this call: %w", tool, rule, v.Failed.Err)
	}
	return core.Errorf(core.CodePermissionDenied, "%s is denied by the rule %q in permissions.deny", tool, rule)
}

// ruleShown names the rule of a verdict with its list, as it is shown: "allow memory:*".
func (s *settings) ruleShown(v policy.Verdict) string {
	return core.Visible(s.redact.String(strings.TrimSpace(v.List+" "+v.Rule)), 300, false)
}

// byRule says on a question which rule asks it, and that a condition could not be evaluated,
// which is why it is asked or may be.
func (s *settings) byRule(ask engine.Ask, v policy.Verdict) engine.Ask {
	if context, ok := ask.Context.(map[string]any); ok && v.Effect == policy.Ask && v.Rule != "" {
		context["rule"] = s.ruleShown(v)
	}
	if f := v.Failed; f != nil {
		ask.Description += fmt.Sprintf(" The condition of the rule %q in permissions.%s could not be evaluated for this call: %s.", core.Visible(f.Rule, 300, false), f.List, core.Visible(core.AsError(f.Err).Message, 300, false))
	}
	return ask
}
