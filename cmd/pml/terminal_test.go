//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// screen is what a command wrote to its terminal.
type screen struct {
	text string
	exit int
}

// reply is what a person types once a text is on the screen. What the text
// captured can be typed: $1.
type reply struct {
	on   *regexp.Regexp
	send string
}

func typed(on, send string) reply { return reply{regexp.MustCompile(on), send + "\n"} }

// terminal runs pml on a terminal of its own that answers no query. Whatever
// waits for an answer would run into the time limit.
func (m *machine) terminal(size pty.Winsize, env []string, replies []reply, args ...string) screen {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := m.command(ctx, args...)
	cmd.SysProcAttr = nil // pty makes a session of its own
	cmd.Env = append(append(cmd.Env, "TERM=xterm-256color"), env...)
	tty, err := pty.StartWithSize(cmd, &size)
	if err != nil {
		m.t.Fatal(err)
	}
	defer tty.Close()
	var out []byte
	chunk := make([]byte, 4096)
	for err == nil {
		var n int
		n, err = tty.Read(chunk)
		out = append(out, chunk[:n]...)
		if len(replies) == 0 {
			continue
		}
		if at := replies[0].on.FindSubmatchIndex(out); at != nil {
			if _, err := tty.Write(replies[0].on.Expand(nil, []byte(replies[0].send), out, at)); err != nil {
				m.t.Fatal(err)
			}
			replies = replies[1:]
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) { // the other end was closed
		m.t.Fatal(err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		m.t.Fatalf("pml %s waited for something: %q", strings.Join(args, " "), out)
	}
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		m.t.Fatal(err)
	}
	if len(replies) > 0 {
		m.t.Errorf("pml %s never showed %s: %q", strings.Join(args, " "), replies[0].on, out)
	}
	return screen{string(out), cmd.ProcessState.ExitCode()}
}

var usual = pty.Winsize{Rows: 24, Cols: 80}

// Scenario 28: in a terminal that never answers queries no command waits or
// writes an escape sequence.
func TestTerminal_NoEscapes(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := m.dag("dag.json", task("a", "rec:echo", `{"value":1}`, nil), task("b", "rec:echo", `{"value":"$a"}`, nil))
	m.execute(8, `await mcp.rec.danger({x: "1"})`, "--intent", "waits")
	for _, c := range []struct {
		exit int
		args []string
	}{
		{0, []string{"version"}},
		{0, []string{"--help"}},
		{0, []string{"execute", "--help"}},
		{0, nil},
		{0, []string{"approvals", "ls"}},
		{0, []string{"approvals", "ls", "-o", "wide"}},
		{0, []string{"approvals", "show", "@latest"}},
		{0, []string{"execute", "--code", `console.log("hi"); return await mcp.rec.slow({ms: 30, value: "x"})`}},
		{0, []string{"execute", file, "--json"}},
		{8, []string{"execute", "--code", `await mcp.rec.danger({x: "2"})`, "--on-approval", "exit"}},
		{1, []string{"execute", "--code", `throw new Error("no")`}},
		{0, []string{"plan", file}},
		{0, []string{"plan", "--code", "await mcp.rec.echo({value: 1})"}},
		{0, []string{"workflows", "ls"}},
		{0, []string{"tools", "ls"}},
		{0, []string{"events"}},
		{0, []string{"audit", "ls"}},
		{0, []string{"doctor"}},
		{0, []string{"trust", "--show"}},
		{0, []string{"config", "show"}},
		{0, []string{"completion", "bash"}},
		{0, []string{"completion", "zsh"}},
		{0, []string{"completion", "fish"}},
		{0, []string{"tui", "--help"}},
		{0, []string{"tui", "--print-keys"}},
		{2, []string{"tui", "--json"}},
		{2, []string{"tui", "--theme", "pink"}},
		{2, []string{"nonsense"}},
		{3, []string{"workflows", "show", "ffffffff"}},
	} {
		t.Run(strings.Join(c.args, "_"), func(t *testing.T) {
			s := m.in(t).terminal(usual, nil, nil, c.args...)
			if s.exit != c.exit || len(s.text) == 0 {
				t.Errorf("exit %d, want %d: %q", s.exit, c.exit, s.text)
			}
			harmless(t, s.text)
		})
	}
}

// harmless wants that a text cannot make a terminal do anything but write.
func harmless(t *testing.T, text string) {
	t.Helper()
	for i, r := range text {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			t.Errorf("the control character %#x at %d: %q", r, i, text[max(0, i-40):min(len(text), i+20)])
			return
		}
	}
}

