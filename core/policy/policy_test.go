package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/policy"
)

func mustCompile(t testing.TB, r policy.Rules) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPattern_Matches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"fs:read", []string{"fs:read"}, []string{"fs:Read", "FS:read", "fs:read2", "xfs:read", "fs", "fs:"}},
		{"fs", []string{"fs:read", "fs:a:b", "fs"}, []string{"fs2:read", "afs:read"}},
		{"f*", []string{"fs:read", "f:x"}, []string{"gfs:read"}},
		{"*", []string{"a:b", "a:b:c", "a:x\ny"}, nil},
		{"fs:*", []string{"fs:read", "fs:a:b"}, []string{"fs2:read"}},
		{"*:read_*", []string{"fs:read_file", "a:read_"}, []string{"fs:write", "fs:x:read_file"}},
		{"shell:sudo_*", []string{"shell:sudo_rm", "shell:sudo_a:b"}, []string{"shell:su", "shell:xsudo_rm"}},
		{"fs:r?ad", []string{"fs:read", "fs:röad"}, []string{"fs:rad", "fs:reead"}},
		{"f?:x", []string{"fs:x"}, []string{"f::x"}},
		{"fs:[a-c]x", []string{"fs:ax", "fs:cx"}, []string{"fs:dx", "fs:-x"}},
		{"fs:[!a-c]x", []string{"fs:dx", "fs::x"}, []string{"fs:ax"}},
		{"[!a]:x", []string{"b:x"}, []string{"a:x", "::x"}},
		{"fs:[]^.]x", []string{"fs:]x", "fs:^x", "fs:.x"}, []string{"fs:ax"}},
		{"fs:[a-]x", []string{"fs:ax", "fs:-x"}, []string{"fs:bx"}},
		{"fs:{read,write}_file", []string{"fs:read_file", "fs:write_file"}, []string{"fs:edit_file", "fs:read_fileX"}},
		{"{fs,db}", []string{"fs:x", "db:y"}, []string{"fsdb:x"}},
		{"{fs,db}:{a,b{c,d*}}", []string{"fs:a", "db:bc", "db:bdef"}, []string{"fs:b", "db:abc"}},
		{`fs:a\*b`, []string{"fs:a*b"}, []string{"fs:axb", `fs:a\*b`}},
		{"a.b:c+d", []string{"a.b:c+d"}, []string{"aXb:c+d", "a.b:ccd"}},
		{"fs:a.*", []string{"fs:a.b"}, []string{"fs:ab"}},
		{"fs:a,b", []string{"fs:a,b"}, []string{"fs:a"}},
		{"fs:a:*", []string{"fs:a:b"}, []string{"fs:ab"}},
	} {
		p := mustCompile(t, policy.Rules{Deny: policy.Patterns(c.pattern)})
		for _, tool := range c.yes {
			if _, ok := p.Denied(policy.Call{Tool: tool}); !ok {
				t.Errorf("%q does not match %q", c.pattern, tool)
			}
		}
		for _, tool := range c.not {
			if _, ok := p.Denied(policy.Call{Tool: tool}); ok {
				t.Errorf("%q matches %q", c.pattern, tool)
			}
		}
	}
}

