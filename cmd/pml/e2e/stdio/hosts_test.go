//go:build unix

package stdio_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/testdata/clients/hosts/model"
	"github.com/casys-ai/pml/testdata/clients/hosts/trial"
)

// TestHosts: agent hosts as their makers publish them, each with a scripted
// model and a home of its own, and without a person before it. pml init tells
// the host of pml; its tools are listed, a run is executed and its result comes
// back to the model, a question is declined or not shown, and an agent that then
// approves by itself succeeds, unless people decide.
func TestHosts(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	for _, h := range trial.Hosts {
		for _, decider := range []string{"any", "human"} {
			t.Run(h.Name+"/"+decider, func(t *testing.T) { // one by one: most take seconds of processor time to start
				c := pmltest.AllowRec()
				c.Permissions["ask"] = []string{"rec:inc"}
				c.Approvals = map[string]any{"decider": decider}
				hosted := hostOn(t, h, c)
				hosted.loosen()
				hosted.works()
				hosted.checks(decider == "human")
				if decider == "any" {
					hosted.checksQuestion()
				}
			})
		}
	}
}

// TestHosts_CodexAsks: without default_tools_approval_mode, codex exec refuses
// each tool of pml, since there is nobody whom it could ask.
func TestHosts_CodexAsks(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == "codex" })
	hosted := hostOn(t, trial.Hosts[i], pmltest.AllowRec())
	hosted.works()
	for _, r := range hosted.results() {
		pmltest.Wants(t, r, "requires approval")
	}
	if calls := hosted.Calls(); len(calls) > 0 {
		t.Errorf("called: %v", calls)
	}
}

// TestHosts_Hook: Claude Code asks pml before a command of its own, and where it would
// ask a person. A rule refuses one, a person approves another on a terminal, and what
// nobody answers is not run, since nobody is before the host either.
func TestHosts_Hook(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == "claude-code" })
	for answer, wait := range map[string]string{"approved": "50s", "nobody": "1s"} {
		t.Run(answer, func(t *testing.T) {
			p := hostOn(t, trial.Hosts[i], pmltest.AllowRec())
			p.Write(".pml.json", `{"permissions": {"deny": [{"tool": "claude:Bash", "where": "args.command.contains('forbidden')"}]}, "hooks": {"wait": "`+wait+`"}}`)
			p.OK("trust", "--yes")
			p.OK("init", "--hooks", "--host", "claude-code", "--yes")
			bash := func(file string) model.Turn {
				return model.Turn{Tool: "Bash", Own: true, Args: map[string]any{"command": "touch " + file, "description": "make a file"}}
			}
			p.model.Turns = []model.Turn{bash("forbidden"), bash("made"), {Say: theEnd}}
			ctx, cancel := context.WithTimeout(context.Background(), hostPatience)
			defer cancel()
			var said pmltest.Buffer
			cmd := p.started(ctx, p.host.Headless)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if answer == "approved" {
				var list []core.Approval
				pmltest.WaitFor(t, "an approval of the host", func() bool { list = p.Approvals(); return len(list) > 0 })
				if ap := list[0]; ap.Type != core.ApproveHost || ap.Tool != "claude:Bash" {
					t.Errorf("%+v", ap)
				}
				p.ApproveOnTerminal(list[0])
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			r := p.results()
			pmltest.Wants(t, r[0], "permissions.deny")
			_, err := os.Stat(filepath.Join(p.WS, "made"))
			if (err == nil) != (answer == "approved") || len(p.Approvals()) > 0 {
				t.Errorf("%v: %q", err, r[1])
			}
		})
	}
}

// TestHosts_Search: in Claude Code the model finds a tool with search_tools, and calls it
// with call_tool. The host knows no others of all that is exposed.
func TestHosts_Search(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == "claude-code" })
	p := hostOn(t, trial.Hosts[i], pmltest.AllowRec())
	p.Write(".pml.json", fmt.Sprintf(`{"mcpServers": {"rec": {"command": %q, "args": ["--log", %q]}}, "permissions": {"allow": ["rec:*"]},
		"expose": {"mode": "search", "tools": ["rec"]}}`, pmltest.Recorder(t), p.Log))
	p.OK("trust", "--yes")
	p.loosen()
	p.model.Turns = []model.Turn{
		{Tool: api.SearchTools, Args: map[string]any{"query": "rec:inc"}},
		{Tool: api.CallTool, Args: map[string]any{"name": "rec:inc", "arguments": map[string]any{"key": "k"}}},
		{Say: theEnd},
	}
	p.works()
	r := p.results()
	pmltest.Wants(t, r[0], "rec:inc", "inputSchema")
	pmltest.Wants(t, r[1], "count")
	var offered []string
	for _, s := range p.model.Seen() {
		offered = append(offered, s.Offered...)
	}
	other := func(name string) bool { return !slices.Contains(append(ownTools, api.SearchTools, api.CallTool), name) }
	if !slices.Contains(offered, api.SearchTools) || !slices.Contains(offered, api.CallTool) || slices.ContainsFunc(offered, other) {
		t.Errorf("the model is offered %q", offered)
	}
	if p.Count("inc") != 1 {
		t.Errorf("inc ran %d times", p.Count("inc"))
	}
}

