//go:build unix

package servers_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// published are the servers of npm that the tests use, by the name under which
// they are configured. The versions are exact: a newer one must not change
// what a test sees.
var published = map[string]string{
	"filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
	"memory":     "@modelcontextprotocol/server-memory@2026.8.31",
	"everything": "@modelcontextprotocol/server-everything@2026.8.31",
	"thinking":   "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
	"playwright": "@playwright/mcp@0.0.83",
}

// publishedEntries are the entries of servers of npm.
func publishedEntries(names ...string) map[string]map[string]any {
	out := map[string]map[string]any{"rec": nil}
	for _, name := range names {
		args := []string{"-y", published[name]}
		if name == "filesystem" {
			args = append(args, ".")
		}
		out[name] = map[string]any{"command": "npx", "args": args}
	}
	return out
}

// withRegistry lets a machine use the npm of whoever runs the tests, with its
// settings and its cache: what that has is not fetched again.
func withRegistry(m *pmltest.Machine) {
	m.T.Helper()
	skiptest.Long(m.T, "installs from the npm registry")
	skiptest.Tool(m.T, "npm")
	skiptest.Tool(m.T, "node")
	if home, err := os.UserHomeDir(); err == nil {
		m.Setenv("HOME", home)
	}
	m.Setenv("npm_config_prefer_offline", "true")
}

// wantAsked runs code that needs servers of npm, and wants it to wait for a person.
// Without the registry the test is skipped.
func wantAsked(m *pmltest.Machine, code string) api.Result {
	m.T.Helper()
	o := m.PML("execute", "--json", "--code", code)
	if o.Exit == 1 && strings.Contains(o.Stderr, "check the network") {
		skiptest.Missing(m.T, "needs the npm registry: "+o.Fault().Message)
	}
	return o.Want(8).Result()
}

// dependency is what a person is shown of a package before it is installed.
type dependency struct {
	Name, Version, Install, Integrity string
	Packages                          int
	Scripts                           []string
}

func dependencyOf(t testing.TB, a core.Approval) dependency {
	t.Helper()
	var c struct{ Dependency dependency }
	if err := json.Unmarshal(a.Context, &c); err != nil {
		t.Fatal(err)
	}
	return c.Dependency
}

