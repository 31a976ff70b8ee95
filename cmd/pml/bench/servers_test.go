package bench_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install/registrytest"
)

// BenchmarkServer_FirstCall is the first call on a server that is installed,
// trusted and not running: checks of what runs, start, handshake, comparison of
// its tools, call. The floor is the bare library that starts the same file and
// makes the same call. Warm is a pml that runs already, Process the whole command.
func BenchmarkServer_FirstCall(b *testing.B) {
	pml := buildBench(b, "./cmd/pml")
	ws, home, file := installedServer(b, pml)
	const code = `return await mcp.demo.read({ n: 1 })`
	floor := func(floors *[]time.Duration) {
		var c *client.Client
		timed(floors, func() {
			tr := transport.NewStdioWithOptions("node", env.ChildEnv(nil, env.OS()), []string{file},
				transport.WithCommandFunc(func(_ context.Context, command string, environ, args []string) (*exec.Cmd, error) {
					cmd := exec.Command(command, args...)
					cmd.Env = environ // nothing else: some variables make node start slower
					return cmd, nil
				}))
			if err := tr.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			c = client.NewClient(tr, client.WithLegacyProtocolOnly()) //nolint:staticcheck // the handshake that pml makes
			if _, err := c.Initialize(b.Context(), mcp.InitializeRequest{}); err != nil {
				b.Fatal(err)
			}
			var req mcp.CallToolRequest
			req.Params.Name, req.Params.Arguments = "read", map[string]any{"n": 1}
			if _, err := c.CallTool(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		})
		_ = c.Close()
	}
	overhead := func(b *testing.B, list, floors []time.Duration) {
		b.Helper()
		report(b, list, floors)
		b.ReportMetric(float64((median(list)-median(floors)).Microseconds())/1000, "over-floor-ms")
	}
	b.Run("Warm", func(b *testing.B) {
		var list, floors []time.Duration
		for b.Loop() {
			w := newWarmAt(b, pml, ws, home)
			w.fallow(b)
			timed(&list, func() { w.run(b, code) })
			floor(&floors)
		}
		overhead(b, list, floors)
	})
	b.Run("Process", func(b *testing.B) {
		var list, floors []time.Duration
		for b.Loop() {
			timed(&list, func() {
				cmd := exec.Command(pml, "execute", "--code", code)
				cmd.Dir, cmd.Env = ws, append(os.Environ(), "PML_HOME="+home)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			})
			floor(&floors)
		}
		overhead(b, list, floors)
	})
}

// installedServer is a workspace with a server "demo" that was installed from a
// registry on loopback by the approval of a person. file is what node runs.
func installedServer(b *testing.B, pml string) (ws, home, file string) {
	b.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		b.Skip("needs npm")
	}
	reg := registrytest.New(b)
	reg.Publish(registrytest.Server("demo", "1.0.0", registrytest.Tool{Name: "read", Annotations: map[string]any{"readOnlyHint": true}}))
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ws, home = filepath.Join(root, "ws"), filepath.Join(root, "home")
	if err := os.MkdirAll(ws, 0o700); err != nil {
		b.Fatal(err)
	}
	const config = `{"permissions": {"allow": ["demo"]}, "mcpServers": {"demo": {"command": "npx", "args": ["-y", "demo"]}}}`
	if err := os.WriteFile(filepath.Join(ws, ".pml.json"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	run := func(exit int, args ...string) []byte {
		cmd := exec.Command(pml, args...)
		cmd.Dir, cmd.Env = ws, append(reg.Env(os.Environ()), "PML_HOME="+home)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != exit {
			b.Fatalf("pml %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	run(0, "trust", "--yes")
	var r api.Result
	if err := json.Unmarshal(run(8, "execute", "--json", "--code", "return await mcp.demo.read({})"), &r); err != nil || r.ApprovalType != core.ApproveDependency {
		b.Fatalf("%v %s", err, r.ApprovalType)
	}
	run(0, "continue", string(r.WorkflowID), "--approve")
	found, err := filepath.Glob(filepath.Join(home, "packages", "demo", "*", "node_modules", "demo", "server.js"))
	if err != nil || len(found) != 1 {
		b.Fatalf("%v %v", found, err)
	}
	return ws, home, found[0]
}