// Scenario 29, the part without a screen: NO_COLOR, TERM=dumb, a small window,
// wide characters, and names with escape sequences in them.
func TestTerminal_HostileText(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	evil := "\x1b]0;owned\x07\x1b[2J日本語\u202e"
	script := `const evil = input.evil;
		console.log("log " + evil);
		try { await mcp.rec.fail({message: "bad " + evil}) } catch (e) {}
		try { await mcp.rec[evil]({}) } catch (e) {}
		await mcp.rec.echo({value: evil});
		return evil + " end"`
	input := `{"evil":"\u001b]0;owned\u0007\u001b[2J日本語\u202e"}`
	for _, env := range [][]string{nil, {"NO_COLOR=1"}, {"TERM=dumb"}} {
		for _, args := range [][]string{
			{"execute", "--code", script, "--input", input, "--intent", evil},
			{"execute", "--code", script, "--input", input, "--json"},
			{"workflows", "ls"}, {"workflows", "show", "@latest"}, {"workflows", "logs", "@latest"}, {"workflows", "result", "@latest"}, {"events"},
		} {
			s := m.terminal(pty.Winsize{Rows: 10, Cols: 40}, env, nil, args...)
			if s.exit != 0 {
				t.Errorf("%v %v: exit %d: %q", env, args[:2], s.exit, s.text)
			}
			harmless(t, s.text)
			if strings.Contains(s.text, "\u202e") {
				t.Errorf("%v: an override of the direction of text: %q", args[:2], s.text)
			}
		}
	}
	r := m.execute(8, `await mcp.rec.danger({x: input})`, "--input", `"\u001b[31mred\u009b"`)
	s := m.terminal(usual, nil, nil, "approvals", "show", string(r.CheckpointID))
	harmless(t, s.text)
	wants(t, s.text, "red")
	for _, args := range [][]string{{"execute", evil}, {evil}, {"workflows", "show", evil}, {"tools", "call", "rec:" + evil}} {
		harmless(t, m.terminal(usual, nil, nil, args...).text)
	}
}

// TestTerminal_Narrow: on a terminal lines fit; in a pipe nothing is cut.
func TestTerminal_Narrow(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	intent := strings.Repeat("long intent ", 20)
	m.ok("execute", "--code", "return 1", "--intent", intent)
	for line := range strings.Lines(m.terminal(pty.Winsize{Rows: 10, Cols: 40}, nil, nil, "workflows", "ls").text) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 40 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	wants(t, m.ok("workflows", "ls").Stdout, strings.TrimSpace(intent))
}

