package gate_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// remember carries out an approval of a tool that is to be remembered.
func (p *place) remember(tool string, how core.Remember) error {
	p.t.Helper()
	return p.Apply(p.t.Context(), core.Approval{
		ID: "a", Type: core.ApproveTool, Subject: tool + "#digest", Tool: tool, State: core.ApprovalApproved, Answer: &core.Answer{Remember: how},
	}, func(string) {})
}

// A permission for the session holds for every argument, over changes of the
// files, until the process ends. It beats a rule that asks, never one that
// denies.
func TestRemember_Session(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"ask":["fake:write"]}`).trust().open()
	p.want("fake:write", `{"a":1}`, "tool_permission")
	if err := p.remember("fake:write", core.RememberSession); err != nil {
		t.Fatal(err)
	}
	p.want("fake:write", `{"a":1}`, "ok")
	p.want("fake:write", `{"b":2}`, "ok")
	if by := p.Check(t.Context(), p.call("fake:write", `{"b":2}`)).AllowedBy; by != "a person, for the session" {
		t.Errorf("allowed by %q", by)
	}
	p.want("fake:fail", "{}", "tool_permission")
	p.configure(`{"ask":["fake"],"allow":["workspace"]}`)
	p.trust().want("fake:write", "{}", "ok")
	p.configure(`{"deny":["fake:wr*"]}`)
	p.trust().want("fake:write", "{}", "permission_denied")
	p.configure(`{}`)
	p.trust().open().want("fake:write", "{}", "tool_permission")
}

// A permission for the session of an owner is nobody else's, and ends: a server
// lives on. A rule is everybody's, so that an owner's run writes none.
func TestRemember_Owners(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`).trust().open()
	allowed := func(owner string) bool {
		call := p.call("fake:write", "{}")
		call.Owner = owner
		v := p.Check(t.Context(), call)
		if v.Deny != nil {
			t.Fatal(v.Deny)
		}
		return len(v.Ask) == 0
	}
	apply := func(owner string, how core.Remember) error {
		return p.Apply(t.Context(), core.Approval{
			ID: "a", Type: core.ApproveTool, Tool: "fake:write", Owner: owner, State: core.ApprovalApproved, Answer: &core.Answer{Remember: how},
		}, func(string) {})
	}
	check := func(when string, want ...string) {
		t.Helper()
		for _, owner := range []string{"", "alice", "bob"} {
			if got := allowed(owner); got != slices.Contains(want, owner) {
				t.Errorf("%s: %q is allowed: %t", when, owner, got)
			}
		}
	}
	if err := apply("alice", core.RememberSession); err != nil {
		t.Fatal(err)
	}
	check("alice's", "alice")
	if err := apply("", core.RememberSession); err != nil {
		t.Fatal(err)
	}
	check("both", "alice", "")
	p.clock.(*ticking).forward(8 * time.Hour)
	check("later", "")
	before := p.read(".pml.json")
	if err := apply("alice", core.RememberRule); core.CodeOf(err) != core.CodePermissionDenied || p.read(".pml.json") != before {
		t.Errorf("a rule: %v", err)
	}
}

// A rule is written where comments and order stay, and the workspace stays
// trusted; it holds in the next process.
func TestRemember_Rule(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	raw, err := os.ReadFile(p.file(".pml.json"))
	if err != nil {
		t.Fatal(err)
	}
	text := "// ours\n" + strings.Replace(string(raw), `"permissions":{}`, `"permissions": {
  // what may be written
  "allow": ["fake:read"] // and read
}`, 1)
	p.write(".pml.json", text)
	if err := os.Chmod(p.file(".pml.json"), 0o640); err != nil {
		t.Fatal(err)
	}
	p.trust().open().want("fake:write", "{}", "tool_permission")
	list, pattern, file, before, after, err := p.Rule("fake:write")
	if err != nil || list != "allow" || pattern != "fake:write" || file != p.file(".pml.json") || string(before) != text {
		t.Fatalf("%s %s %s %v", list, pattern, file, err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != text {
		t.Fatalf("the preview wrote: %s %v", now, err)
	}
	for range 2 { // it is safe to repeat
		if err := p.remember("fake:write", core.RememberRule); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil || string(now) != string(after) || strings.Count(string(now), "fake:write") != 1 {
		t.Errorf("%s\nwant\n%s\n%v", now, after, err)
	}
	for _, kept := range []string{"// ours", "// what may be written", "// and read"} {
		if !strings.Contains(string(now), kept) {
			t.Errorf("%q is gone:\n%s", kept, now)
		}
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	p.want("fake:write", `{"b":2}`, "ok")
	p.open().want("fake:write", `{"b":2}`, "ok")
}

// What cannot be remembered says so, and writes nothing.
func TestRemember_RuleThatDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules, tool string
		code        core.Code
	}{
		"AskedFor": {`{"ask":["fake:write"]}`, "fake:write", core.CodePermissionDenied},
		"Denied":   {`{"deny":["fake"]}`, "fake:write", core.CodePermissionDenied},
		"NoTool":   {`{}`, "fake", core.CodeNoSuchTool},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, c.rules).trust().open()
			before, err := os.ReadFile(p.file(".pml.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.remember(c.tool, core.RememberRule); core.CodeOf(err) != c.code || !strings.Contains(err.Error(), "not written") {
				t.Errorf("%v", err)
			}
			if now, err := os.ReadFile(p.file(".pml.json")); err != nil || string(now) != string(before) {
				t.Errorf("%s %v", now, err)
			}
		})
	}
}

