package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/policy"
)

// Trial judges calls by the permission rules as they are, and by those with one more.
// It is not safe for concurrent use.
type Trial struct {
	host      *Host
	set, with *settings
	alone     *policy.Policy                         // the pattern of the rule
	hints     map[string]map[string]core.Annotations // by server and tool; of servers that were asked
}

// CheckRule refuses a rule that is not valid: core.CodeInvalidArguments with all its faults.
func CheckRule(rule policy.Rule) error {
	_, err := policy.Compile(policy.Rules{Deny: []policy.Rule{rule}})
	if err == nil {
		return nil
	}
	out := core.Errorf(core.CodeInvalidArguments, "the rule is not valid")
	for _, f := range core.AsError(err).Faults {
		f.Path = strings.TrimPrefix(f.Path, "/permissions/deny/0")
		out.Faults = append(out.Faults, f)
	}
	return out
}

// Trial prepares to try a rule in one of the lists ("allow", "ask" or "deny"). A rule
// that is not valid is core.CodeInvalidArguments with all its faults.
func (h *Host) Trial(list string, rule policy.Rule) (*Trial, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	rules, to := s.granted.Permissions, (*[]policy.Rule)(nil)
	switch list {
	case "allow":
		to = &rules.Allow
	case "ask":
		to = &rules.Ask
	case "deny":
		to = &rules.Deny
	default:
		return nil, core.Errorf(core.CodeInvalidArguments, "there is no list %q in permissions; there are allow, ask and deny", core.Visible(list, 20, false))
	}
	if err := CheckRule(rule); err != nil {
		return nil, err
	}
	*to = append(slices.Clone(*to), rule)
	with := *s
	if with.policy, err = policy.Compile(rules); err != nil {
		return nil, err
	}
	alone, err := policy.Compile(policy.Rules{Deny: policy.Patterns(rule.Tool)})
	return &Trial{h, s, &with, alone, map[string]map[string]core.Annotations{}}, err
}

// Concerns reports whether the rule's pattern matches a tool.
func (t *Trial) Concerns(tool string) bool {
	_, yes := t.alone.Denied(policy.Call{Tool: tool})
	return yes
}

// Knows reports whether the server of a tool, for which Judge was asked, has said what the
// tool is.
func (t *Trial) Knows(tool string) bool {
	server, name, _ := core.SplitTool(tool)
	_, ok := t.hints[server][name]
	return ok
}

// Judge says what the rules make of a call, and what they would make of it with the
// rule that is tried. The server of the call is started if it may be: what its tool
// says of itself counts. When it cannot be, or the context has ended, nothing is known
// of the tool.
func (t *Trial) Judge(ctx context.Context, call engine.Call) (now, then policy.Verdict) {
	var hints *core.Annotations
	server, name, _ := core.SplitTool(call.Tool)
	if t.hints[server] == nil {
		t.hints[server] = map[string]core.Annotations{}
		for _, tool := range t.host.offered(ctx, t.set, server).tools {
			t.hints[server][tool.Name] = believed(tool)
		}
	}
	if known, ok := t.hints[server][name]; ok {
		hints = &known
	}
	readOnly := hints != nil && hints.IsReadOnly()
	judge := func(s *settings) policy.Verdict {
		v := s.policy.DecideCall(s.ruled(call, hints), readOnly)
		if server == Builtin && readOnly && v.Rule == "" {
			v.Effect = policy.Allow // as judge lets it
		}
		return v
	}
	return judge(t.set), judge(t.with)
}
