package hosts_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/hosts"
)

// hookTarget is a file in which a host finds hooks, of a place that is not there.
func hookTarget(t testing.TB, host string) hosts.Target {
	t.Helper()
	for _, tg := range (hosts.Place{Home: "/u", Workspace: "/w", GOOS: "linux"}).HookTargets() {
		if tg.Hook == host {
			return tg
		}
	}
	t.Fatalf("no hooks of %s", host)
	return hosts.Target{}
}

const (
	othersHook = `{"matcher": "Bash", "hooks": [{"type": "command", "command": "KEY=sesame mine.sh"}]}`
	ownHook    = `{"hooks": [{"type": "command", "command": "pml hook claude", "timeout": 60}]}`
)

// settings are files as people have them.
var settings = []string{
	"", "\n", "{}", "{}\n", "\ufeff{}\n", "{\r\n\t\"model\": \"x\"\r\n}\r\n", "{\n  // mine\n  \"env\": {\"K\": \"sesame é\"}, /* x */\n}\n",
	`{"hooks": {}}`, `{"hooks": {"PreToolUse": []}}`, `{"hooks": {"Stop": [` + othersHook + `]}}`,
	"{\n  \"hooks\": {\n    \"PreToolUse\": [\n      " + othersHook + "\n    ],\n    \"PermissionRequest\": [\n      " + othersHook + ", // last\n    ]\n  },\n  \"model\": \"é\"\n}\n",
}

// TestHooks: pml comes into both events, what others have stays, is not shown, and undo
// gives the same bytes, also when somebody has written something else meanwhile.
func TestHooks(t *testing.T) {
	t.Parallel()
	for _, host := range core.AskingHosts {
		tg := hookTarget(t, host)
		for _, before := range settings {
			after, edit := set(t, tg, before)
			if n := strings.Count(after, `"pml hook `+host+`"`); n != 2 {
				t.Errorf("%q became %q: %d hooks", before, after, n)
			}
			s, err := tg.Look([]byte(after), tg.Own("pml"))
			shown := strings.Join(s.Shown, "\n")
			if err != nil || strings.Contains(shown, "sesame") || strings.Count(shown, "pml hook "+host) != 2 {
				t.Errorf("%q is shown as %q, %v", after, shown, err)
			}
			later := strings.Replace(after, "{", "{\n  \"added\": 1,", 1)
			left := unset(t, tg, later, edit)
			if strings.Contains(left, "pml") || !strings.Contains(left, `"added": 1`) || strings.Count(left, "mine.sh") != strings.Count(before, "mine.sh") {
				t.Errorf("%q became %q without pml", later, left)
			}
		}
	}
}

// A half of pml's hooks, or one that somebody has changed, is another entry; it is
// replaced as a whole.
func TestHooks_Differ(t *testing.T) {
	t.Parallel()
	tg := hookTarget(t, core.HostClaude)
	for _, text := range []string{
		`{"hooks": {"PreToolUse": [` + ownHook + `]}}`,
		`{"hooks": {"PreToolUse": [` + othersHook + `, ` + ownHook + `, ` + othersHook + `], "Stop": []}}`,
		`{"hooks": {"PreToolUse": [` + ownHook + `, ` + othersHook + `], "PermissionRequest": [` + strings.Replace(ownHook, "pml hook", "/gone/pml hook", 1) + `]}}`,
	} {
		s, err := tg.Look([]byte(text), tg.Own("pml"))
		if err != nil || !s.There || s.Same {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
		edit, err := tg.Set([]byte(text), tg.Own("pml"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		after, ok := edit.Apply([]byte(text))
		if !ok || bytes.Count(after, []byte("pml hook claude")) != 2 || bytes.Count(after, []byte("mine.sh")) != strings.Count(text, "mine.sh") {
			t.Errorf("%s became %s", text, after)
		}
	}
}

func TestHooks_Refused(t *testing.T) {
	t.Parallel()
	tg := hookTarget(t, core.HostClaude)
	for _, text := range []string{"{", "[]", `{"hooks": []}`, `{"hooks": {"PreToolUse": {}}}`, `{"hooks": {}, "hooks": {}}`, `{"hooks": {"PreToolUse": [], "PreToolUse": []}}`} {
		if _, err := tg.Set([]byte(text), tg.Own("pml")); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s: %v", text, err)
		}
	}
	commented := `{"hooks": {"PreToolUse": [` + othersHook + `, /* why */ ` + ownHook + `]}}`
	if _, err := tg.Unset([]byte(commented), hosts.Edit{}); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("a remark went: %v", err)
	}
}

// Whatever others have among their hooks, undo gives the same bytes.
func TestHooks_Undo(t *testing.T) {
	t.Parallel()
	tg := hookTarget(t, core.HostClaude)
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		sep := rapid.SampledFrom([]string{"", " ", "\n  ", "\r\n\t"})
		list := func(name string) {
			b.WriteString(sep.Draw(rt, "space") + `"` + name + `": [`)
			for i := range rapid.IntRange(0, 3).Draw(rt, "hooks") {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(sep.Draw(rt, "space") + othersHook)
			}
			b.WriteString(sep.Draw(rt, "space") + "]")
		}
		b.WriteString("{" + sep.Draw(rt, "space") + `"hooks": {`)
		events := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"PreToolUse", "PermissionRequest", "Stop"}), rapid.ID).Draw(rt, "events")
		for i, event := range events {
			if i > 0 {
				b.WriteString(",")
			}
			list(event)
		}
		b.WriteString(sep.Draw(rt, "space") + "}" + sep.Draw(rt, "space") + "}")
		set(t, tg, b.String())
	})
}
