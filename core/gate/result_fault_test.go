package gate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

const structuredTools = `[
{"name":"structured","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}},
{"name":"write","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},
{"name":"fail","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["ok"]}},
{"name":"read","inputSchema":{"type":"object"}}]`

// The result of a server that does not match its output schema is passed on, as the call
// was made; the log of the run says it, once for a tool.
func TestHost_ResultOtherThanItsSchema(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tool, args string
		says       string // empty: nothing
	}{
		"Matches":  {"structured", `{"ok":true}`, ""},
		"Not":      {"structured", `{"ok":"x"}`, "does not match its output schema: "},
		"Missing":  {"structured", `{}`, "does not match its output schema: "},
		"None":     {"write", `{}`, "has no structuredContent"},
		"Failed":   {"fail", `{}`, ""},
		"NoSchema": {"read", `{}`, ""},
		"Long":     {"structured", `{"a":"` + strings.Repeat("x", 70<<10) + `"}`, ""},
	} {
		for on, id := range map[string]string{"Run": "c1", "Proxied": core.OfferedTask} {
			t.Run(name+"/"+on, func(t *testing.T) {
				t.Parallel()
				p := settle(t, `{"allow":["*"]}`)
				p.write("../tools.json", structuredTools)
				p.trust().open()
				var lines []string
				progress := func(line string) {
					if line != "" {
						lines = append(lines, line)
					}
				}
				for range 2 {
					call := p.call("fake:"+tt.tool, tt.args)
					call.ID, call.RunID = id, "run1"
					if v := p.Check(t.Context(), call); v.Deny != nil || len(v.Ask) > 0 {
						t.Fatalf("%+v", v)
					}
					value, err := p.Call(t.Context(), call, progress)
					if failed := tt.tool == "fail"; (err != nil) != failed || !failed && len(value) == 0 {
						t.Errorf("%s %v", value, err)
					}
				}
				if said := strings.Join(lines, "\n"); (said != "") != (tt.says != "") || !strings.Contains(said, tt.says) || len(lines) > 1 {
					t.Errorf("it says %q", lines)
				}
			})
		}
	}
}

// What flows make of a result has to match the schema, except for what of the server's own
// does not.
func TestFlows_ResultOtherThanItsSchema(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args, result string
		code         core.Code
	}{
		"TheServers": {`{"ok":"x"}`, `{"content":[],"structuredContent":{"ok":"x","more":1}}`, ""},
		"Theirs":     {`{"ok":true}`, `{"content":[],"structuredContent":{"ok":"x"}}`, core.CodeHookFailed},
		"Another":    {`{"ok":"x"}`, `{"content":[],"structuredContent":{}}`, core.CodeHookFailed},
		"Mended":     {`{"ok":"x"}`, `{"content":[],"structuredContent":{"ok":true}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &looking{passage: &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Node: "c"}}}, end: func(flow.Answer) flow.Answer {
				return flow.Answer{Result: []byte(tt.result)}
			}}
			p, _ := watched(t, `{"allow":["*"]}`, l)
			p.write("../tools.json", structuredTools)
			if err := os.Remove(p.file("pml.lock")); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			p.trust().open()
			call := p.call("fake:structured", tt.args)
			v := p.Check(t.Context(), call)
			if v.Deny != nil || len(v.Ask) > 0 {
				t.Fatalf("%+v", v)
			}
			call.Passage = v.Passage
			_, err := p.Call(t.Context(), call, func(string) {})
			if core.CodeOf(err) != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
			if tt.code != "" && !core.AsError(err).Made {
				t.Error("it does not say that the call was made")
			}
		})
	}
}
