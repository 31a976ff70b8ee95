package env_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

func TestAddRule(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "{ // note\n}", `{"permissions": {}}`, "{\n  \"permissions\": {\n    // why\n    \"allow\": [\n      \"a\" // first\n    ]\n  }\n}\n",
		string(env.Starter(false, false)), string(env.Starter(true, false)), string(env.Starter(false, true)),
	} {
		rule := policy.Rule{Tool: `fs:re"ad`}
		if len(text) > 2 { // and with a condition
			rule.Where = `args.to < 3 && "a&b" != 'c'`
		}
		out, err := env.AddRule(".pml.json", []byte(text), "allow", rule)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		b := newBox(t)
		b.write(".pml.json", string(out))
		rules := b.load().Permissions.Allow
		if len(rules) == 0 || rules[len(rules)-1] != rule {
			t.Errorf("%q became %q", text, out)
		}
		for _, comment := range []string{"// note", "// why", "// first"} {
			if strings.Contains(text, comment) && !strings.Contains(string(out), comment) {
				t.Errorf("%s is gone from %q", comment, out)
			}
		}
	}
	for _, bad := range []struct{ text, list string }{{`{"a": 1}`, "allow"}, {`{}`, "readonly"}, {`{"permissions": {"allow": ["a",]}}`, "ask"}} {
		if _, err := env.AddRule(".pml.json", []byte(bad.text), bad.list, policy.Rule{Tool: "x"}); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%q, %s: %v", bad.text, bad.list, err)
		}
	}
}

func TestRemoveRule(t *testing.T) {
	t.Parallel()
	is := func(tool string) func(policy.Rule) bool { return func(r policy.Rule) bool { return r.Tool == tool } }
	for _, tt := range []struct{ text, tool, want string }{
		{`{"permissions": {"allow": ["a", "b"]}}`, "a", `{"permissions": {"allow": ["b"]}}`},
		{`{"permissions": {"allow": ["a", "b"]}}`, "b", `{"permissions": {"allow": ["a"]}}`},
		{`{"permissions": {"allow": ["a"]}}`, "a", `{"permissions": {"allow": []}}`},
		{"{\"permissions\": {\"allow\": [\n  \"a\", // why\n  {\"tool\": \"b\", \"where\": \"args.x == 1\"}\n]}}", "b", "{\"permissions\": {\"allow\": [\n  \"a\" // why\n]}}"},
		{`{"permissions": {"allow": ["a"]}}`, "c", `{"permissions": {"allow": ["a"]}}`},
		{`{}`, "a", `{}`},
	} {
		out, gone, found, err := env.RemoveRule(".pml.json", []byte(tt.text), "allow", is(tt.tool))
		if string(out) != tt.want || err != nil || found != (tt.text != tt.want) || found && gone.Tool != tt.tool {
			t.Errorf("%q without %s became %q, %+v, %v, %v", tt.text, tt.tool, out, gone, found, err)
		}
	}
	if _, _, _, err := env.RemoveRule(".pml.json", []byte(`{"a": 1}`), "allow", is("a")); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Error(err)
	}
}
