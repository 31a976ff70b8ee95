package env_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// Rules with conditions are read, shown, and part of what is trusted.
func TestLoad_Conditions(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"permissions": {"ask": [{"tool": "fs", "where": "size(args.a) > 1"}]}}`)
	b.write(".pml.json", `{"permissions": {
		"allow": ["a", {"tool": "fs:write", "where": "args.path startsWith 'docs/' && 1 < 2"}],
		"deny": [{"where": "args.x", "tool": "fs:*"}]}}`)
	c := b.load()
	want := policy.Rules{
		Allow: []policy.Rule{{Tool: "a"}, {Tool: "fs:write", Where: "args.path startsWith 'docs/' && 1 < 2"}},
		Deny:  []policy.Rule{{Tool: "fs:*", Where: "args.x"}}, Ask: []policy.Rule{{Tool: "fs", Where: "size(args.a) > 1"}},
	}
	equal(t, want, c.Permissions)
	equal(t, policy.Rules{Deny: want.Deny, Ask: want.Ask}, c.Effective(false).Permissions)
	const shown = `"where": "args.path startsWith 'docs/' && 1 < 2"`
	if s := b.trust(); !strings.Contains(s.Content, shown) || strings.Contains(s.Content, "args.x") {
		t.Errorf("to be trusted: %s", s.Content)
	}
	if text := string(c.Show()); !strings.Contains(strings.ReplaceAll(text, `\u0026`, "&"), `args.x`) {
		t.Errorf("shown: %s", text)
	}
}

func TestLoad_ConditionFaults(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"permissions": {"allow": [
 1, {"tool": "a"}, {"tool": "", "where": "true"},
 {"tool": 1, "where": "true"}, {"tool": "a", "when": "true"}, null]}}`)
	equal(t, []string{
		`.pml.json:2:2:/permissions/allow/0: must be a pattern, or an object with tool and where, not a number`,
		`.pml.json:2:5:/permissions/allow/1: needs "tool" and "where"; a pattern without a condition stands alone, as a string`,
		`.pml.json:2:29:/permissions/allow/2/tool: is empty`,
		`.pml.json:3:11:/permissions/allow/3/tool: must be a string, not a number`,
		`.pml.json:3:46:/permissions/allow/4/when: unknown key "when" (did you mean where?)`,
		`.pml.json:3:63:/permissions/allow/5: must be a pattern, or an object with tool and where, not null`,
	}, b.faults())
	b.write(".pml.json", `{"permissions": {"deny": ["a",
  {"tool": "b",
   "where": "args.x =="}]}}`)
	c := b.load()
	_, err := policy.Compile(c.Permissions)
	if got := b.lines(c.Locate(err)); len(got) != 1 || !strings.HasPrefix(got[0], ".pml.json:3:13:/permissions/deny/1/where: the condition is not valid at its character 9: ") {
		t.Errorf("%q", got)
	}
}

// A condition of a rule that denies is part of the restriction: another one in its
// place takes the first one out.
func TestTrust_ConditionsHeld(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"permissions": {"deny": [{"tool": "fs", "where": "args.a < 1"}, "x"], "ask": [{"tool": "fs", "where": "args.b"}]}}`)
	b.trust()
	b.write(".pml.json", `{"permissions": {"deny": [{"tool": "fs", "where": "args.a < 0"}, "x"]}}`)
	s := b.trust()
	equal(t, []string{`permissions.deny: {"tool":"fs","where":"args.a < 1"}`, `permissions.ask: {"tool":"fs","where":"args.b"}`}, s.TakenOut)
	c := b.load().Effective(s.Trusted)
	if want := (policy.Rule{Tool: "fs", Where: "args.a < 1"}); !slices.Contains(c.Permissions.Deny, want) || len(c.Permissions.Deny) != 3 || len(c.Permissions.Ask) != 1 {
		t.Errorf("%+v", c.Permissions)
	}
	b.setTrust(s)
	if c := b.load(); len(c.Permissions.Deny) != 2 || len(c.Permissions.Ask) != 0 {
		t.Errorf("a person has trusted it: %+v", c.Permissions)
	}
}

// The record of an older pml, which knew no conditions and no flows, still holds.
func TestLoad_HeldByAnOlderVersion(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"permissions": {"deny": ["a"]}}`)
	b.trust()
	b.write(b.restrictionsFile(), `{"version": 1, "workspace": "`+b.work.Dir+`", "restrictions": {"deny": ["a", "b"]}}`)
	equal(t, policy.Patterns("a", "b"), b.load().Permissions.Deny)
}

func TestSchema_Conditions(t *testing.T) {
	t.Parallel()
	if text := string(env.Schema()); strings.Count(text, `"where"`) != 6 {
		t.Errorf("three lists have an entry with tool and where, each named twice: %d", strings.Count(text, `"where"`))
	}
}
