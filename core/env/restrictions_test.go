package env_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

const restricted = `{
	"permissions": {"allow": ["fs"], "deny": ["fs:delete", "shell"], "ask": ["fs:write"], "readonly": "ask"},
	"approvals": {"decider": "human", "agent_may": "medium"}, "limits": {"calls": 10, "timeout": "1m", "concurrency": 9999}
}`

// What was taken out of the files holds beside what they say now, until a person
// trusts them without it.
func TestTrust_RestrictionsTakenOut(t *testing.T) {
	t.Parallel()
	all := []string{
		`permissions.deny: "fs:delete"`, `permissions.deny: "shell"`, `permissions.ask: "fs:write"`,
		`permissions.readonly: "ask"`, `approvals.decider: "human"`, `limits.calls: 10`, `limits.timeout: "1m"`,
	}
	for name, tt := range map[string]struct {
		text  string
		taken []string
	}{
		"Nothing":      {restricted, nil},
		"Stricter":     {strings.NewReplacer(`"shell"`, `"shell", "git"`, `"calls": 10`, `"calls": 5`).Replace(restricted), nil},
		"DenyAndHuman": {strings.NewReplacer(`"fs:delete", `, ``, `"human"`, `"any"`).Replace(restricted), []string{all[0], all[4]}},
		"AgentMay":     {strings.Replace(restricted, `"medium"`, `"high"`, 1), []string{`approvals.agent_may: "medium"`}},
		"Ask":          {strings.Replace(restricted, `"ask": ["fs:write"], `, ``, 1), all[2:3]},
		"Limits":       {strings.NewReplacer(`"calls": 10`, `"calls": 11`, `"1m"`, `"0"`).Replace(restricted), []string{`limits.calls: 10`, `limits.timeout: "1m"`}},
		"All":          {`{"permissions": {"allow": ["fs"], "readonly": "allow"}, "approvals": {"decider": "any"}}`, all},
		"Empty":        {`{}`, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Contains(s, "readonly") })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write(".pml.json", restricted)
			b.setTrust(b.trust())
			b.write(".pml.json", tt.text)
			for range 2 { // looking at it takes nothing away
				s := b.trust()
				equal(t, tt.taken, s.TakenOut)
				if len(tt.taken) > 0 && s.Agreed() {
					t.Error("nobody has agreed to it")
				}
				c := b.load().Effective(s.Trusted)
				for _, p := range []string{"fs:delete", "shell"} {
					if !slices.Contains(c.Permissions.Deny, policy.Rule{Tool: p}) {
						t.Errorf("%s is not denied any more", p)
					}
				}
				equal(t, policy.Patterns("fs:write"), c.Permissions.Ask)
				equal(t, env.DeciderHuman, c.Approvals.Decider)
				equal(t, env.AgentMayMedium, c.Approvals.AgentMay)
				if c.Permissions.ReadOnly == "allow" || c.Limits.Calls > 10 || c.Limits.Timeout != time.Minute {
					t.Errorf("%+v %+v", c.Permissions, c.Limits)
				}
			}
			b.setTrust(b.trust())
			s := b.trust()
			c := b.load().Effective(s.Trusted)
			if s.TakenOut != nil || !s.Agreed() {
				t.Errorf("after a person has trusted it: %+v", s)
			}
			if got := c.Approvals.Decider == env.DeciderHuman; got == slices.Contains(tt.taken, all[4]) {
				t.Errorf("human: %v", got)
			}
			if got := slices.Contains(c.Permissions.Deny, policy.Rule{Tool: "fs:delete"}); got == slices.Contains(tt.taken, all[0]) {
				t.Errorf("denied: %v", got)
			}
		})
	}
}

// Who agrees to a digest agrees to what is taken out as well.
func TestSetTrust_TakenOutIsPartOfTheDigest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", restricted)
	before := b.trust()
	b.setTrust(before)
	b.write(".pml.json", strings.Replace(restricted, `"fs:delete", `, ``, 1))
	s := b.trust()
	if err := b.home.SetTrust(s, before.Digest, noon); core.CodeOf(err) != core.CodeDigestMismatch || len(b.trust().TakenOut) != 1 {
		t.Errorf("%v, %q", err, b.trust().TakenOut)
	}
}

// A restriction that was added after the trust, or to files that grant nothing,
// needs a person to go as well; so does one of a record from before pml kept them.
func TestTrust_RestrictionsSeen(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"GrantsNothing": `{"approvals": {"decider": "human"}}`,
		"NotTrusted":    `{"approvals": {"decider": "human"}, "permissions": {"allow": ["a"]}}`,
	} {
		b := newBox(t)
		b.write(".pml.json", first)
		b.trust()
		b.write(".pml.json", `{}`)
		if s := b.trust(); len(s.TakenOut) != 1 || b.load().Effective(s.Trusted).Approvals.Decider != env.DeciderHuman {
			t.Errorf("%s: %q", name, s.TakenOut)
		}
	}
	b := newBox(t)
	b.write(".pml.json", `{"permissions": {"allow": ["a"]}}`)
	b.setTrust(b.trust())
	b.write(".pml.json", `{"permissions": {"allow": ["a"], "deny": ["a:b"]}}`)
	if s := b.trust(); !s.Agreed() {
		t.Errorf("to restrict needs nobody: %+v", s)
	}
	b.write(".pml.json", `{"permissions": {"allow": ["a"]}}`)
	if s := b.trust(); !s.Trusted || s.Agreed() {
		t.Errorf("to take it out again does: %+v", s)
	}
}

// A change that a person agrees to takes out what it says and nothing else.
func TestTrustEdit_TakesOutItsOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", restricted)
	b.setTrust(b.trust())
	b.write(".pml.json", strings.Replace(restricted, `"fs:delete", `, ``, 1))
	after := strings.NewReplacer(`"fs:delete", `, ``, `"ask": ["fs:write"], `, ``, `["fs"]`, `["fs", "git"]`).Replace(restricted)
	s := b.trust()
	ok, err := b.home.TrustEdit(s, b.load(), []byte(after), func() error { b.write(".pml.json", after); return nil }, noon)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	equal(t, []string{`permissions.deny: "fs:delete"`}, b.trust().TakenOut)
}

// What cannot be read is not taken for no restriction.
func TestLoad_RestrictionsDamaged(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", restricted)
	b.trust()
	file := b.restrictionsFile()
	b.write(file, `{"version": 1`)
	if got := strings.Join(b.faults(), "\n"); !strings.Contains(got, filepath.Base(file)) {
		t.Errorf("%s", got)
	}
}

// restrictionsFile is where the restrictions of the box's workspace are kept.
func (b *box) restrictionsFile() string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.home.Trust(), "*.restrictions.json"))
	if err != nil || len(files) != 1 {
		b.t.Fatalf("%q, %v", files, err)
	}
	return files[0]
}
