package gate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

func refuses(code core.Code) bool {
	return code == core.CodeNotTrusted || code == core.CodeInvalidConfig
}

// A flow that is not trusted, or not valid, refuses the calls that it may match.
func TestFlows_Refuse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flow    string
		refused bool
	}{
		"All":      {`{"id":"f","enabled":true,"workflowType":"tools/call"}`, true},
		"Matches":  {`{"id":"f","enabled":true,"match":{"server":"work*","tool":"st?t"}}`, true},
		"List":     {`{"id":"f","enabled":true,"match":{"tool":["x","workspace:stat"]}}`, true},
		"Broken":   {`{"id":"f",`, true},
		"NoMatch":  {`{"id":"f","enabled":true,"match":3}`, true},
		"NotSaid":  {`{"id":"f"}`, true},
		"Case":     {`{"id":"f","enabled":true,"match":{"server":"WORKSPACE","tool":"Workspace:STAT"}}`, true},
		"Spelling": {`{"id":"f","ENABLED":false,"Enabled":false}`, true},
		"Doubled":  {`{"id":"f","enabled":true,"enabled":false}`, true},
		"NoBool":   {`{"id":"f","enabled":"false"}`, true},
		"NoObject": {`[]`, true},
		"Null":     {`null`, true},
		"Other":    {`{"id":"f","enabled":true,"match":{"tool":"write_*"}}`, false},
		"Server":   {`{"id":"f","enabled":true,"match":{"server":"a.*"}}`, false},
		"Disabled": {`{"id":"f","enabled":false}`, false},
		"Audit":    {`{"id":"f","enabled":true,"mode":"audit"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, `{}`)
			if err := os.MkdirAll(p.file(".pml/flows"), 0o700); err != nil {
				t.Fatal(err)
			}
			p.write(".pml/flows/guard.json", tt.flow)
			p.open()
			_, v := p.check("workspace:stat", `{"path":"."}`)
			if refused := v.Deny != nil && refuses(v.Deny.Code) && strings.Contains(v.Deny.Message, "guard.json"); refused != tt.refused {
				t.Errorf("%+v", v.Deny)
			}
			if list, err := p.EnabledFlows(); err != nil || name != "Other" && name != "Server" && (len(list) == 1) != tt.refused {
				t.Errorf("%v %v", list, err)
			}
		})
	}
}

// pml reads a flow under each name that one may have, and one that pml cannot read
// refuses everything, by its name.
func TestFlows_Names(t *testing.T) {
	t.Parallel()
	const enabled, off = `{"id":"f","enabled":true,"match":{"tool":"stat"}}`, `{"id":"f","enabled":false}`
	for name, tt := range map[string]struct {
		text    string
		refused bool
	}{
		"a.JSON":          {enabled, true},
		"a.yaml":          {"enabled: true\n", true},
		"a.YML":           {"enabled: true\n", true},
		"sub/deep/a.json": {enabled, true},
		"sub/a.yaml":      {"x: 1\n", true},
		"sub/broken.json": {`{"id"`, true},
		"sub/off.json":    {off, false},
		"sub/node.json":   {`{"name":"node","version":"1"}`, false},
		"b.json":          {off, false},
		"README.md":       {"flows", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, `{}`)
			if err := os.MkdirAll(filepath.Dir(p.file(".pml/flows/"+name)), 0o700); err != nil {
				t.Fatal(err)
			}
			p.write(".pml/flows/"+name, tt.text)
			p.open()
			_, v := p.check("workspace:stat", `{"path":"."}`)
			if refused := v.Deny != nil && refuses(v.Deny.Code) && strings.Contains(v.Deny.Message, name); refused != tt.refused {
				t.Errorf("%+v", v.Deny)
			}
		})
	}
}

// A flow that is changed, or comes into a subfolder, while pml runs counts for the
// next call, also where the configuration names another folder.
func TestFlows_Meanwhile(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".pml/flows", "guards"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			p := settle(t, `{}`)
			p.write(".pml.json", strings.Replace(p.read(".pml.json"), "{", `{"flows":"`+folder+`",`, 1))
			if err := os.MkdirAll(p.file(folder+"/sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			file := folder + "/sub/a.json"
			p.write(file, `{"id":"f","enabled":false}`)
			p.open().want("workspace:stat", `{"path":"."}`, "ok")
			p.write(file, `{"id":"f","enabled":true }`)
			p.want("workspace:stat", `{"path":"."}`, "invalid_config")
			if err := os.Remove(p.file(file)); err != nil {
				t.Fatal(err)
			}
			p.want("workspace:stat", `{"path":"."}`, "ok")
			p.write(folder+"/sub/b.yaml", "x")
			p.want("workspace:stat", `{"path":"."}`, "invalid_config")
		})
	}
}

// A flow of the home holds for the next call as well, in each workspace.
func TestFlows_Home(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	dir := filepath.Join(p.home.Dir, "flows")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write("../home/flows/a.json", `{"id":"f","enabled":false}`)
	p.open().want("workspace:stat", `{"path":"."}`, "ok")
	p.write("../home/flows/a.json", `{"id":"f","enabled":true }`)
	p.want("workspace:stat", `{"path":"."}`, "invalid_config")
	if err := os.Remove(dir + "/a.json"); err != nil {
		t.Fatal(err)
	}
	p.want("workspace:stat", `{"path":"."}`, "ok")
}

// Who makes a call is its host, the command line, the agent at the root of the run's tree,
// or the run.
func TestClientOf(t *testing.T) {
	t.Parallel()
	host := core.Actor{Who: "ada", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}
	agent := core.Run{ID: "a1", Kind: core.KindAgent}
	script := core.Run{ID: "s1", Kind: core.KindCode, ParentID: "a1", UnderAgent: agent.AgentOfChildren()}
	nested := core.Run{ID: "a2", Kind: core.KindAgent, ParentID: "s1", UnderAgent: script.AgentOfChildren()}
	deep := core.Run{ID: "s2", Kind: core.KindCode, ParentID: "a2", UnderAgent: nested.AgentOfChildren()}
	for want, c := range map[string]engine.Call{
		"claude-code": engine.Call{ID: core.OfferedTask}.Of(&core.Run{ID: "r1", RequestedBy: host}),
		"cli":         engine.Call{ID: core.CalledTask}.Of(&core.Run{ID: "r2", Kind: core.KindDAG, RequestedBy: core.Actor{Via: core.ViaCLI}}),
		"run:r3":      engine.Call{ID: "c1"}.Of(&core.Run{ID: "r3", Kind: core.KindCode, RequestedBy: host}),
		"agent:a1":    engine.Call{ID: "c1"}.Of(&script),
		"agent:a1 ":   engine.Call{ID: "c1"}.Of(&deep),
	} {
		if got := gate.ClientOf(c); got != strings.TrimSpace(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
