package env_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

const (
	guard = `{"id":"g","name":"guard","enabled":true,"match":{"server":"fs","tool":["write_*","delete"],"where":"args.x == 1"},
		"nodes":[{"id":"h","type":"hook","data":{"hook":{"id":"h","hookModuleId":"m","blocking":true}}}]}`
	guardModule = `{"id":"m","name":"m","version":"1","script":"return {block: {code: 'no', message: 'no'}}"}`
)

// A flow that a person has trusted cannot be got rid of by whoever writes to the
// workspace: what it may match is refused until a person trusts the files without it.
func TestTrust_FlowsHeld(t *testing.T) {
	t.Parallel()
	remove := func(b *box, name string) {
		if err := os.RemoveAll(filepath.Join(b.work.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, attack := range map[string]func(b *box){
		"Deleted":       func(b *box) { remove(b, ".pml/flows/guard.json") },
		"FolderDeleted": func(b *box) { remove(b, ".pml") },
		"AllDeleted":    func(b *box) { remove(b, ".pml"); b.write(".pml.json", `{}`) },
		"Disabled":      func(b *box) { b.write(".pml/flows/guard.json", strings.Replace(guard, "true", "false", 1)) },
		"Audit": func(b *box) {
			b.write(".pml/flows/guard.json", strings.Replace(guard, `"enabled"`, `"mode":"audit","enabled"`, 1))
		},
		"OtherMatch":  func(b *box) { b.write(".pml/flows/guard.json", strings.Replace(guard, `"fs"`, `"x"`, 1)) },
		"Emptied":     func(b *box) { b.write(".pml/flows/guard.json", "") },
		"OtherModule": func(b *box) { b.write(".pml/flows/modules/m.json", strings.Replace(guardModule, "no", "yes", 1)) },
		"OtherFolder": func(b *box) { b.write(".pml.json", `{"flows": "elsewhere"}`) },
		"Renamed": func(b *box) {
			b.write(".pml/flows/guard.md", guard)
			remove(b, ".pml/flows/guard.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write(".pml.json", `{"permissions": {"allow": ["fs"]}}`)
			b.write(".pml/flows/guard.json", guard)
			b.write(".pml/flows/modules/m.json", guardModule)
			b.setTrust(b.trust())
			if s := b.trust(); !s.Agreed() || b.load().FlowGone("fs:delete") != nil {
				t.Fatalf("%+v", s)
			}
			attack(b)
			for range 2 {
				s := b.trust()
				if s.Agreed() || len(s.TakenOut) != 1 || !strings.Contains(s.TakenOut[0], "guard.json") {
					t.Errorf("%+v", s)
				}
				c := b.load()
				for _, c := range []*env.Config{c, c.Effective(false), c.Effective(s.Counts())} {
					for tool, refused := range map[string]bool{"fs:write_file": true, "FS:Delete": true, "fs:read": false, "git:write_all": false} {
						if err := c.FlowGone(tool); (err != nil) != refused || refused && err.Code != core.CodeNotTrusted {
							t.Errorf("%s: %v", tool, err)
						}
					}
				}
			}
			b.setTrust(b.trust())
			if s, err := b.trust(), b.load().FlowGone("fs:delete"); err != nil || !s.Agreed() {
				t.Errorf("a person has trusted it: %v, %+v", err, s)
			}
		})
	}
}

// What comes back as it was is in force again; what nobody has trusted, or only
// records, leaves nothing behind.
func TestTrust_FlowsNotHeld(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	flow := filepath.Join(b.work.Dir, ".pml/flows/guard.json")
	gone := func(when string, want bool) {
		t.Helper()
		if b.trust(); (b.load().FlowGone("fs:delete") != nil) != want {
			t.Errorf("%s: gone is not %v", when, want)
		}
	}
	remove := func() {
		if err := os.Remove(flow); err != nil {
			t.Fatal(err)
		}
	}
	b.write(flow, guard)
	gone("not trusted", false)
	remove()
	gone("never trusted", false)
	b.write(flow, strings.Replace(guard, `"enabled"`, `"mode":"audit","enabled"`, 1))
	b.setTrust(b.trust())
	remove()
	gone("audit", false)
	b.write(flow, guard)
	b.setTrust(b.trust())
	remove()
	gone("trusted", true)
	b.write(flow, guard)
	gone("put back", false)
	if s := b.trust(); !s.Agreed() {
		t.Errorf("put back: %+v", s)
	}
}

// A rule that pml writes for a person does not take a flow out that went missing
// before.
func TestTrustEdit_KeepsFlowsHeld(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml/flows/guard.json", guard)
	b.setTrust(b.trust())
	if err := os.RemoveAll(filepath.Join(b.work.Dir, ".pml")); err != nil {
		t.Fatal(err)
	}
	const after = `{"permissions": {"allow": ["fs:delete"]}}`
	if ok, err := b.home.TrustEdit(b.trust(), b.load(), []byte(after), func() error { b.write(".pml.json", after); return nil }, noon); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if b.load().FlowGone("fs:delete") == nil {
		t.Error("the flow is forgotten")
	}
}
