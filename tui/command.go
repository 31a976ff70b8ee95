package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/screen"
)

// maxOutput is how much of what a command prints is shown, in bytes.
const maxOutput = 256 << 10

// started is a command line of pml that runs behind the program.
type started struct {
	line string // safe to show
	stop context.CancelFunc
}

// commands are the command lines of pml that run behind the program, newest last.
type commands struct {
	running []*started
	leaving bool // whoever wants to leave knows that they would be stopped
}

// command runs a command line of pml behind the program.
func (m *model) command(i screen.Command, now time.Time) tea.Cmd {
	args, err := splitLine(i.Line)
	switch {
	case err != nil:
		m.say(screen.Bad, problem("nothing was run", err), now)
		return nil
	case m.o.Command == nil || len(args) == 0:
		m.say(screen.Bad, "nothing was run: there is no command", now)
		return nil
	case endless(args):
		m.say(screen.Bad, "nothing was run: what goes on and on is shown by the panels, or by pml in another terminal", now)
		return nil
	case asksPerson(args):
		return m.shell(screen.Shell{Args: args}, now)
	}
	args = waitsHere(args)
	ctx, stop := context.WithCancel(m.reading)
	c := &started{line: core.Visible("pml "+i.Line, 80, false), stop: stop}
	m.commands.running = append(m.commands.running, c)
	m.say(screen.Note, m.commands.status(), now)
	return m.launch(ctx, false, func(ctx context.Context) then {
		defer stop()
		out := &bounded{}
		code := m.o.Command(ctx, args, out)
		text := out.text()
		return func(m *model, now time.Time) tea.Cmd {
			m.say(screen.Note, m.commands.ended(c), now)
			m.screen.ShowOutput(i.Line, text, code, now)
			m.feed.Refresh() // it may have changed anything
			return nil
		}
	})
}

// asking are the commands that ask a person at a terminal, or open an editor there.
var asking = map[string][]string{
	"permissions": {"allow", "ask", "deny", "rm"},
	"servers":     {"add", "rm", "install", "import", "update", "connect"},
	"flows":       {"edit", "rm"},
	"config":      {"pin"},
}

// asksPerson reports whether a command needs the terminal, to ask on.
func asksPerson(args []string) bool {
	return slices.Contains([]string{"trust", "init", "uninstall", "approve", "deny", "resume"}, args[0]) || len(args) > 1 && slices.Contains(asking[args[0]], args[1])
}

// waitsHere has a run that is begun here wait for what is decided here: without a terminal of its
// own its command would end at the first question.
func waitsHere(args []string) []string {
	says := func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return slices.Contains([]string{"--on-approval", "--detach", "--intent", "-h", "--help"}, name)
	}
	if !slices.Contains([]string{"run", "execute"}, args[0]) || slices.ContainsFunc(args, says) {
		return args
	}
	return append([]string{args[0], "--on-approval", "wait"}, args[1:]...)
}

// endless reports whether a command goes on until it is stopped: what it prints
// would be seen only then.
func endless(args []string) bool {
	var words []string
	short := false
	for _, a := range args {
		switch {
		case a == "--follow", strings.HasPrefix(a, "--follow=") && a != "--follow=false":
			return true
		case strings.HasPrefix(a, "--"):
		case strings.HasPrefix(a, "-"):
			short = short || strings.Contains(a, "f")
		default:
			words = append(words, a)
		}
	}
	runs := len(words) > 0 && slices.Contains([]string{"workflows", "workflow", "wf", "runs"}, words[0])
	watch := runs && len(words) > 1 && words[1] == "watch"
	return watch || short && (runs || len(words) > 0 && words[0] == "events")
}

// ended forgets a command that has ended, and returns what to show of the commands then.
func (c *commands) ended(one *started) string {
	c.running = slices.DeleteFunc(c.running, func(other *started) bool { return other == one })
	if len(c.running) > 0 {
		return c.status()
	}
	c.leaving = false
	return "ended: " + one.line
}

// status names the newest command, and counts the others. At least one runs.
func (c *commands) status() string {
	n := len(c.running)
	text := "running: " + c.running[n-1].line
	if n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	return text + "   esc stops it"
}

// stopCommand stops the newest command, where a key means that: nothing is open
// that it would close.
func (m *model) stopCommand(k keys.Key, now time.Time) bool {
	n := len(m.commands.running)
	if n == 0 || k.Name != "esc" || k.Paste || m.screen.Open() {
		return false
	}
	c := m.commands.running[n-1]
	c.stop()
	m.say(screen.Note, "stopping: "+c.line, now)
	return true
}

// bounded keeps the beginning of what is written.
type bounded struct {
	kept []byte
	gone int
}

// Write implements io.Writer; what is too much is left out.
func (b *bounded) Write(p []byte) (int, error) {
	room := max(maxOutput-len(b.kept), 0)
	n := min(room, len(p))
	b.kept = append(b.kept, p[:n]...)
	b.gone += len(p) - n
	return len(p), nil
}

func (b *bounded) text() string {
	if b.gone == 0 {
		return string(b.kept)
	}
	return fmt.Sprintf("%s\n… (%d more bytes)", b.kept, b.gone)
}

// splitLine splits a command line as a shell does: at blanks, but for those in
// quotes or behind a backslash. Nothing is expanded.
func splitLine(line string) ([]string, error) {
	var args []string
	var b strings.Builder
	word, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, word = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote, word = r, true
		case r == ' ' || r == '\t':
			if word {
				args = append(args, b.String())
				b.Reset()
				word = false
			}
		default:
			b.WriteRune(r)
			word = true
		}
	}
	if quote != 0 || escaped {
		return nil, core.Errorf(core.CodeUsage, "a quote is not closed")
	}
	if word {
		args = append(args, b.String())
	}
	return args, nil
}
