//go:build unix

package stdio_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// asClient is what the suite starts as a client: the last argument is the address
// of its server, which pml is given under the name fix.
const asClient = `#!/bin/sh
for url; do :; done
cd "WS" || exit 1
echo '{"mcpServers":{"fix":{"url":"'"$url"'"}},"permissions":{"allow":["fix"]}}' > .pml.json
"PML" trust --yes && "PML" servers check && "PML" execute --code 'CODE'
`

// TestConformance_Client: the official suite looks at what pml does as a client of
// its servers. sse-retry ends the stream of a call before its answer.
func TestConformance_Client(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t, filepath.Join("clients", "conformance"), "ci")
	for scenario, tt := range map[string]struct{ code, passed string }{
		"initialize": {`return 1`, "Passed: 1/1, 0 failed"},
		"tools_call": {`return await mcp.fix.add_numbers({a: 5, b: 3})`, "Passed: 2/2, 0 failed"},
		"sse-retry":  {`return await mcp.fix.test_reconnection({})`, "Passed: 3/3, 0 failed"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			node, m := nodeFor(t, packages, true), pmltest.BareMachine(t)
			script := filepath.Join(m.Dir, "client.sh")
			text := strings.NewReplacer("WS", m.WS, "PML", m.Binary(), "CODE", tt.code).Replace(asClient)
			if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, filepath.Join(packages, "node_modules", "conformance-0-2-0", "dist", "index.js"),
				"client", "--command", script, "--scenario", scenario, "--timeout", "60000")
			cmd.Env = append(os.Environ(), m.Env...)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.passed) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
