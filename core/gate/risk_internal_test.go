package gate

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// What destroys, and what leaves this machine, is of high risk; where a tool is
// silent, the place of its server counts.
func TestRisk(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	s := &settings{granted: &env.Config{Servers: map[string]env.ServerEntry{
		"here": {Command: "x"}, "local": {URL: "http://127.0.0.1:1/mcp"}, "name": {URL: "http://localhost/mcp"}, "six": {URL: "http://[::1]:1"},
		"far": {URL: "https://mcp.example/mcp"}, "any": {URL: "https://${HOST}/mcp"}, "lan": {URL: "http://10.0.0.1"},
	}}}
	for _, tt := range []struct {
		server string
		hints  core.Annotations
		leaves bool
		want   core.Risk
	}{
		{"here", core.Annotations{}, false, core.RiskMedium},
		{"here", core.Annotations{ReadOnly: &yes}, false, core.RiskLow},
		{"here", core.Annotations{Destructive: &yes}, false, core.RiskHigh},
		{"here", core.Annotations{Destructive: &no}, false, core.RiskMedium},
		{"here", core.Annotations{OpenWorld: &yes}, true, core.RiskHigh},
		{"here", core.Annotations{OpenWorld: &yes, ReadOnly: &yes}, true, core.RiskMedium},
		{Builtin, core.Annotations{}, false, core.RiskMedium},
		{"local", core.Annotations{}, false, core.RiskMedium},
		{"name", core.Annotations{}, false, core.RiskMedium},
		{"six", core.Annotations{}, false, core.RiskMedium},
		{"far", core.Annotations{}, true, core.RiskHigh},
		{"far", core.Annotations{ReadOnly: &yes}, true, core.RiskMedium},
		{"far", core.Annotations{OpenWorld: &no}, false, core.RiskMedium},
		{"any", core.Annotations{}, true, core.RiskHigh},
		{"lan", core.Annotations{}, true, core.RiskHigh},
	} {
		leaves := s.leaves(tt.server, tt.hints)
		if risk := riskOf(tt.hints, leaves); leaves != tt.leaves || risk != tt.want {
			t.Errorf("%s %+v: leaves %v, %s; want %v, %s", tt.server, tt.hints, leaves, risk, tt.leaves, tt.want)
		}
	}
}

// A claim to only read is not believed of a tool whose name says otherwise.
func TestBelieved(t *testing.T) {
	t.Parallel()
	yes := true
	for name, want := range map[string]bool{
		"read_file": true, "list_commands": true, "get_write_access_log": false, "runs": true, "rewrite": true, "executed_queries": true,
		"delete_everything": false, "deleteAll": false, "db.drop-table": false, "SendMail": false, "shell_exec": false, "rm": false, "RM": false,
	} {
		a := believed(core.Tool{Name: name, Annotations: core.Annotations{ReadOnly: &yes, Idempotent: &yes}})
		if a.IsReadOnly() != want || a.Repeatable() != want || riskOf(a, false) != map[bool]core.Risk{true: core.RiskLow, false: core.RiskHigh}[want] {
			t.Errorf("%s: read-only %v, repeatable %v, %s", name, a.IsReadOnly(), a.Repeatable(), riskOf(a, false))
		}
	}
}
