package gate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
)

// second is another home on the same workspace, with nothing of the first one.
func (p *place) second() *place {
	p.t.Helper()
	o := placeAt(p.t, filepath.Dir(p.ws.Dir))
	o.home, o.npm = env.Home{Dir: filepath.Join(filepath.Dir(p.ws.Dir), "home2")}, p.npm
	return o
}

// state is what the home knows of the trust in the workspace.
func (p *place) state() env.TrustState {
	p.t.Helper()
	cfg, err := env.Load(env.LoadOptions{Workspace: p.ws, Home: p.home, Environ: func(string) (string, bool) { return "", false }})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := p.home.TrustOf(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// What one home writes into pml.lock is a change for the other one, which goes on
// with what it has trusted.
func TestHomes_GoOn(t *testing.T) {
	t.Parallel()
	one := settle(t, allow)
	two := one.second()
	one.trust()
	two.trust()
	one.open().want("fake:write", "{}", "ok")
	written := one.read("pml.lock")
	s := two.state()
	if !s.LockAside || s.Trusted || !strings.Contains(s.Diff, "+") || !strings.Contains(s.Diff, "pml.lock") {
		t.Fatalf("aside %v, trusted %v, diff\n%s", s.LockAside, s.Trusted, s.Diff)
	}
	two.open().want("fake:write", "{}", "ok")
	if now := two.read("pml.lock"); now != written {
		t.Errorf("the other home has written over it:\n%s", now)
	}
	// It has recorded the same by now: both are agreed.
	if s := two.state(); !s.Trusted || s.LockAside {
		t.Errorf("aside %v, trusted %v\n%s", s.LockAside, s.Trusted, s.Diff)
	}
	one.want("fake:write", "{}", "ok")
	two.want("demo:write", "{}", "dependency") // what the other home has not installed it asks for itself
}

// Nothing of a lock that nobody has trusted approves anything, and nothing of the
// one that was trusted is lost with it.
func TestHomes_UntrustedLock(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"readonly":"allow","allow":["fake:write"]}`)
	p.trust().open().want("fake:write", "{}", "ok")
	p.stop()
	lock, err := install.ReadLock(p.ws.Lock())
	if err != nil {
		t.Fatal(err)
	}
	e := lock.Servers["fake"]
	e.ReadOnly = []string{"read"} // nobody was asked
	p.write("../tools.json", strings.Replace(tools, "Writes.", "Steals.", 1))
	delete(e.Tools, "write")
	lock.Servers["fake"] = e
	if err := lock.Write(p.ws.Lock()); err != nil {
		t.Fatal(err)
	}
	if s := p.state(); !s.LockAside {
		t.Fatal("the lock is not set aside")
	}
	p.open().want("fake:read", "{}", "integrity")
	v := p.want("fake:write", "{}", "integrity")
	if c, ok := v.Ask[0].Context.(map[string]any); !ok || c["kind"] != "tool" || c["old_hash"] == "" {
		t.Errorf("the definition was not compared with the one that was trusted: %+v", v.Ask[0].Context)
	}
	edited := p.read("pml.lock")
	p.mustApprove(v)
	p.want("fake:write", "{}", "ok")
	p.open().want("fake:write", "{}", "ok")
	if p.read("pml.lock") != edited {
		t.Error("what somebody else has written was overwritten")
	}
	p.stop()
	p.trust().open().want("fake:read", "{}", "ok") // with the lock its list was trusted
}

// A lock that somebody has removed is one that somebody has changed.
func TestHomes_RemovedLock(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.trust().open().want("fake:write", "{}", "ok")
	if err := os.Remove(p.ws.Lock()); err != nil {
		t.Fatal(err)
	}
	p.open().want("fake:write", "{}", "ok")
}

// Another change beside it is no matter of the lock.
func TestHomes_MoreThanTheLock(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.trust().open().want("fake:write", "{}", "ok")
	p.write("pml.lock", `{"version": 1, "servers": {}}`)
	p.configure(`{"allow":["*","x"]}`)
	p.open().want("fake:write", "{}", "not_trusted")
}

// What rewrites the whole lock waits until somebody has looked at it.
func TestHomes_RewritesRefused(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	p.want("demo:read", "{}", "ok")
	before := p.read("pml.lock")
	p.write("pml.lock", `{"version": 1, "servers": {}}`)
	p.open()
	if _, err := p.Packages().Lock(t.Context(), false); core.CodeOf(err) != core.CodeNotTrusted {
		t.Errorf("lock: %v", err)
	}
	if _, err := p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {}); core.CodeOf(err) != core.CodeNotTrusted {
		t.Errorf("update: %v", err)
	}
	if r, err := p.Packages().Lock(t.Context(), true); err != nil || len(r.Changed) == 0 {
		t.Errorf("check compares with another lock than that of the workspace: %+v %v", r, err)
	}
	p.want("demo:read", "{}", "ok")
	p.write("pml.lock", before)
	p.open()
	if _, err := p.Packages().Lock(t.Context(), false, "fake"); err != nil {
		t.Errorf("lock: %v", err)
	}
}

// A permission that is remembered as a rule is written all the same.
func TestHomes_Rule(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`).trust().open()
	p.want("fake:read", "{}", "tool_permission")
	p.stop()
	p.write("pml.lock", `{"version": 1, "servers": {}}`)
	p.open()
	rule := core.Approval{ID: "a", Type: core.ApproveTool, Tool: "fake:read", Answer: &core.Answer{Remember: core.RememberRule}}
	if err := p.Apply(t.Context(), rule, func(string) {}); err != nil {
		t.Fatal(err)
	}
	p.open().want("fake:read", "{}", "ok")
	if s := p.state(); !s.LockAside || s.Trusted {
		t.Errorf("aside %v, trusted %v", s.LockAside, s.Trusted)
	}
}
