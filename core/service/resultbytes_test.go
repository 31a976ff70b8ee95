package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestLimitResultBytes: the limit holds for what a tool answers and for what a
// script returns, and the script knows it.
func TestLimitResultBytes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", `{"limits": {"result_bytes": 2048}}`)
	m.write("large.txt", strings.Repeat("x", 3000))
	c := m.client()
	if r := c.execute(`return pml.limits.result_bytes`, api.StatusSuccess); string(r.Result) != "2048" {
		t.Errorf("a script is told %s", r.Result)
	}
	for _, source := range []string{`await mcp.workspace.read_file({path: "large.txt"})`, `return "x".repeat(3000)`} {
		r := c.execute(source, api.StatusError)
		if r.ErrorCode != core.CodeResultTooLarge || !strings.Contains(r.Error, "2048") || !strings.Contains(r.Error, "limits.result_bytes") {
			t.Errorf("%s: %s %s", source, r.ErrorCode, r.Error)
		}
	}
}