// In a workspace that is not trusted the rule is written, does not count, and
// trusts nothing.
func TestRemember_RuleUntrusted(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`).open()
	err := p.remember("workspace:write_file", core.RememberRule)
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeNotTrusted || len(e.Next) == 0 {
		t.Errorf("%v", err)
	}
	p.want("workspace:write_file", `{"path":"a","content":"b"}`, "tool_permission")
	p.want("fake:read", "{}", "not_trusted")
	p.trust().want("workspace:write_file", `{"path":"a","content":"b"}`, "ok")
}

// A rule for a name with wildcards in it matches that name only.
func TestRemember_RuleIsLiteral(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	p.write("../tools.json", strings.Replace(tools, `"name":"write"`, `"name":"w*"`, 1))
	p.trust().open().want("fake:w*", "{}", "tool_permission")
	if err := p.remember("fake:w*", core.RememberRule); err != nil {
		t.Fatal(err)
	}
	p.want("fake:w*", "{}", "ok")
	p.write("../tools.json", strings.Replace(tools, `"name":"write"`, `"name":"wipe"`, 1))
	if v := p.open().want("fake:wipe", "{}", "integrity"); p.approve(v) != nil {
		t.Fatal("not accepted")
	}
	p.want("fake:wipe", "{}", "tool_permission")
}

// A .pml.json that is a link stays one; one that leads out of the workspace is
// not followed: whoever made the workspace chose what it points to.
func TestRemember_RuleThroughLink(t *testing.T) {
	t.Parallel()
	for _, outside := range []bool{false, true} {
		p := settle(t, `{}`)
		raw, err := os.ReadFile(p.file(".pml.json"))
		if err != nil {
			t.Fatal(err)
		}
		real := "real.json"
		if outside {
			real = "../outside.json"
		}
		p.write(real, string(raw))
		err = errors.Join(os.Remove(p.file(".pml.json")), os.Symlink(real, p.file(".pml.json")))
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, _, _, preview := p.trust().open().Rule("fake:write")
		if outside != (core.CodeOf(preview) == core.CodeInvalidArguments) || !outside && preview != nil {
			t.Errorf("outside %t, and the preview says: %v", outside, preview)
		}
		err = p.remember("fake:write", core.RememberRule)
		now, readErr := os.ReadFile(p.file(real))
		fi, linkErr := os.Lstat(p.file(".pml.json"))
		if readErr != nil || linkErr != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Fatalf("%v %v %v", readErr, linkErr, fi)
		}
		if outside && (core.CodeOf(err) != core.CodeInvalidArguments || string(now) != string(raw)) {
			t.Errorf("a file outside was changed: %v\n%s", err, now)
		}
		if !outside && (err != nil || !strings.Contains(string(now), "fake:write")) {
			t.Errorf("%v\n%s", err, now)
		}
	}
}

// What hosts and tools execute is asked about each time: no rule, session or
// read-only claim lets a change of it through, and its yes is not remembered.
func TestRemember_NotWhatIsExecuted(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"allow":["workspace"]}`).trust().open()
	if err := p.remember("workspace:write_file", core.RememberSession); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".mcp.json", ".claude/settings.json", ".vscode/tasks.json", "sub/.HUSKY/pre-commit", ".github/workflows/ci.yml", "Makefile", "x/../package.json"} {
		v := p.want("workspace:write_file", `{"path":"`+path+`","content":"x"}`, "tool_permission")
		if ask := v.Ask[0]; !ask.Once || ask.Risk != core.RiskHigh || !strings.Contains(ask.Description, "execute") {
			t.Errorf("%s: %+v", path, ask)
		}
	}
	p.want("workspace:move_file", `{"from":"a","to":".cursor/mcp.json"}`, "tool_permission")
	p.want("workspace:write_file", `{"path":"README.md","content":"x"}`, "ok")
	p.want("workspace:read_file", `{"path":"Makefile"}`, "ok")
	p.configure(`{"deny":["workspace:write_file"]}`)
	p.trust().want("workspace:write_file", `{"path":"Makefile","content":"x"}`, "permission_denied")
}