// TestServers_Published: five servers of npm are asked for together, installed
// one by one by other processes, and then do what they are for, without being
// asked for again.
func TestServers_Published(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	withRegistry(m)
	// Five questions are asked at once; where the registry is slow, the last one waits for four installations.
	m.Configure(pmltest.Config{
		Permissions: map[string]any{"allow": []string{"*"}}, Approvals: map[string]any{"ttl": "1h"},
		Servers: publishedEntries("filesystem", "memory", "everything", "thinking", "playwright"),
	})
	m.Write("hello.txt", "hello from the workspace")

	r := wantAsked(m, `if ([].length > 0) {
		await mcp.filesystem.list_directory({path: "."}); await mcp.memory.read_graph({}); await mcp.everything.echo({message: ""});
		await mcp.thinking.sequentialthinking({thought: "", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1});
		await mcp.playwright.browser_close({});
	}
	return "installed"`)
	asked := map[string]string{}
	for _, a := range r.Pending {
		d := dependencyOf(t, a)
		asked[a.Tool] = d.Name + "@" + d.Version
		if a.Type != core.ApproveDependency || d.Packages < 2 || len(d.Integrity) != len("sha256:")+64 || d.Scripts == nil {
			t.Errorf("%s: %s of %+v", a.Tool, a.Type, d)
		}
	}
	if diff := cmp.Diff(published, asked); diff != "" {
		t.Fatalf("asked for (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(m.Home, "packages", "@modelcontextprotocol")); err == nil {
		t.Error("something was installed before it was approved")
	}
	for left := len(r.Pending); left > 0; left-- {
		exit := 8
		if left == 1 {
			exit = 0
		}
		if r = m.JSON(exit, "continue", string(r.WorkflowID), "--approve"); len(r.Pending) != left-1 {
			t.Fatalf("%d wait after an approval, want %d", len(r.Pending), left-1)
		}
	}
	t.Run("use", func(t *testing.T) { publishedInUse(t, m) })
	t.Run("changed on disk", func(t *testing.T) { publishedChanged(t, m.In(t)) })
}

// publishedChanged changes a file deep in the tree of an installed package: it
// is noticed before the server starts, and the other servers go on.
//
// Scenario 10.
func publishedChanged(t *testing.T, m *pmltest.Machine) {
	found, err := filepath.Glob(filepath.Join(m.Home, "packages", "@modelcontextprotocol", "server-memory", "*", "node_modules", "zod", "package.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("installed: %q, %v", found, err)
	}
	f, err := os.OpenFile(found[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const code = `return (await mcp.memory.read_graph({})).entities.length`
	r := m.Execute(8, code)
	pmltest.WantChanged(t, r, "memory", "node_modules/zod/package.json")
	m.Execute(0, `return await mcp.everything.echo({message: "still here"})`)
	m.Exit(9, "continue", string(r.WorkflowID), "--deny")
	r = m.Execute(8, code)
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	m.Execute(0, code)
}

// publishedInUse calls the installed servers.
func publishedInUse(t *testing.T, m *pmltest.Machine) {
	for _, c := range []struct{ name, code, want string }{
		{"filesystem", `const f = mcp.filesystem;
			await f.write_file({path: "written.txt", content: "one\ntwo"});
			await f.edit_file({path: "written.txt", edits: [{oldText: "two", newText: "three"}]});
			const read = async (path) => { const r = await f.read_text_file({path}); return r.content ?? r };
			return [await read("written.txt"), await read("hello.txt")]`,
			`["one\nthree","hello from the workspace"]`},
		{"filesystem stays inside", `try { return await mcp.filesystem.read_text_file({path: "/etc/passwd"}) } catch (e) { return e.code }`, `"tool_failed"`},
		{"memory", `await mcp.memory.create_entities({entities: [{name: "pml", entityType: "tool", observations: ["asks first"]}]});
			await mcp.memory.create_relations({relations: [{from: "pml", to: "pml", relationType: "is"}]});
			return await mcp.memory.read_graph({})`,
			`{"entities":[{"entityType":"tool","name":"pml","observations":["asks first"]}],"relations":[{"from":"pml","relationType":"is","to":"pml"}]}`},
		{"thinking", `const t = [];
			for (const n of [1, 2]) t.push(await mcp.thinking.sequentialthinking({thought: "step " + n, nextThoughtNeeded: n < 2, thoughtNumber: n, totalThoughts: 2}));
			return t.map(x => [x.thoughtNumber, x.nextThoughtNeeded, x.thoughtHistoryLength])`,
			`[[1,true,1],[2,false,2]]`},
		{"everything", `const e = mcp.everything;
			const city = await e["get-structured-content"]({location: "Chicago"});
			return [await e.echo({message: "zażółć 日本"}), await e["get-sum"]({a: 2, b: 3}), typeof city.temperature]`,
			`["Echo: zażółć 日本","The sum of 2 and 3 is 5.","number"]`},
		{"everything, beside each other", `const all = await Promise.all(Array.from({length: 40}, (_, i) => mcp.everything["get-sum"]({a: i, b: i})));
			return all.filter((s, i) => s === "The sum of " + i + " and " + i + " is " + 2 * i + ".").length`, `40`},
		{"a wrong argument", `try { return await mcp.everything["get-sum"]({a: "x"}) } catch (e) { return e.code }`, `"invalid_arguments"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := m.In(t).Execute(0, c.code)
			if diff := cmp.Diff(c.want, canonical(t, r.Result)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("progress", func(t *testing.T) {
		t.Parallel()
		m := m.In(t)
		r := m.Execute(0, `return await mcp.everything["trigger-long-running-operation"]({duration: 0.4, steps: 4})`)
		if got := string(r.Result); got != `"Long running operation completed. Duration: 0.4 seconds, Steps: 4."` {
			t.Errorf("result %s", got)
		}
		logs := m.OK("events", "--workflow", string(r.WorkflowID), "--type", "task_log", "--json").Stdout
		if n := strings.Count(logs, `"everything:trigger-long-running-operation"`); n != 4 {
			t.Errorf("%d events of its progress, want 4:\n%s", n, logs)
		}
	})
	t.Run("tools of playwright", func(t *testing.T) {
		t.Parallel()
		got := toolNames(t, m.In(t), "playwright")
		for _, want := range []string{"browser_navigate", "browser_click", "browser_snapshot", "browser_close"} {
			if !slices.Contains(got, want) {
				t.Errorf("%s is not among its %d tools: %q", want, len(got), got)
			}
		}
	})
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		publishedOverHTTP(t, m.In(t))
	})
}

// publishedOverHTTP starts the installed server-everything as a service of its
// own and uses it through pml from another workspace.
func publishedOverHTTP(t *testing.T, m *pmltest.Machine) {
	found, err := filepath.Glob(filepath.Join(m.Home, "packages", "@modelcontextprotocol", "server-everything", "*", "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	if err != nil || len(found) != 1 {
		t.Fatalf("installed: %q, %v", found, err)
	}
	url := serveEverything(t, found[0])
	other := pmltest.BareMachine(t)
	other.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"web:*"}}, Servers: map[string]map[string]any{"rec": nil, "web": {"url": url}}})
	r := other.Execute(0, `const w = mcp.web;
		const sums = await Promise.all([1, 2, 3].map(n => w["get-sum"]({a: n, b: 1})));
		return [sums, await w["trigger-long-running-operation"]({duration: 0.2, steps: 2})]`)
	want := `[["The sum of 1 and 1 is 2.","The sum of 2 and 1 is 3.","The sum of 3 and 1 is 4."],"Long running operation completed. Duration: 0.2 seconds, Steps: 2."]`
	if diff := cmp.Diff(want, canonical(t, r.Result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := toolNames(t, other, "web"); !slices.Contains(got, "echo") {
		t.Errorf("tools %q", got)
	}
}

// serveEverything runs a script of server-everything as an HTTP server until
// the end of the test, and returns its URL.
func serveEverything(t *testing.T, script string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	cmd := exec.Command(skiptest.Tool(t, "node"), script, "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it ends with the test
		<-drained
		_ = cmd.Wait()
	})
	lines, listening := bufio.NewScanner(said), false
	for !listening && lines.Scan() {
		listening = strings.Contains(lines.Text(), strconv.Itoa(port))
	}
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, said) // it logs each request, and must not wait for a reader
	}()
	if !listening {
		t.Fatalf("it never said that it listens on port %d", port)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
}

// toolNames are the tools of a server as tools ls lists them.
func toolNames(t testing.TB, m *pmltest.Machine, server string) []string {
	t.Helper()
	var page api.Page[struct{ Server, Name string }]
	m.OK("tools", "ls", "--json").Decode(&page)
	var out []string
	for _, tool := range page.Items {
		if tool.Server == server {
			out = append(out, tool.Name)
		}
	}
	return out
}

// canonical is JSON with the keys of objects in order.
func canonical(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