// hostFiles is where the hosts and their versions stand, in testdata.
var hostFiles = filepath.Join("clients", "hosts")

// hostPackages is the folder with the hosts. Their makers publish parts for other
// systems that the registry may lack, which npm ci does not forgive.
func hostPackages(t *testing.T) string {
	t.Helper()
	skiptest.Tool(t, "node")
	dir := filepath.Join(pmltest.NPMPackages(t, hostFiles, "install"), "node_modules")
	t.Logf("the hosts are installed in %s", dir)
	return dir
}

// hosted is a machine on which a host works.
type hosted struct {
	*pmltest.Machine
	trial.Place
	host       trial.Host
	documented row
	model      *model.Model
	said       string // by the host
}

// hostOn sets a host up on a machine of its own, and tells it of pml.
func hostOn(t *testing.T, h trial.Host, c pmltest.Config) *hosted {
	t.Helper()
	packages := hostPackages(t)
	m := pmltest.NewMachine(t, c)
	if out, err := exec.Command("git", "init", "-q", m.WS).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	scripted := &model.Model{Turns: []model.Turn{
		{Tool: "execute", Args: map[string]any{"code": `return await mcp.rec.echo({value: "it came back"})`}},
		{Tool: "execute", Args: map[string]any{"code": `return (await mcp.rec.inc({key: "k"})).count`}},
		{Tool: "approval_response", Args: map[string]any{"workflow_id": "$workflow_id", "checkpoint_id": "$checkpoint_id", "approved": true}},
		{Say: theEnd},
	}}
	server := httptest.NewServer(scripted)
	t.Cleanup(server.Close)
	p := &hosted{Machine: m, host: h, documented: documented(t, h), model: scripted, Place: trial.Place{Packages: packages, Home: m.Dir, Workspace: m.WS, Model: server.URL}}
	if err := p.Settle(h); err != nil {
		t.Fatal(err)
	}
	p.program()
	m.OK("init", "--host", h.Name, "--yes")
	return p
}

// program puts a pml into the PATH. Hosts hand on what they like of their
// environment, so it brings its own; the workspace it finds by itself.
func (p *hosted) program() {
	p.T.Helper()
	var text strings.Builder
	text.WriteString("#!/bin/sh\n")
	for _, e := range p.Machine.Env {
		name, value, _ := strings.Cut(e, "=")
		if name != "PATH" && name != "PML_WORKSPACE" {
			fmt.Fprintf(&text, "export %s='%s'\n", name, value)
		}
	}
	fmt.Fprintf(&text, "exec '%s' \"$@\"\n", p.Binary())
	bin := filepath.Join(p.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		p.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "pml"), []byte(text.String()), 0o755); err != nil {
		p.T.Fatal(err)
	}
	p.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func (p *hosted) loosen() {
	p.T.Helper()
	if err := p.Loosen(p.host); err != nil {
		p.T.Fatal(err)
	}
}

