package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/where"
)

// of is a call of fs:write_file with arguments; "" : they are not known.
func of(args string, toolKnown bool) policy.Call {
	c := policy.Call{Tool: "fs:write_file"}
	if args != "" {
		c.Facts = func() policy.Facts {
			yes := true
			return policy.Facts{
				ToolKnown: toolKnown,
				Call:      where.Call{Args: json.RawMessage(args), Client: "claude-code", Owner: "ann", Annotations: core.Annotations{ReadOnly: &yes}},
			}
		}
	}
	return c
}

// A rule with a condition matches where it holds. Where that cannot be told it denies
// and asks, and does not allow; where it is not known yet it does nothing.
func TestPolicy_DecideCall(t *testing.T) {
	t.Parallel()
	in := func(where string) []policy.Rule { return []policy.Rule{{Tool: "fs:write_file", Where: where}} }
	const docs, absent, annotated = `args.path startsWith "docs/"`, `args.team == "ENG"`, `annotations.read_only`
	inside, other := `{"path":"docs/a.md"}`, `{"path":"src/a.go"}`
	for name, tt := range map[string]struct {
		rules     policy.Rules
		call      policy.Call
		want      policy.Effect
		list      string // of the rule that decided
		undecided bool   // the verdict says why a condition failed
	}{
		"Allows":             {policy.Rules{Allow: in(docs)}, of(inside, true), policy.Allow, "allow", false},
		"AllowsNot":          {policy.Rules{Allow: in(docs)}, of(other, true), policy.Ask, "", false},
		"AllowFails":         {policy.Rules{Allow: in(absent)}, of(inside, true), policy.Ask, "", true},
		"AllowUnknown":       {policy.Rules{Allow: in(docs)}, of("", true), policy.Ask, "", false},
		"AllowNoArguments":   {policy.Rules{Allow: in(docs)}, of("null", true), policy.Ask, "", true},
		"AllowNoJSON":        {policy.Rules{Allow: in(docs)}, of("{", true), policy.Ask, "", true},
		"AllowDoubled":       {policy.Rules{Allow: in(docs)}, of(`{"path":"/etc/x","path":"docs/a"}`, true), policy.Ask, "", true},
		"DenyDoubled":        {policy.Rules{Allow: policy.Patterns("*"), Deny: in(docs)}, of(`{"path":"docs/a","path":"x"}`, true), policy.Deny, "deny", true},
		"Denies":             {policy.Rules{Allow: policy.Patterns("*"), Deny: in(docs)}, of(inside, true), policy.Deny, "deny", false},
		"DeniesNot":          {policy.Rules{Allow: policy.Patterns("*"), Deny: in(docs)}, of(other, true), policy.Allow, "allow", false},
		"DenyFails":          {policy.Rules{Allow: policy.Patterns("*"), Deny: in(absent)}, of(inside, true), policy.Deny, "deny", true},
		"DenyUnknown":        {policy.Rules{Allow: policy.Patterns("*"), Deny: in(docs)}, of("", true), policy.Allow, "allow", false},
		"Asks":               {policy.Rules{Allow: policy.Patterns("fs"), Ask: in(docs)}, of(inside, true), policy.Ask, "ask", false},
		"AsksNot":            {policy.Rules{Allow: policy.Patterns("fs"), Ask: in(docs)}, of(other, true), policy.Allow, "allow", false},
		"AskFails":           {policy.Rules{Allow: policy.Patterns("fs"), Ask: in(absent)}, of(inside, true), policy.Ask, "ask", true},
		"AskFailsReadOnly":   {policy.Rules{Ask: in(absent), ReadOnly: "allow"}, of(inside, true), policy.Ask, "ask", true},
		"TieOfConditions":    {policy.Rules{Allow: in(docs), Ask: in(docs)}, of(inside, true), policy.Ask, "ask", false},
		"ExceptionFromAsk":   {policy.Rules{Allow: in(docs), Ask: policy.Patterns("fs:write_file")}, of(inside, true), policy.Allow, "allow", false},
		"NoException":        {policy.Rules{Allow: in(docs), Ask: policy.Patterns("fs:write_file")}, of(other, true), policy.Ask, "ask", false},
		"PatternGoesFirst":   {policy.Rules{Allow: []policy.Rule{{"fs", docs}}, Ask: policy.Patterns("fs:write_*")}, of(inside, true), policy.Ask, "ask", false},
		"FailedDoesNotHide":  {policy.Rules{Allow: append(policy.Patterns("fs:write_*"), in(absent)...)}, of(inside, true), policy.Allow, "allow", false},
		"ToolNotKnownAllow":  {policy.Rules{Allow: in(annotated)}, of(inside, false), policy.Ask, "", false},
		"ToolNotKnownDeny":   {policy.Rules{Allow: policy.Patterns("*"), Deny: in(annotated)}, of(inside, false), policy.Allow, "allow", false},
		"ToolKnownDeny":      {policy.Rules{Allow: policy.Patterns("*"), Deny: in(annotated)}, of(inside, true), policy.Deny, "deny", false},
		"ToolAndServer":      {policy.Rules{Allow: in(`server == "fs" && tool == "write_file"`)}, of(inside, true), policy.Allow, "allow", false},
		"ClientAndOwner":     {policy.Rules{Allow: in(`client == "claude-code" && owner == "ann"`)}, of(inside, true), policy.Allow, "allow", false},
		"ReadOnlyBeatsNoAsk": {policy.Rules{Ask: in(docs), ReadOnly: "allow"}, of(other, true), policy.Allow, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustCompile(t, tt.rules)
			v := p.DecideCall(tt.call, true)
			if v.Effect != tt.want || v.List != tt.list || (v.Failed != nil) != tt.undecided {
				t.Errorf("%+v", v)
			}
			if _, denied := p.Denied(tt.call); denied != (tt.want == policy.Deny) {
				t.Errorf("denied: %v", denied)
			}
		})
	}
}

