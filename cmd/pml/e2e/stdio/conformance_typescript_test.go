//go:build unix

package stdio_test

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// What differs at the servers of the TypeScript SDKs, and at that of SDK 1 beside it: its
// newest revision is written by hand.
var (
	throughTypeScript = map[string]differences{
		"0.1.13": unstreamed,
		"0.1.16": unstreamed,
		"0.2.0 for 2025-11-25": {
			"server-sse-multiple-streams/server-sse-streams-functional": {"SUCCESS", ""},
			"server-sse-polling/server-sse-priming-event":               {"SUCCESS", ""},
			"server-sse-polling/server-sse-retry-field":                 {"SUCCESS", ""},
			"server-sse-polling/server-sse-disconnect-resume":           {"SUCCESS", ""},
		},
		"0.2.0 for 2026-07-28": {
			"server-stateless/sep-2575-server-sends-prompts-list-changed-on-subscription": {"SUCCESS", "WARNING"},
			"server-stateless/sep-2575-server-sends-tools-list-changed-on-subscription":   {"SUCCESS", "WARNING"},
		},
	}
	throughTypeScript1 = map[string]differences{
		"0.2.0 for 2026-07-28": {
			"tasks-capability-negotiation/sep-2663-server-rejects-undeclared-client": {"SUCCESS", "FAILURE"},
			"tasks-dispatch-and-envelope/tasks-immediate-result-shortcut":            {"SUCCESS", "FAILURE"},
			"tasks-lifecycle/tasks-sync-tool-call":                                   {"SUCCESS", "FAILURE"},
		},
	}
	// Over stdio, where clients that declare nothing share a connection that began with the handshake,
	// and one that declares something has a process of its own, which the suite does not wait for.
	throughTypeScriptStdio = map[string]differences{
		"0.2.0 for 2026-07-28": {
			"server-stateless/sep-2575-http-server-no-independent-requests-on-stream": {"SUCCESS", inTime},
			"server-stateless/sep-2575-missing-capability-http-400":                   {"SUCCESS", "FAILURE"},
			"server-stateless/sep-2575-server-rejects-undeclared-capability":          {"SUCCESS", "FAILURE"},
		},
	}
)

// fixtures are the servers of the TypeScript SDKs: the file of each, what serves it over
// stdio, and what is known beside throughTypeScript.
var fixtures = []struct {
	file, stdio string
	eras        bool // it has both over stdio, too
	beside      map[string]differences
}{
	{
		"v1/everything-server.ts", `import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
void createMcpServer().connect(new StdioServerTransport());`, false, throughTypeScript1,
	},
	{
		"v2/everythingServer.ts", `import { serveStdio } from "@modelcontextprotocol/server/stdio";
serveStdio(() => createMcpServer());`, true, nil,
	},
}

// TestConformance_ThroughTypeScript: as TestConformance_Through, with the servers of the
// TypeScript SDKs, which are on no registry. PML_TEST_TYPESCRIPT names a folder with
//
//	v1/everything-server.ts    examples/servers/typescript of github.com/modelcontextprotocol/conformance
//	v2/everythingServer.ts     test/conformance/src of github.com/modelcontextprotocol/typescript-sdk
//
// each with a package.json ("type": "module"), after npm install of @modelcontextprotocol/sdk there, of
// @modelcontextprotocol/server, node and express here, and of cors, express, tsx and zod in both.
func TestConformance_ThroughTypeScript(t *testing.T) {
	folder := os.Getenv("PML_TEST_TYPESCRIPT")
	if folder == "" {
		t.Skip("needs the fixtures of the TypeScript SDKs, in the folder that PML_TEST_TYPESCRIPT names")
	}
	t.Parallel()
	packages := pmltest.NPMPackages(t, filepath.Join("clients", "conformance"), "ci")
	node := skiptest.Tool(t, "node")
	for _, f := range fixtures {
		for _, over := range []string{"stdio", "HTTP"} {
			for _, s := range suites {
				if over == "stdio" && !f.eras && strings.HasSuffix(s.name, newRevision) {
					continue // the SDK itself has one era
				}
				t.Run(path.Dir(f.file)+" over "+over+", suite "+s.name, func(t *testing.T) {
					t.Parallel()
					dir := filepath.Join(folder, path.Dir(f.file))
					address := freeAddress(t)
					_, port, _ := net.SplitHostPort(address)
					cmd := exec.Command(node, "--import", "tsx", path.Base(f.file))
					cmd.Dir, cmd.Env = dir, append(os.Environ(), "PORT="+port)
					serving(t, cmd, address)
					itself := "http://localhost:" + port + "/mcp"
					entry := map[string]any{"url": itself}
					if over == "stdio" {
						entry = map[string]any{"command": node, "args": []string{onStdio(t, dir, path.Base(f.file), f.stdio)}}
					}
					known := maps.Clone(throughTypeScript[s.name])
					maps.Copy(known, f.beside[s.name])
					if over == "stdio" {
						maps.Copy(known, throughTypeScriptStdio[s.name])
					}
					// Another pml each time: for 5 minutes one takes a server that was slow for one without the newest revision.
					s.compare(t, packages, itself, func() string { return offeredThrough(t, entry) }, known)
				})
			}
		}
	}
}

// onStdio makes one program of a server that listens for HTTP, with another end and what it
// prints on stderr, and returns its file: pml starts it for each of its clients.
func onStdio(t *testing.T, dir, file, end string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	server, _, found := strings.Cut(string(raw), "\nconst app = ")
	if !found {
		t.Fatalf("%s has no line that begins with \"const app = \", where its HTTP part begins", file)
	}
	out := filepath.Join(t.TempDir(), "server.cjs")
	bundle := exec.Command(filepath.Join(dir, "node_modules", ".bin", "esbuild"), "--bundle", "--loader=ts", "--platform=node", "--format=cjs", "--log-level=error", "--outfile="+out)
	bundle.Dir, bundle.Stdin = dir, strings.NewReader(server+"\nconsole.log = console.error;\n"+end+"\n")
	if said, err := bundle.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return out
}
