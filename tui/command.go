package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/screen"
)

// maxOutput is how much of what a command prints is shown, in bytes.
const maxOutput = 256 << 10

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
	}
	return m.effect(func(ctx context.Context) then {
		out := &bounded{}
		code := m.o.Command(ctx, args, out)
		text := out.text()
		return func(m *model, now time.Time) tea.Cmd {
			m.screen.ShowOutput(i.Line, text, code, now)
			m.feed.Refresh() // it may have changed anything
			return nil
		}
	})
}

// bounded keeps the beginning of what is written.
type bounded struct {
	kept []byte
	gone int
}

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

// shellLine is an argument vector as a line for a shell.
func shellLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !plainInShell(r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}

func plainInShell(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r)
}