func TestCompile_Malformed(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", " fs", "fs ", "fs:", ":x", ":", "fs:[a", "fs:a]", "fs:[", "fs:[]", "fs:{a", "fs:a}", "fs:{a,}", "fs:{}",
		"{a:b,c}", "[:]x:y", `fs:a\`, `fs\:a`, "fs:\x00", "fs:a\u202eb", "fs:\xff", "fs:[z-a]", "[z-a]",
		strings.Repeat("a", 600), strings.Repeat("{a", 20) + strings.Repeat("}", 20),
	}
	for _, list := range []string{"deny", "allow", "ask"} {
		r := policy.Rules{}
		switch list {
		case "deny":
			r.Deny = policy.Patterns(append([]string{"ok:*"}, bad...)...)
		case "allow":
			r.Allow = policy.Patterns(append([]string{"ok:*"}, bad...)...)
		default:
			r.Ask = policy.Patterns(append([]string{"ok:*"}, bad...)...)
		}
		_, err := policy.Compile(r)
		var e *core.Error
		if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig {
			t.Fatalf("%s: error %v, want invalid_config", list, err)
		}
		var got, want []string
		for _, f := range e.Faults {
			got = append(got, f.Path)
		}
		for i := range bad {
			want = append(want, fmt.Sprintf("/permissions/%s/%d", list, i+1))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
		if strings.ContainsAny(err.Error(), "\x00\u202e") {
			t.Error("a control character of a pattern is in the message")
		}
	}
	_, err := policy.Compile(policy.Rules{ReadOnly: "yes"})
	if core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "/permissions/readonly") {
		t.Errorf("readonly: %v", err)
	}
}

func TestPolicy_Decide(t *testing.T) {
	t.Parallel()
	rules := func(allow, ask, deny, readonly string) policy.Rules {
		return policy.Rules{Allow: policy.Patterns(strings.Fields(allow)...), Ask: policy.Patterns(strings.Fields(ask)...), Deny: policy.Patterns(strings.Fields(deny)...), ReadOnly: readonly}
	}
	for _, c := range []struct {
		name     string
		rules    policy.Rules
		tool     string
		readOnly bool
		want     policy.Verdict
	}{
		{"NoMatchAsks", rules("", "", "", ""), "fs:read", true, policy.Verdict{Effect: policy.Ask}},
		{"Allow", rules("fs:read", "", "", ""), "fs:read", false, policy.Verdict{policy.Allow, "fs:read", "allow", nil}},
		{"DenyBeatsExactAllow", rules("fs:read", "", "*", ""), "fs:read", true, policy.Verdict{policy.Deny, "*", "deny", nil}},
		{"DenyNamesMostSpecific", rules("", "", "* shell shell:sudo_*", ""), "shell:sudo_x", false, policy.Verdict{policy.Deny, "shell:sudo_*", "deny", nil}},
		{"ExactBeatsPrefix", rules("fs:read", "fs:rea*", "", ""), "fs:read", false, policy.Verdict{policy.Allow, "fs:read", "allow", nil}},
		{"ExactAskBeatsPrefixAllow", rules("fs:*", "fs:read", "", ""), "fs:read", false, policy.Verdict{policy.Ask, "fs:read", "ask", nil}},
		{"ExactBeatsLongerPrefix", rules(`fs:r?ad`, "fs:read", "", ""), "fs:read", false, policy.Verdict{policy.Ask, "fs:read", "ask", nil}},
		{"LongerPrefixAllows", rules("fs:read_*", "fs:*", "", ""), "fs:read_x", false, policy.Verdict{policy.Allow, "fs:read_*", "allow", nil}},
		{"TieAsks", rules("fs:*", "fs:*", "", ""), "fs:x", false, policy.Verdict{policy.Ask, "fs:*", "ask", nil}},
		{"ServerTiesWithItsStar", rules("fs", "fs:*", "", ""), "fs:x", false, policy.Verdict{policy.Ask, "fs:*", "ask", nil}},
		{"ServerBeatsStar", rules("fs", "*", "", ""), "fs:x", false, policy.Verdict{policy.Allow, "fs", "allow", nil}},
		{"ReadOnlyAllowed", rules("", "", "", "allow"), "fs:read", true, policy.Verdict{Effect: policy.Allow, Rule: policy.ReadOnlyRule}},
		{"ReadOnlyAsk", rules("", "", "", "ask"), "fs:read", true, policy.Verdict{Effect: policy.Ask}},
		{"WriterIsNotReadOnly", rules("", "", "", "allow"), "fs:write", false, policy.Verdict{Effect: policy.Ask}},
		{"AskBeatsReadOnly", rules("", "fs", "", "allow"), "fs:read", true, policy.Verdict{policy.Ask, "fs", "ask", nil}},
		{"DenyBeatsReadOnly", rules("", "", "fs", "allow"), "fs:read", true, policy.Verdict{policy.Deny, "fs", "deny", nil}},
		{"ControlNeverAllowed", rules("*", "", "", "allow"), "fs:re\u202ead", true, policy.Verdict{Effect: policy.Ask}},
		{"ControlStillDenied", rules("*", "", "fs", ""), "fs:re\nad", true, policy.Verdict{policy.Deny, "fs", "deny", nil}},
		{"BrokenUTF8NeverAllowed", rules("fs", "", "", ""), "fs:\xff", false, policy.Verdict{Effect: policy.Ask}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mustCompile(t, c.rules).Decide(c.tool, c.readOnly)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var (
	genTool    = rapid.StringMatching(`[a-c]{1,2}:[a-c:]{1,3}`)
	genPattern = rapid.OneOf(
		rapid.StringMatching(`[a-c]{1,2}:[a-c*?]{1,3}`),
		rapid.StringMatching(`[a-c*?]{1,2}`),
		rapid.StringMatching(`\{[a-c],[a-c*]\}:[a-c]?\[[!]?[a-c]\]`),
	)
)

func TestPolicy_DenyWinsWhateverElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(genPattern, 0, 4)
		r := policy.Rules{Allow: policy.Patterns(list.Draw(t, "allow")...), Ask: policy.Patterns(list.Draw(t, "ask")...), Deny: policy.Patterns(list.Draw(t, "deny")...), ReadOnly: "allow"}
		tool := genTool.Draw(t, "tool")
		all, err := policy.Compile(r)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := policy.Compile(policy.Rules{Deny: r.Deny})
		if err != nil {
			t.Fatal(err)
		}
		_, denied := alone.Denied(policy.Call{Tool: tool})
		if got := all.Decide(tool, true).Effect == policy.Deny; got != denied {
			t.Fatalf("denied alone: %v, among others: %v", denied, got)
		}
	})
}

func TestPolicy_OrderOfRulesDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		allow := rapid.SliceOfN(genPattern, 0, 4).Draw(t, "allow")
		ask := rapid.SliceOfN(genPattern, 0, 4).Draw(t, "ask")
		tool := genTool.Draw(t, "tool")
		one, err := policy.Compile(policy.Rules{Allow: policy.Patterns(allow...), Ask: policy.Patterns(ask...)})
		if err != nil {
			t.Fatal(err)
		}
		two, err := policy.Compile(policy.Rules{
			Allow: policy.Patterns(rapid.Permutation(allow).Draw(t, "allow2")...), Ask: policy.Patterns(rapid.Permutation(ask).Draw(t, "ask2")...),
		})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := one.Decide(tool, false).Effect, two.Decide(tool, false).Effect; a != b {
			t.Fatalf("%s or %s, by the order of the lists", a, b)
		}
	})
}

func TestLiteral_MatchesItselfOnly(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"fs:read", `fs:a*b?[c]{d,e}\f`, "fs:a:b", "fs:[x]"} {
		p := mustCompile(t, policy.Rules{Allow: policy.Patterns(policy.Literal(tool))})
		if v := p.Decide(tool, false); v.Effect != policy.Allow {
			t.Errorf("%q does not allow %q", policy.Literal(tool), tool)
		}
		if v := p.Decide(tool+"x", false); v.Effect != policy.Ask {
			t.Errorf("%q allows more than %q", policy.Literal(tool), tool)
		}
	}
}

func TestPolicy_Lint(t *testing.T) {
	t.Parallel()
	known := []string{"filesystem:read_file", "filesystem:write_file", "github:create_issue"}
	p := mustCompile(t, policy.Rules{
		Deny:  policy.Patterns("github", "filesystm:write_file", "github:create_*"),
		Allow: policy.Patterns("filesystem:read_fle", "github:*", "filesystem:read_file", "filesystem", "filesystem"),
		Ask:   policy.Patterns("filesystem", "slack:*"),
	})
	want := []policy.Finding{
		{"filesystm:write_file", "deny", "matches no known tool (did you mean filesystem?)"},
		{"filesystem:read_fle", "allow", "matches no known tool (did you mean filesystem:read_file, filesystem:write_file?)"},
		{"github:*", "allow", `never decides: deny "github:create_*" does`},
		{"filesystem", "allow", `never decides: allow "filesystem:read_file" does`},
		{"filesystem", "allow", "stands twice in the list"},
		{"slack:*", "ask", "matches no known tool"},
	}
	got := p.Lint(known)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := p.Lint(nil); got != nil {
		t.Errorf("with no known tools: %v", got)
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{"fs:*", "*", "{a,b}:[!x-y]?", `a\*:b`, "[", "a:{b,{c,d}}", strings.Repeat("*", 200) + "x", "a:[]-]"} {
		f.Add(s, "a:b")
	}
	f.Fuzz(func(t *testing.T, pattern, tool string) {
		p, err := policy.Compile(policy.Rules{Allow: policy.Patterns(pattern)})
		if err != nil {
			if core.CodeOf(err) != core.CodeInvalidConfig {
				t.Fatalf("code %s", core.CodeOf(err))
			}
			return
		}
		v := p.Decide(tool, true)
		if v.Effect == policy.Deny {
			t.Fatal("denied without a deny rule")
		}
		// The same pattern in the deny list must hold whatever it allows.
		both, err := policy.Compile(policy.Rules{Allow: policy.Patterns(pattern), Deny: policy.Patterns(pattern)})
		if err != nil {
			t.Fatal(err)
		}
		if v.Effect == policy.Allow && both.Decide(tool, true).Effect != policy.Deny {
			t.Fatalf("%q allows %q and does not deny it", pattern, tool)
		}
	})
}

func BenchmarkPolicy_Decide(b *testing.B) {
	var r policy.Rules
	for i := range 30 {
		r.Deny = append(r.Deny, policy.Patterns(fmt.Sprintf("server%d:sudo_*", i))...)
		r.Allow = append(r.Allow, policy.Patterns(fmt.Sprintf("server%d:read_*", i), fmt.Sprintf("server%d:tool%d", i, i))...)
	}
	p := mustCompile(b, r)
	for b.Loop() {
		p.Decide("server29:tool29", false)
	}
}

func ExamplePolicy_Decide() {
	p, err := policy.Compile(policy.Rules{
		Allow:    policy.Patterns("filesystem:read_*"),
		Ask:      policy.Patterns("filesystem"),
		Deny:     policy.Patterns("shell:sudo_*"),
		ReadOnly: "allow",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tool := range []string{"filesystem:read_file", "filesystem:write_file", "shell:sudo_rm", "github:create_issue"} {
		v := p.Decide(tool, false)
		fmt.Printf("%s: %s %q\n", tool, v.Effect, v.Rule)
	}
	// Output:
	// filesystem:read_file: allow "filesystem:read_*"
	// filesystem:write_file: ask "filesystem"
	// shell:sudo_rm: deny "shell:sudo_*"
	// github:create_issue: ask ""
}
