package gate_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// fakeArg makes this binary a small MCP server; the file of its tools follows.
const fakeArg = "gate-test-mcp-server"

func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, fakeArg); i > 0 {
		serve(os.Args[i+1])
		syscall.Exit(0) // os.Exit would wait a second where the race detector is on
	}
	skiptest.Overlap()
	skiptest.InMemory()
	os.Exit(m.Run())
}

// downMark is the end of the name of a file beside that of the tools with which
// the server cannot start.
const downMark = ".down"

// serve speaks just enough MCP over standard streams.
func serve(file string) {
	if filepath.Base(file) == "mute" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	if _, err := os.Stat(file + downMark); err == nil {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 256<<10)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string          `json:"protocolVersion"`
				Name            string          `json:"name"`
				Arguments       json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		var result any
		switch req.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{"listChanged": true}}, "serverInfo": map[string]any{"name": strings.TrimSpace("fake " + os.Getenv("API_KEY")), "version": "1"}}
		case "ping":
			result = map[string]any{}
		case "tools/list":
			raw, _ := os.ReadFile(file)
			result = map[string]any{"tools": json.RawMessage(raw)}
		case "tools/call":
			switch req.Params.Name {
			case "die":
				os.Exit(1)
			case "announce":
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			text := fmt.Sprintf("%s %s key=%s pid=%d", req.Params.Name, req.Params.Arguments, os.Getenv("API_KEY"), os.Getpid())
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": req.Params.Name == "fail"}
			if req.Params.Name == "structured" {
				result = map[string]any{"content": []any{}, "structuredContent": req.Params.Arguments}
			}
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", req.ID)
			continue
		}
		raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": req.ID, "result": result})
		fmt.Printf("%s\n", raw)
	}
}

const tools = `[
{"name":"read","description":"Reads.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false},"annotations":{"readOnlyHint":true}},
{"name":"write","description":"Writes.","inputSchema":{"type":"object"}},
{"name":"fail","description":"Fails.","inputSchema":{"type":"object"}}]`

// ticking is a clock on which every look is a second later.
type ticking struct {
	mu sync.Mutex
	at time.Time
}

func (c *ticking) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

func (c *ticking) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// npm answers as npm does for a package "demo".
type npm struct {
	fail    string
	version string // empty: 1.2.3
	scripts bool   // the package has an install script
	hang    bool   // it works until it is ended
	gone    bool   // the registry does not have it
}