// A verdict names the rule whose condition failed: its own, before any other.
func TestPolicy_DecideCall_Failed(t *testing.T) {
	t.Parallel()
	const tool, absent, other = "fs:write_file", "args.none == 1", "args.nothing == 1"
	call := of(`{"path":"docs/a.md"}`, true)
	for name, tt := range map[string]struct {
		rules      policy.Rules
		rule, list string
	}{
		"Own":          {policy.Rules{Deny: []policy.Rule{{tool, absent}}}, policy.Rule{Tool: tool, Where: absent}.String(), "deny"},
		"Another's":    {policy.Rules{Ask: policy.Patterns(tool), Allow: []policy.Rule{{tool, absent}}}, policy.Rule{Tool: tool, Where: absent}.String(), "allow"},
		"OwnOfSeveral": {policy.Rules{Ask: []policy.Rule{{tool, absent}}, Allow: []policy.Rule{{tool, other}}}, policy.Rule{Tool: tool, Where: absent}.String(), "ask"},
		"Beaten":       {policy.Rules{Deny: []policy.Rule{{"fs", absent}, {tool, "true"}}}, policy.Rule{Tool: "fs", Where: absent}.String(), "deny"},
	} {
		v := mustCompile(t, tt.rules).DecideCall(call, false)
		if v.Failed == nil || v.Failed.Rule != tt.rule || v.Failed.List != tt.list || v.Failed.Err == nil {
			t.Errorf("%s: %+v, %+v", name, v, v.Failed)
		}
	}
}

