//go:build unix

package terminal_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// Scenario 28: in a terminal that never answers queries no command waits or
// writes an escape sequence.
func TestTerminal_NoEscapes(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts each command several times")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.DAG("dag.json", pmltest.Task("a", "rec:echo", `{"value":1}`, nil), pmltest.Task("b", "rec:echo", `{"value":"$a"}`, nil))
	m.Execute(8, `await mcp.rec.danger({x: "1"})`, "--intent", "waits")
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
			s := m.In(t).Terminal(pmltest.UsualSize, nil, nil, c.args...)
			if s.Exit != c.exit || len(s.Text) == 0 {
				t.Errorf("exit %d, want %d: %q", s.Exit, c.exit, s.Text)
			}
			pmltest.WantHarmless(t, s.Text)
		})
	}
}

// Scenario 29, the part without a screen: NO_COLOR, TERM=dumb, a small window,
// wide characters, and names with escape sequences in them.
func TestTerminal_HostileText(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
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
			s := m.Terminal(pty.Winsize{Rows: 10, Cols: 40}, env, nil, args...)
			if s.Exit != 0 {
				t.Errorf("%v %v: exit %d: %q", env, args[:2], s.Exit, s.Text)
			}
			pmltest.WantHarmless(t, s.Text)
			if env != nil {
				pmltest.WantPlain(t, s.Text)
			}
			if strings.Contains(s.Text, "\u202e") {
				t.Errorf("%v: an override of the direction of text: %q", args[:2], s.Text)
			}
		}
	}
	r := m.Execute(8, `await mcp.rec.danger({x: input})`, "--input", `"\u001b[31mred\u009b"`)
	s := m.Terminal(pmltest.UsualSize, []string{"NO_COLOR=1"}, nil, "approvals", "show", string(r.CheckpointID))
	pmltest.WantPlain(t, s.Text)
	pmltest.Wants(t, s.Text, "red")
	for _, args := range [][]string{{"execute", evil}, {evil}, {"workflows", "show", evil}, {"tools", "call", "rec:" + evil}} {
		pmltest.WantHarmless(t, m.Terminal(pmltest.UsualSize, nil, nil, args...).Text)
	}
}

