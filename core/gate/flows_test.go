package gate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// An enabled flow refuses the calls that it matches, for as long as pml runs none,
// whether its workspace is trusted or not.
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
			if refused := v.Deny != nil && v.Deny.Code == core.CodeHookFailed && strings.Contains(v.Deny.Message, "guard.json"); refused != tt.refused {
				t.Errorf("%+v", v.Deny)
			}
			if list, err := p.EnabledFlows(); err != nil || name != "Other" && name != "Server" && (len(list) == 1) != tt.refused {
				t.Errorf("%v %v", list, err)
			}
		})
	}
}

// A flow counts under each name that one may have, and one that pml cannot read
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
			if refused := v.Deny != nil && v.Deny.Code == core.CodeHookFailed && strings.Contains(v.Deny.Message, name); refused != tt.refused {
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
			p.want("workspace:stat", `{"path":"."}`, "hook_failed")
			if err := os.Remove(p.file(file)); err != nil {
				t.Fatal(err)
			}
			p.want("workspace:stat", `{"path":"."}`, "ok")
			p.write(folder+"/sub/b.yaml", "x")
			p.want("workspace:stat", `{"path":"."}`, "hook_failed")
		})
	}
}