// started is the host with arguments, not started.
func (p *hosted) started(ctx context.Context, before []string) *exec.Cmd {
	p.T.Helper()
	args := p.Args(p.host, before, "Do what there is to do.")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = p.WS
	path := p.Machine.Env[len(p.Machine.Env)-1] // see program
	cmd.Env = append(p.Place.Env(p.host), path, "TMPDIR="+os.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// hostPatience bounds what a host does without a person. opencode takes up to
// 20 s on a busy machine, most of it to start.
var hostPatience = 2 * pmltest.Patience

// works runs the host without a person before it, to its end.
func (p *hosted) works() {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hostPatience)
	defer cancel()
	cmd := p.started(ctx, p.host.Headless)
	out, err := cmd.CombinedOutput()
	p.said = string(out)
	if ctx.Err() != nil {
		p.T.Fatalf("%s was waited for %s to end: %v\nit asked its model: %+v\nit said:\n%s", p.host.Title, hostPatience, err, p.model.Seen(), p.said)
	}
	if err != nil {
		p.T.Fatalf("%s: %v\nit asked its model: %+v\nit said:\n%s", p.host.Title, err, p.model.Seen(), p.said)
	}
}

// results are those of the calls that the model made, as the host gave them.
func (p *hosted) results() []string {
	p.T.Helper()
	var out []string
	for _, s := range p.model.Seen() {
		if len(s.Results) > len(out) {
			out = s.Results
		}
	}
	if len(out) != len(p.model.Turns)-1 {
		p.T.Fatalf("the model got %d results: %q\nit was asked: %+v\nthe host said:\n%s", len(out), out, p.model.Seen(), p.said)
	}
	return out
}

// checks holds what came of the work to what people or the agent may decide.
func (p *hosted) checks(human bool) {
	p.T.Helper()
	var offered []string
	for _, s := range p.model.Seen() {
		offered = append(offered, s.Offered...)
	}
	slices.Sort(offered)
	tools := slices.Sorted(slices.Values(ownTools))
	if got := slices.Compact(offered); !slices.Equal(got, tools) {
		p.T.Errorf("the model is offered %q, want %q", got, tools)
	}
	r := p.results()
	pmltest.Wants(p.T, r[0], "success", "it came back")
	pmltest.Wants(p.T, r[1], "approval_required", "rec:inc")
	rows := p.OK("audit", "ls", "--json").Stdout
	if human {
		pmltest.Wants(p.T, r[2], "awaiting_human", "nothing was decided")
		pmltest.Wants(p.T, rows, "refused", "awaiting_human")
		if open := p.Approvals(); len(open) != 1 || p.Count("inc") != 0 {
			p.T.Errorf("%d approvals wait, inc ran %d times", len(open), p.Count("inc"))
		}
		return
	}
	pmltest.Wants(p.T, r[2], "success")
	if by := regexp.MustCompile(`"client": ?\{\s*"name": ?"([^"]+)"`).FindStringSubmatch(rows); by == nil || p.Count("inc") != 1 || !strings.Contains(rows, string(core.ApprovalApproved)) {
		p.T.Errorf("inc ran %d times, decided by %v: %s", p.Count("inc"), by, rows)
	}
}

// theEnd is what the model says when it has nothing to do any more.
const theEnd = "That is all."

// TestHosts_Form: pml's question is a form in Codex's own terminal. Enter sends
// it as it is, which approves, and a no is a no. (Claude Code draws in ways that
// the terminal of these tests does not know; docs/hosts.md has what was seen.)
func TestHosts_Form(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == "codex" })
	for answer, denies := range map[string]bool{"approved": false, "denied": true} {
		t.Run(answer, func(t *testing.T) {
			c := pmltest.AllowRec()
			c.Permissions["ask"] = []string{"rec:inc"}
			p := hostOn(t, trial.Hosts[i], c)
			p.model.Turns = []model.Turn{p.model.Turns[1], {Say: theEnd}}
			p.loosen()
			s := p.inTerminal()
			s.Shows("Allow rec:inc?", `arguments: {"key":"k"}`, "› 1. True")
			// pml takes an answer within instant (core/mcp/elicit.go) for that of a program; a person needs longer.
			<-time.After(time.Second)
			// A key that comes too early does nothing.
			if denies {
				s.Presses("\x1b[B", "› 2. False", 5*time.Second)
			}
			s.Presses("\r", theEnd, 5*time.Second)
			if n := p.Count("inc"); (n == 1) == denies {
				t.Errorf("inc ran %d times", n)
			}
			pmltest.Wants(t, p.OK("audit", "ls", "--json").Stdout, "elicitation", answer)
			if t.Failed() {
				t.Logf("the model got: %q", p.results())
			}
		})
	}
}

// inTerminal starts the host for a person before a terminal.
func (p *hosted) inTerminal() *pmltest.Emulator {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hostPatience)
	p.T.Cleanup(cancel)
	s := p.OnScreen(120, 45, p.started(ctx, p.host.Interactive))
	p.T.Cleanup(func() {
		for _, pid := range pmltest.Descendants(p.T, s.Cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
			pmltest.WaitFor(p.T, "what the host has started is gone", func() bool { return syscall.Kill(pid, 0) != nil })
		}
	})
	return s
}