// TestTerminal_Narrow: on a terminal lines fit; in a pipe nothing is cut.
func TestTerminal_Narrow(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	intent := strings.Repeat("long intent ", 20)
	m.OK("execute", "--code", "return 1", "--intent", intent)
	for line := range strings.Lines(m.Terminal(pty.Winsize{Rows: 10, Cols: 40}, nil, nil, "workflows", "ls").Text) {
		if n := len([]rune(strings.TrimRight(pmltest.Uncoloured(line), "\r\n"))); n > 40 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	pmltest.Wants(t, m.OK("workflows", "ls").Stdout, core.OneLine(intent, core.NameRunes))
	pmltest.Wants(t, m.OK("workflows", "show", "@latest").Stdout, strings.TrimSpace(intent))
}

// TestTerminal_Prompt: on a terminal an approval is asked for, with all that it
// binds, and the answer counts; one of high risk takes more than a yes. Trust
// is asked for too.
func TestTerminal_Prompt(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.WriteConfig(pmltest.Config{Permissions: map[string]any{"allow": []string{"rec"}, "ask": []string{"rec:write", "rec:danger"}}})
	if s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed("trust this.*: ", "no")}, "trust"); s.Exit != 8 {
		t.Errorf("trusted by something else: %d %q", s.Exit, s.Text)
	}
	s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed("trust this.*: ", "yes")}, "trust")
	pmltest.WantHarmless(t, s.Text)
	if s.Exit != 0 {
		t.Fatalf("exit %d: %q", s.Exit, s.Text)
	}
	execute := func(script string, replies ...pmltest.Reply) pmltest.TerminalOutput {
		s := m.Terminal(pmltest.UsualSize, nil, replies, "execute", "--code", script)
		pmltest.WantHarmless(t, s.Text)
		return s
	}
	ask := `\[l\]ater: $`
	s = execute(`return (await mcp.rec.write({path: "go"})).path`, pmltest.Typed(ask, ""), pmltest.Typed(`(?s)press enter again\r\napprove.*ater: $`, "y"))
	pmltest.Wants(t, s.Text, "tool_permission", "path  go")
	if s.Exit != 0 || m.Count("write") != 1 {
		t.Errorf("yes: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, pmltest.Typed(ask, "n"), pmltest.Typed(`reason \(enter sends the no, also without one\): $`, "not this one")); s.Exit != 9 || m.Count("write") != 1 {
		t.Errorf("no: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, pmltest.Typed(ask, "a")); s.Exit != 10 || m.Count("write") != 1 {
		t.Errorf("abort: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	if s = execute(`await mcp.rec.write({path: "stop"})`, pmltest.Typed(ask, "l")); s.Exit != 8 || m.Count("write") != 1 {
		t.Errorf("later: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	if s = execute(`return await mcp.rec.danger({x: "1"})`, pmltest.Typed(ask, "y"), pmltest.Typed(`type ([0-9a-f]{4}) to approve: $`, "$1")); s.Exit != 0 || m.Count("danger") != 1 {
		t.Errorf("high risk: exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
	if s = execute(`return await mcp.rec.danger({x: "2"})`, pmltest.Typed(ask, "y"), pmltest.Typed(`to approve: $`, "yes"), pmltest.Typed(`(?s)not approved.*ater: $`, "l")); s.Exit != 8 || m.Count("danger") != 1 {
		t.Errorf("high risk, a yes: exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
}

// TestMan_AndCompletion: what is generated can be read by what it is for.
func TestMan_AndCompletion(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	dir := filepath.Join(m.Dir, "man")
	m.OK("man", dir)
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) < 30 {
		t.Errorf("%v: %d pages", err, len(pages))
	}
	script := m.Write("completion.bash", m.OK("completion", "bash").Stdout)
	if out, err := exec.Command(skiptest.Tool(t, "bash"), "-n", script).CombinedOutput(); err != nil {
		t.Errorf("bash -n: %v\n%s", err, out)
	}
	for _, sh := range []string{"zsh", "fish"} {
		pmltest.Wants(t, m.OK("completion", sh).Stdout, "__complete")
	}
	pmltest.Wants(t, m.OK("__complete", "exec").Stdout, "execute\t")
}

// TestUninstall_NoHome: where pml's own folder is gone, to uninstall a workspace that forbids something does not
// make the folder again.
func TestUninstall_NoHome(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	file, home := m.Write(".pml.json", `{"permissions": {"deny": ["rec:put"]}}`), filepath.Join(m.Dir, "gone")
	m.OK("uninstall", "--here", "--workspace", "--yes", "--home", home)
	for _, name := range []string{file, home} {
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// TestHelp_Examples runs the examples of every help text that can be run, with
// the ids of real runs: none of them is a usage error or names what is not there.
func TestHelp_Examples(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "runs every example of --help")
	bash := skiptest.Tool(t, "bash")
	m := pmltest.NewMachine(t, pmltest.Config{
		Servers:     map[string]map[string]any{"rec": nil},
		Permissions: map[string]any{"allow": []string{"fs:read_file", "fs:move_*"}}, // to be removed by an example
	})
	m.Write("a.txt", "text")
	m.Write("src/a.txt", "text")
	m.Write("event.json", `{"hook_event_name": "PreToolUse", "cwd": "`+m.WS+`", "tool_name": "Bash", "tool_input": {"command": "npm test"}}`)
	m.OK("flows", "new", "docs", "--template", "approve-outside")
	m.Write(".claude/settings.json", `{"hooks": {"PreToolUse": [{"matcher": "mcp__rec__.*", "hooks": [{"type": "command", "command": "true"}]}]}}`)
	m.Write("script.ts", `return await mcp.workspace.read_file({path: input?.path ?? "a.txt"})`)
	m.Write("nightly.ts", "return 1")
	m.OK("execute", "nightly.ts")
	two := m.DAG("flow.yaml", pmltest.Task("a", "workspace:stat", `{"path":"."}`, nil), pmltest.Task("b", "workspace:stat", `{"path":"."}`, pmltest.After("a")))
	m.DAG("more.yaml", pmltest.Task("c", "workspace:stat", `{"path":"."}`, nil))
	bin := filepath.Join(m.Dir, "bin")
	m.Write("../bin/pml", "#!/bin/sh\nexec '"+m.Binary()+"' \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "pml"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Env = append(m.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	// Each id in an example stands for a run that waits, or for its approval.
	r := m.JSON(8, "execute", "--per-layer", two)
	m.Write("run.html", m.OK("workflows", "export", string(r.WorkflowID), "--html").Stdout)
	ids := strings.NewReplacer("7f3a91c2", string(r.WorkflowID[:8]), "41d2e07b", string(r.CheckpointID[:8]), "41d2", string(r.CheckpointID[:8]), "@latest", string(r.WorkflowID[:8]))
	leaveOut := regexp.MustCompile(`pml init|generate-dag|EDITOR|--follow|watch|fpath|fish|jq|pml trust$|pml abort|pml approve|pml deny|pml continue|pml retry|wf result|workflows result|workflows rm|tools ls filesystem|approvals renew` +
		// Need a person, a model, or machines, servers and hosts that are not here; each has tests of its own.
		`|^ssh |pml agent|pml models check|pml config pin|pml doctor --engine|pml restore |pml serve |pml serve$|pml server |--detach|--requirement|pml tui$|pml tui --(demo|plain|theme)|pml flows (edit|enable|new|rm|test hide)|pml (halt|resume)|pml notify (run|test)|pml pair rm|run\.html --html|suggest .*--apply|pml servers (check|connect|import .|install|lock files|rm|update)|pml uninstall`)

	ran := 0
	for _, example := range examples(m) {
		if leaveOut.MatchString(example) {
			continue
		}
		ran++
		ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
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
func examples(m *pmltest.Machine) []string {
	m.T.Helper()
	dir := filepath.Join(m.Dir, "man")
	m.OK("man", dir)
	pages, err := os.ReadDir(dir)
	if err != nil {
		m.T.Fatal(err)
	}
	seen := map[string]bool{}
	var out []string
	for _, page := range pages {
		args := strings.Split(strings.TrimSuffix(page.Name(), ".1"), "-")[1:]
		_, text, ok := strings.Cut(m.OK(append(args, "--help")...).Stdout, "Examples:\n")
		if !ok {
			m.T.Errorf("%s has no example", page.Name())
		}
		text, _, _ = strings.Cut(text, "\n\n")
		text = strings.ReplaceAll(text, "\\\n", "") // a command that goes on below
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); !seen[line] {
				seen[line] = true
				out = append(out, line)
			}
		}
	}
	return out
}