// All faults are named with their place, those of conditions too.
func TestCompile_Conditions(t *testing.T) {
	t.Parallel()
	_, err := policy.Compile(policy.Rules{
		Allow: []policy.Rule{{"fs", "args.a == 1"}, {"fs:[", `args.b == 1 && nothing("x")`}, {"fs", "result.x == 1"}},
		Deny:  []policy.Rule{{"fs", "args.a =="}, {"fs", "1"}, {"fs", " "}},
	})
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig {
		t.Fatal(err)
	}
	var got []string
	for _, f := range e.Faults {
		message, _, _ := strings.Cut(f.Message, ":")
		got = append(got, f.Path+" "+message)
	}
	want := []string{
		"/permissions/deny/0/where the condition is not valid at its character 9",
		"/permissions/deny/1/where the condition is not valid at its character 1",
		"/permissions/deny/2/where the condition is not valid",
		"/permissions/allow/1/tool malformed pattern \"fs",
		"/permissions/allow/1/where the condition is not valid at its character 16",
		"/permissions/allow/2/where the condition is not valid at its character 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRule_JSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"fs:*"`, `"a<b"`, `{"tool":"fs:write","where":"args.n < 3 && args.s == 'x'"}`} {
		var r policy.Rule
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		raw, err := r.MarshalJSON()
		if err != nil || string(raw) != text {
			t.Errorf("%s became %s, %v", text, raw, err)
		}
	}
}

// Thirty rules of a tool whose conditions all have to be evaluated.
func BenchmarkPolicy_DecideCall(b *testing.B) {
	args := json.RawMessage(`{"team":"ENG","body":"` + strings.Repeat("text ", 200) + `","labels":["a","b"],"path":"docs/a.md"}`)
	call := policy.Call{Tool: "linear:create_comment", Facts: func() policy.Facts {
		v, err := where.Decode(args)
		if err != nil {
			b.Fatal(err)
		}
		return policy.Facts{ToolKnown: true, Call: where.Call{Args: v}}
	}}
	for name, n := range map[string]int{"1": 1, "30": 30} {
		b.Run(name, func(b *testing.B) {
			r := policy.Rules{Deny: []policy.Rule{{"*", "size(args.body) > 5000"}}}
			for range n {
				r.Allow = append(r.Allow, policy.Rule{Tool: "linear:*", Where: `args.team == "OPS" && size(args.body) < 2000`})
			}
			p := mustCompile(b, r)
			for b.Loop() {
				if v := p.DecideCall(call, false); v.Effect != policy.Ask {
					b.Fatal(v)
				}
			}
		})
	}
}

// Conditions that always hold change nothing; rules whose condition never holds are as
// good as not there; where none can be evaluated, rules that deny and ask count and
// those that allow do not.
func TestPolicy_ConditionsAndPatterns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfN(genPattern, 0, 4)
		allow, ask, deny := patterns.Draw(t, "allow"), patterns.Draw(t, "ask"), patterns.Draw(t, "deny")
		tool, readOnly := genTool.Draw(t, "tool"), rapid.Bool().Draw(t, "readOnly")
		with := func(where string, patterns []string) (out []policy.Rule) {
			for _, p := range patterns {
				out = append(out, policy.Rule{Tool: p, Where: where})
			}
			return out
		}
		effect := func(allow, ask, deny []policy.Rule) policy.Effect {
			p, err := policy.Compile(policy.Rules{Allow: allow, Ask: ask, Deny: deny, ReadOnly: "allow"})
			if err != nil {
				t.Fatal(err)
			}
			return p.DecideCall(policy.Call{Tool: tool, Facts: func() policy.Facts { return policy.Facts{} }}, readOnly).Effect
		}
		const yes, no, fails = "true", "false", "args.x"
		plain := effect(policy.Patterns(allow...), policy.Patterns(ask...), policy.Patterns(deny...))
		if got := effect(with(yes, allow), with(yes, ask), with(yes, deny)); got != plain {
			t.Fatalf("true: %s, without conditions %s", got, plain)
		}
		never := effect(append(policy.Patterns(allow...), with(no, deny)...), append(policy.Patterns(ask...), with(no, allow)...), append(policy.Patterns(deny...), with(no, ask)...))
		if never != plain {
			t.Fatalf("false: %s, without these rules %s", never, plain)
		}
		if got, want := effect(with(fails, allow), with(fails, ask), with(fails, deny)), effect(nil, policy.Patterns(ask...), policy.Patterns(deny...)); got != want {
			t.Fatalf("failed: %s, want %s", got, want)
		}
	})
}
