package gate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// An agent that may write to the workspace tries to get rid of the flow that checks
// it: pml's own server does not touch the flow, and when something else does, the calls
// that the flow may match are refused until a person has trusted that.
func TestFlows_TakenOutByAnAgent(t *testing.T) {
	t.Parallel()
	const guard = `{"id":"g","name":"g","enabled":true,"match":{"tool":["stat","write"]},"nodes":[],"edges":[]}`
	for name, attack := range map[string]func(p *place){
		"Deletes": func(p *place) {
			if err := os.RemoveAll(p.file(".pml")); err != nil {
				t.Error(err)
			}
		},
		"Disables":    func(p *place) { p.write(".pml/flows/g.json", strings.Replace(guard, "true", "false", 1)) },
		"OnlyRecords": func(p *place) { p.write(".pml/flows/g.json", strings.Replace(guard, `{`, `{"mode":"audit",`, 1)) },
		"LeadsAway": func(p *place) {
			p.write(".pml.json", strings.Replace(p.read(".pml.json"), "{", `{"flows":"other",`, 1))
		},
		"Rewrites": func(p *place) {
			p.write(".pml/flows/g.json", strings.Replace(guard, `["stat","write"]`, `"none"`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, `{"allow":["*"]}`)
			if err := os.MkdirAll(p.file(".pml/flows"), 0o700); err != nil {
				t.Fatal(err)
			}
			p.write(".pml/flows/g.json", guard)
			p.trust().open()
			for _, c := range [][2]string{
				{"write_file", `{"path":".pml/flows/g.json","content":"{}"}`},
				{"write_file", `{"path":".PML/flows/x.json","content":""}`},
				{"write_file", `{"path":".pml.json","content":"{}"}`},
				{"move_file", `{"from":".pml","to":"away"}`},
				{"delete_file", `{"path":".pml/flows/g.json"}`},
			} {
				call := p.call("workspace:"+c[0], c[1])
				if v := p.Check(t.Context(), call); v.Deny == nil || v.Deny.Code != core.CodePermissionDenied {
					t.Errorf("%q passes the gates: %+v", c, v)
				}
				if _, err := p.Call(t.Context(), call, func(string) {}); err == nil {
					t.Errorf("%q was carried out", c)
				}
			}
			if p.read(".pml/flows/g.json") != guard {
				t.Fatal("the flow was changed by a tool")
			}
			attack(p)
			for range 2 { // a new process knows it, too
				p.want("workspace:stat", `{"path":"."}`, "not_trusted")
				if _, err := p.Call(t.Context(), p.call("workspace:stat", `{"path":"."}`), func(string) {}); err == nil {
					t.Error("the call was made")
				}
				p.open()
			}
			p.trust().want("workspace:stat", `{"path":"."}`, "ok")
		})
	}
}
