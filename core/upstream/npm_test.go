package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/core/upstream"
)

const everything = "@modelcontextprotocol/server-everything"

// installEverything returns the folder of the server, from npm.
func installEverything(t *testing.T) string {
	t.Helper()
	skiptest.Long(t, "installs from the npm registry")
	npm, dir := skiptest.Tool(t, "npm"), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--no-save", everything+"@2026.8.31")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		skiptest.Missing(t, "needs the npm registry: "+err.Error()+"\n"+string(out))
	}
	return filepath.Join(dir, "node_modules", everything)
}

// serveEverything starts the server over HTTP and returns its address. It
// takes no port of its own choice, so that a free one may be lost to another
// process: then the next one is tried.
func serveEverything(t *testing.T, dir string) string {
	t.Helper()
	node := skiptest.Tool(t, "node")
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		cmd := exec.Command(node, filepath.Join(dir, "dist", "index.js"), "streamableHttp")
		cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "listening") {
				return fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
			}
		}
	}
	t.Fatal("the server does not listen")
	return ""
}

// The server with everything that MCP has, from npm, over both transports.
func TestReal_ServerEverything(t *testing.T) {
	t.Parallel()
	dir := installEverything(t)
	node := skiptest.Tool(t, "node")
	launches := map[string]upstream.Launch{
		"stdio": {
			Name: "everything", Workspace: t.TempDir(), Command: node, Args: []string{filepath.Join(dir, "dist", "index.js"), "stdio"},
			Env: []string{"PATH=" + filepath.Dir(node), "TOKEN=a value"},
		},
		"streamable HTTP": {Name: "everything", Workspace: "/w", URL: serveEverything(t, dir)},
	}
	for name, l := range launches {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			told := 0
			m := newManager(t, func(o *upstream.Options) {
				o.ToolsChanged = func(string, string) { mu.Lock(); told++; mu.Unlock() }
			})
			tools, err := m.Tools(t.Context(), l)
			if err != nil || len(tools) < 10 {
				t.Fatalf("%d tools, %v", len(tools), err)
			}
			names := map[string]bool{}
			for _, tool := range tools {
				names[tool.Name] = len(tool.InputSchema) > 0
			}
			if !names["echo"] || !names["get-sum"] {
				t.Errorf("%v", names)
			}
			if got, err := call(t, m, l, "echo", `{"message":"grüße"}`); err != nil || got != `"Echo: grüße"` {
				t.Errorf("%s, %v", got, err)
			}
			if l.Command != "" {
				got, err := call(t, m, l, "get-env", `{}`)
				var env map[string]string
				if err != nil || json.Unmarshal([]byte(got), &env) != nil || len(env) != 2 || env["TOKEN"] != "a value" {
					t.Errorf("%s, %v", got, err)
				}
			}
			var steps []float64
			_, err = m.Call(t.Context(), upstream.Request{
				Launch: l, Tool: "trigger-long-running-operation", Args: json.RawMessage(`{"duration":0.4,"steps":4}`),
				Progress: func(_ string, done, total float64) { steps = append(steps, done/total) },
			})
			if err != nil || fmt.Sprint(steps) != "[0.25 0.5 0.75 1]" {
				t.Errorf("progress %v, %v", steps, err)
			}
			h, ok := m.Health("everything", l.Workspace)
			if !ok || h.State != "running" || h.Protocol == "" || !strings.Contains(h.Server, "everything") {
				t.Errorf("%+v", h)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s; started in %s; announced %d changes; %s", h.Server, h.Start, told, h.Protocol)
		})
	}
}