func (f *npm) Run(ctx context.Context, c install.CommandLine) (install.CommandOutput, error) {
	if f.hang {
		<-ctx.Done()
		return install.CommandOutput{}, ctx.Err()
	}
	if c.Args[0] == "config" {
		return install.CommandOutput{Stdout: []byte("https://user:hunter2@registry.example/npm/\n")}, nil
	}
	version := cmp.Or(f.version, "1.2.3")
	lock := `{"lockfileVersion":3,"packages":{"":{"dependencies":{"demo":"latest"}},"node_modules/demo":{"version":"` + version + `","integrity":"sha512-` +
		strings.Repeat("A", 86) + `==","bin":{"demo":"cli.js"}}}}`
	if f.scripts {
		lock = strings.Replace(lock, `"bin":`, `"hasInstallScript":true,"bin":`, 1)
	}
	if f.gone {
		return install.CommandOutput{Stderr: []byte("npm error code E404\nnpm error 404 Not Found - GET https://registry/demo\n")}, errors.New("exit status 1")
	}
	if c.Args[0] == "install" {
		return install.CommandOutput{}, os.WriteFile(filepath.Join(c.Dir, "package-lock.json"), []byte(lock), 0o600)
	}
	if f.fail != "" {
		return install.CommandOutput{Stderr: []byte(f.fail)}, errors.New("exit status 1")
	}
	dir := filepath.Join(c.Dir, "node_modules", "demo")
	return install.CommandOutput{}, errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"version":"`+version+`","bin":{"demo":"cli.js"}}`), 0o600),
		os.WriteFile(filepath.Join(dir, "cli.js"), []byte("#!/usr/bin/env node\n"), 0o600))
}

// place is a workspace on a machine; hosts come and go upon it.
type place struct {
	t     *testing.T
	ws    env.Workspace
	home  env.Home
	clock core.Clock
	start time.Duration // how long a server may take to start; 0: as long as usual
	npm   *npm
	*gate.Host
	up   *upstream.Manager
	in   *install.Installer
	auth *oauth.Client
	// remote is the server that is named; nil: none.
	remote gate.Remote
	// flows runs hook flows; nil: nobody does.
	flows gate.Flows
	// heard gets the names of servers whose tools have changed, once the host
	// was told.
	heard chan string
	stop  func()
}

// settle makes a workspace with one server "fake", and one from npm when asked.
func settle(t *testing.T, permissions string, more ...string) *place {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := placeAt(t, root)
	for _, dir := range []string{p.ws.Dir, p.home.Dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.write("../tools.json", tools)
	p.configure(permissions, more...)
	return p
}

// placeAt is the place that is, or will be, in a folder.
func placeAt(t *testing.T, root string) *place {
	return &place{
		t: t, ws: env.Workspace{Dir: filepath.Join(root, "ws"), Source: ".pml.json"}, home: env.Home{Dir: filepath.Join(root, "home")},
		clock: &ticking{at: time.Now()}, npm: &npm{},
	}
}

func (p *place) file(name string) string { return filepath.Join(p.ws.Dir, name) }

func (p *place) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(p.file(name), []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(p.file(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// configure writes .pml.json; more are arguments of the fake server's command.
func (p *place) configure(permissions string, more ...string) {
	p.t.Helper()
	args := append([]string{fakeArg, p.file("../tools.json")}, more...)
	raw, err := json.Marshal(map[string]any{
		"permissions": json.RawMessage(permissions),
		"mcpServers": map[string]any{
			"fake":  map[string]any{"command": os.Args[0], "args": args},
			"keyed": map[string]any{"command": os.Args[0], "args": args, "env": map[string]string{"API_KEY": "${API_KEY}"}},
			"demo":  map[string]any{"command": "npx", "args": append([]string{"-y", "demo"}, args...)},
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(".pml.json", string(raw))
}

// open starts a process of pml: what was known in memory is gone.
func (p *place) open() *place {
	p.t.Helper()
	if p.stop != nil {
		p.stop()
	}
	logger := slog.New(slog.DiscardHandler)
	var host atomic.Pointer[gate.Host]
	p.heard = make(chan string, 100)
	up := upstream.New(upstream.Options{
		Clock: p.clock, Limits: upstream.Limits{Start: p.start}, Logger: logger, ClientName: "pml", ClientVersion: "test", Local: map[string]upstream.LocalServer{gate.Builtin: workspace.New()},
		ToolsChanged: func(name, _ string) {
			if h := host.Load(); h != nil {
				h.ToolsChanged(name)
				p.heard <- name
			}
		},
	})
	in := install.New(install.Options{Home: p.home.Packages(), Clock: p.clock, Run: p.npm, LookPath: func(name string) (string, error) {
		if name == "node" {
			return os.Args[0], nil
		}
		return "/bin/" + name, nil
	}})
	h, err := gate.Open(gate.Options{
		Workspace: p.ws, Home: p.home, Environ: func(string) (string, bool) { return "", false },
		Upstream: up, Installer: in, Clock: p.clock, Logger: logger, OAuth: p.auth, Remote: p.remote, Flows: p.flows,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	host.Store(h)
	var once sync.Once
	p.up, p.in = up, in
	p.Host, p.stop = h, func() {
		once.Do(func() {
			if err := errors.Join(h.Close(), up.Close()); err != nil {
				p.t.Error(err)
			}
		})
	}
	p.t.Cleanup(p.stop)
	return p
}

// trust trusts what the workspace's files grant now.
func (p *place) trust() *place {
	p.t.Helper()
	cfg, err := env.Load(env.LoadOptions{Workspace: p.ws, Home: p.home, Environ: func(string) (string, bool) { return "", false }})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := p.home.TrustOf(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.home.SetTrust(s, s.Digest, time.Now()); err != nil {
		p.t.Fatal(err)
	}
	return p
}

func (p *place) call(tool, args string) engine.Call {
	p.t.Helper()
	digest, err := core.Digest(json.RawMessage(args))
	if err != nil {
		p.t.Fatal(err)
	}
	return engine.Call{RunID: "r", ID: "c1", Tool: tool, Args: json.RawMessage(args), Digest: digest, ArgsKnown: true}
}

// check is what the gates say, in one word: ok, an error code, or what they ask.
func (p *place) check(tool, args string) (string, engine.Verdict) {
	p.t.Helper()
	v := p.Check(p.t.Context(), p.call(tool, args))
	if v.Deny != nil {
		return string(v.Deny.Code), v
	}
	var asks []string
	for _, a := range v.Ask {
		asks = append(asks, string(a.Type))
	}
	if len(asks) == 0 {
		return "ok", v
	}
	return strings.Join(asks, "+"), v
}

func (p *place) want(tool, args, want string) engine.Verdict {
	p.t.Helper()
	got, v := p.check(tool, args)
	if got != want {
		detail := ""
		if v.Deny != nil {
			detail = v.Deny.Error()
		}
		p.t.Fatalf("%s %s: %s %s, want %s", tool, args, got, detail, want)
	}
	return v
}

// approve carries out the first question of a verdict.
func (p *place) approve(v engine.Verdict) error {
	p.t.Helper()
	raw, err := json.Marshal(v.Ask[0].Context)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.Apply(p.t.Context(), core.Approval{ID: "a", Type: v.Ask[0].Type, Subject: v.Ask[0].Subject, Tool: v.Ask[0].Tool, Digest: v.Ask[0].Digest, Context: raw}, func(string) {})
}

func (p *place) mustApprove(v engine.Verdict) {
	p.t.Helper()
	if err := p.approve(v); err != nil {
		p.t.Fatal(err)
	}
}
