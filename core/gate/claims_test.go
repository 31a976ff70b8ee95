package gate_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
)

// claiming are tools that all say that they only read.
func claiming(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, `{"name":"`+name+`","description":"Some.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	}
	return "[" + strings.Join(list, ",") + "]"
}

const readOnly = `{"readonly":"allow"}`

// readonly: allow lets tools through by nothing but their own word: that is asked
// about once for a server, with all who say it.
func TestClaims_AskedOnce(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly)
	p.write("../tools.json", claiming("read", "list", "create_note", "delete_all"))
	p.trust().open()
	v := p.want("fake:read", "{}", "integrity")
	other := p.want("fake:create_note", "{}", "integrity")
	if a, b := v.Ask[0], other.Ask[0]; a.Subject != "fake" || a.Subject != b.Subject || a.Digest != b.Digest || a.Risk != core.RiskHigh {
		t.Errorf("these are not one question of high risk for the server: %+v %+v", a, b)
	}
	lines := changed(t, v)
	for _, want := range []string{"+ list, read", "! create_note", "! delete_all", "says otherwise"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is not in\n%s", want, lines)
		}
	}
	p.mustApprove(v)
	for _, tool := range []string{"fake:read", "fake:list", "fake:create_note"} {
		p.want(tool, "{}", "ok")
	}
	p.want("fake:delete_all", "{}", "tool_permission")
	p.open().want("fake:read", "{}", "ok")
	if lock, err := install.ReadLock(p.ws.Lock()); err != nil || strings.Join(lock.Servers["fake"].ReadOnly, " ") != "create_note list read" {
		t.Errorf("%q %v", lock.Servers["fake"].ReadOnly, err)
	}

	// Somewhere else it was accepted with the lock, which is trusted there.
	p.home = env.Home{Dir: filepath.Join(p.ws.Dir, "..", "home2")}
	p.trust().open().want("fake:read", "{}", "ok")
}

// What needs no claim asks about none.
func TestClaims_NotAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rules, tool, args, want string }{
		"Rule":    {`{"readonly":"allow","allow":["fake:read"]}`, "fake:read", "{}", "ok"},
		"Ask":     {`{"readonly":"allow","ask":["fake:read"]}`, "fake:read", "{}", "tool_permission"},
		"NoClaim": {readOnly, "fake:write", "{}", "tool_permission"},
		"Off":     {`{}`, "fake:read", "{}", "tool_permission"},
		"Builtin": {readOnly, "workspace:stat", `{"path":"."}`, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settle(t, c.rules).trust().open().want(c.tool, c.args, c.want)
		})
	}
	t.Run("Session", func(t *testing.T) {
		t.Parallel()
		p := settle(t, readOnly).trust().open()
		grant := core.Approval{ID: "a", Type: core.ApproveTool, Tool: "fake:read", Answer: &core.Answer{Remember: core.RememberSession}}
		if err := p.Apply(t.Context(), grant, func(string) {}); err != nil {
			t.Fatal(err)
		}
		p.want("fake:read", "{}", "ok")
	})
}

// A rule whose pattern is the word of the setting is a rule.
func TestClaims_RuleOfThatName(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"allow":["readonly"]}`)
	p.trust().open().want("fake:read", "{}", "tool_permission")
}

// A tool that claims it later asks again: with its definition, where that is
// asked about, else with the list.
func TestClaims_Later(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly)
	p.write("../tools.json", claiming("read", "list"))
	p.trust().open()
	p.mustApprove(p.want("fake:read", "{}", "integrity"))
	p.write("../tools.json", claiming("read", "list", "status"))
	v := p.open().want("fake:status", "{}", "integrity")
	if !strings.Contains(v.Ask[0].Description, "claims that it only reads") {
		t.Error(v.Ask[0].Description)
	}
	p.want("fake:read", "{}", "ok")
	p.mustApprove(v)
	p.want("fake:status", "{}", "ok") // whoever accepted the definition has seen the claim
}

// An update brings tools whose definitions nobody was asked about.
func TestClaims_Update(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly)
	p.write("../tools.json", claiming("read", "list"))
	p.trust().open()
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	p.mustApprove(p.want("demo:read", "{}", "integrity"))
	p.npm.version = "1.2.4"
	p.write("../tools.json", claiming("read", "list", "peek"))
	u, err := p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if u, err = p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo", Digest: u.Digest}, func(string) {}); err != nil || !u.Installed {
		t.Fatalf("%+v %v", u, err)
	}
	v := p.want("demo:peek", "{}", "integrity")
	if lines := changed(t, v); v.Ask[0].Subject != "demo" || !strings.Contains(lines, "+ peek") || !strings.Contains(lines, "list, read") {
		t.Errorf("%s\n%s", v.Ask[0].Subject, lines)
	}
	p.want("demo:read", "{}", "ok")
	p.mustApprove(v)
	p.want("demo:peek", "{}", "ok")
}

// A check of the server says what is asked, before a call does.
func TestClaims_Check(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly).trust().open()
	list, err := p.CheckServers(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	if list[0].State != api.ServerNeeds || len(list[0].Needs) != 1 || list[0].Needs[0].Type != core.ApproveIntegrity || list[0].Tools != 3 {
		t.Fatalf("%+v", list[0])
	}
	p.mustApprove(engine.Verdict{Ask: []engine.Ask{{Type: list[0].Needs[0].Type, Subject: "fake", Tool: "fake", Context: list[0].Needs[0].Context}}})
	if list, err = p.CheckServers(t.Context(), "fake"); err != nil || list[0].State != api.ServerReady {
		t.Fatalf("%+v %v", list, err)
	}
}

// Another package is another server: what was accepted of the one before is gone
// with it.
func TestClaims_OtherPackage(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly).trust().open()
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	p.mustApprove(p.want("demo:read", "{}", "integrity"))
	p.want("demo:read", "{}", "ok")
	p.npm.version = "2.0.0"
	p.configure(readOnly)
	p.write(".pml.json", strings.ReplaceAll(p.read(".pml.json"), `"-y","demo"`, `"-y","demo@^2"`))
	v := p.trust().open().want("demo:read", "{}", "dependency")
	p.mustApprove(v)
	for range 3 { // its command line is another one, too
		v = p.want("demo:read", "{}", "integrity")
		c, ok := v.Ask[0].Context.(map[string]any)
		if ok && c["kind"] == "readonly" {
			return
		}
		p.mustApprove(v)
	}
	t.Error("the claims of another package were not asked about")
}

// A list, which starts nothing, has the question that the last start has left, as long as it
// would be asked.
func TestClaims_Listed(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly)
	p.write("../tools.json", claiming("read", "delete_all"))
	p.trust().open()
	if i := named(t, p.servers(), "fake"); i.State != api.ServerReady {
		t.Errorf("never started: %+v", i)
	}
	checked := named(t, p.checked("fake"), "fake")
	for _, q := range []*place{p, p.open()} {
		i := named(t, q.servers(), "fake")
		if i.State != api.ServerNeeds || len(i.Needs) != 1 || i.Needs[0].Digest != checked.Needs[0].Digest || len(i.Next) == 0 {
			t.Errorf("%+v", i)
		}
	}
	p.mustApprove(p.want("fake:read", "{}", "integrity"))
	for _, q := range []*place{p, p.open()} {
		if i := named(t, q.servers(), "fake"); i.State != api.ServerReady {
			t.Errorf("%+v", i)
		}
	}
}