// TestTerminal_Prompt: on a terminal an approval is asked for, with all that it
// binds, and the answer counts; one of high risk takes more than a yes. Trust
// is asked for too.
func TestTerminal_Prompt(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.writeConfig(config{Permissions: map[string]any{"allow": []string{"rec"}, "ask": []string{"rec:write", "rec:danger"}}})
	if s := m.terminal(usual, nil, []reply{typed("type yes: ", "y")}, "trust"); s.exit != 8 {
		t.Errorf("trusted by y: %d %q", s.exit, s.text)
	}
	s := m.terminal(usual, nil, []reply{typed("type yes: ", "yes")}, "trust")
	harmless(t, s.text)
	if s.exit != 0 {
		t.Fatalf("exit %d: %q", s.exit, s.text)
	}
	execute := func(script string, replies ...reply) screen {
		s := m.terminal(usual, nil, replies, "execute", "--code", script)
		harmless(t, s.text)
		return s
	}
	ask := `\[l\]ater: $`
	s = execute(`return (await mcp.rec.write({path: "go"})).path`, typed(ask, ""), typed(`ater: \r\napprove[^\n]*ater: $`, "y"))
	wants(t, s.text, "tool_permission", `{"path":"go"}`)
	if s.exit != 0 || m.count("write") != 1 {
		t.Errorf("yes: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, typed(ask, "n")); s.exit != 9 || m.count("write") != 1 {
		t.Errorf("no: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, typed(ask, "a")); s.exit != 10 || m.count("write") != 1 {
		t.Errorf("abort: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, typed(ask, "l")); s.exit != 8 || m.count("write") != 1 {
		t.Errorf("later: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	if s = execute(`return await mcp.rec.danger({x: "1"})`, typed(ask, "y"), typed(`type ([0-9a-f]{4}) to approve: $`, "$1")); s.exit != 0 || m.count("danger") != 1 {
		t.Errorf("high risk: exit %d, %d calls: %q", s.exit, m.count("danger"), s.text)
	}
	if s = execute(`return await mcp.rec.danger({x: "2"})`, typed(ask, "y"), typed(`to approve: $`, "yes"), typed(`(?s)not approved.*ater: $`, "l")); s.exit != 8 || m.count("danger") != 1 {
		t.Errorf("high risk, a yes: exit %d, %d calls: %q", s.exit, m.count("danger"), s.text)
	}
}

// TestMan_AndCompletion: what is generated can be read by what it is for.
func TestMan_AndCompletion(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	dir := filepath.Join(m.Dir, "man")
	m.ok("man", dir)
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) < 30 {
		t.Errorf("%v: %d pages", err, len(pages))
	}
	script := m.write("completion.bash", m.ok("completion", "bash").Stdout)
	if out, err := exec.Command(requireTool(t, "bash"), "-n", script).CombinedOutput(); err != nil {
		t.Errorf("bash -n: %v\n%s", err, out)
	}
	for _, sh := range []string{"zsh", "fish"} {
		wants(t, m.ok("completion", sh).Stdout, "__complete")
	}
	wants(t, m.ok("__complete", "exec").Stdout, "execute\t")
}

// TestHelp_Examples runs the examples of every help text that can be run, with
// the ids of real runs: none of them is a usage error or names what is not there.
func TestHelp_Examples(t *testing.T) {
	t.Parallel()
	bash := requireTool(t, "bash")
	m := newMachine(t, config{Servers: map[string]map[string]any{"rec": nil}})
	m.write("a.txt", "text")
	m.write("script.ts", `return await mcp.workspace.read_file({path: input?.path ?? "a.txt"})`)
	two := m.dag("flow.yaml", task("a", "workspace:stat", `{"path":"."}`, nil), task("b", "workspace:stat", `{"path":"."}`, after("a")))
	m.dag("more.yaml", task("c", "workspace:stat", `{"path":"."}`, nil))
	bin := filepath.Join(m.Dir, "bin")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.write("../bin/pml", "#!/bin/sh\nexec '"+self+"' \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "pml"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Env = append(m.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	// Each id in an example stands for a run that waits, or for its approval.
	r := m.json(8, "execute", "--per-layer", two)
	ids := strings.NewReplacer("7f3a91c2", string(r.WorkflowID[:8]), "41d2e07b", string(r.CheckpointID[:8]), "41d2", string(r.CheckpointID[:8]), "@latest", string(r.WorkflowID[:8]))
	leaveOut := regexp.MustCompile(`pml init|generate-dag|EDITOR|--follow|watch|fpath|fish|jq|pml trust$|pml abort|pml continue|pml retry|wf result|workflows result|workflows rm|tools ls filesystem|approvals renew` +
		// Need a person, or servers and hosts that are not here; each has tests of its own.
		`|pml config pin|pml serve |pml serve$|pml server |--detach|--requirement|pml tui$|pml tui --(demo|plain|theme)|pml servers (check|connect|import .|lock files|rm|update)`)

	ran := 0
	for _, example := range m.examples() {
		if leaveOut.MatchString(example) {
			continue
		}
		ran++
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, bash, "-c", ids.Replace(example))
		cmd.Dir, cmd.Env = m.WS, m.Env
		if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != 8 {
			t.Errorf("%s: %v\n%s", example, err, out)
		}
		cancel()
	}
	if ran < 30 {
		t.Errorf("only %d examples ran", ran)
	}
}

// examples are the lines of the examples of all help texts.
func (m *machine) examples() []string {
	m.t.Helper()
	dir := filepath.Join(m.Dir, "man")
	m.ok("man", dir)
	pages, err := os.ReadDir(dir)
	if err != nil {
		m.t.Fatal(err)
	}
	seen := map[string]bool{}
	var out []string
	for _, page := range pages {
		args := strings.Split(strings.TrimSuffix(page.Name(), ".1"), "-")[1:]
		_, text, ok := strings.Cut(m.ok(append(args, "--help")...).Stdout, "Examples:\n")
		if !ok {
			m.t.Errorf("%s has no example", page.Name())
		}
		text, _, _ = strings.Cut(text, "\n\n")
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); !seen[line] {
				seen[line] = true
				out = append(out, line)
			}
		}
	}
	return out
}
