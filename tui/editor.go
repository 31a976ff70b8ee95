package tui

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/screen"
)

// editor is the command of the person's editor on a file: VISUAL or EDITOR,
// which may have arguments, as the shell reads them.
func (m *model) editor(ctx context.Context, file string) *exec.Cmd {
	cmd := editorOf(ctx, m.o.Environ, file)
	// The terminal itself, not what the program wraps around it.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = m.o.In, m.o.Out, m.o.Out
	return cmd
}

// EditText has a person edit a text in their editor, on the terminal of this process,
// and returns what they have left. The file is in a folder that nobody else can read.
func EditText(ctx context.Context, environ func(string) (string, bool), name, text string) (string, error) {
	d, err := newDraft(name, text, 0o600)
	if err != nil {
		return "", err
	}
	defer d.remove()
	cmd := editorOf(ctx, environ, d.file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", core.Errorf(core.CodeToolFailed, "the editor failed: %w; VISUAL or EDITOR names another one", err)
	}
	return d.read()
}

// editorOf is the command of the person's editor on a file.
func editorOf(ctx context.Context, environ func(string) (string, bool), file string) *exec.Cmd {
	line := ""
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if v, _ := environ(name); strings.TrimSpace(v) != "" {
			line = v
			break
		}
	}
	var cmd *exec.Cmd
	switch {
	case runtime.GOOS == "windows":
		args := append(strings.Fields(line), file)
		if line == "" {
			args = []string{"notepad", file}
		}
		cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	case line == "":
		cmd = exec.CommandContext(ctx, "vi", file)
	default:
		line += ` "$@"`
		if !strings.ContainsAny(line, "=;&|<>()") {
			line = "exec " + line // no shell in between that could be ended alone
		}
		cmd = exec.CommandContext(ctx, "sh", "-c", line, "sh", file)
	}
	if cmd.Cancel != nil && runtime.GOOS != "windows" {
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it restores the terminal
		cmd.WaitDelay = grace
	}
	return cmd
}

// edit runs the editor on a draft; then says what comes after it.
func (m *model) edit(d draft, after func(m *model, now time.Time, err error) tea.Cmd) tea.Cmd {
	return m.exec(m.editor(m.reading, d.file), func(err error) tea.Msg {
		if err != nil {
			err = core.Errorf(core.CodeToolFailed, "the editor failed: %w; VISUAL or EDITOR names another one", err)
		}
		return doneMsg{apply: func(m *model, now time.Time) tea.Cmd {
			return tea.Batch(m.back(), after(m, now, err))
		}}
	})
}

// view shows text in the person's editor. What is changed there is thrown away.
func (m *model) view(i screen.View, now time.Time) tea.Cmd {
	d, err := newDraft(i.Name, i.Text, 0o400)
	if err != nil {
		m.say(screen.Bad, problem("cannot show it", err), now)
		return nil
	}
	return m.edit(d, func(m *model, now time.Time, err error) tea.Cmd {
		d.remove()
		if err != nil {
			m.say(screen.Bad, problem("cannot show it", err), now)
		}
		return nil
	})
}

// save writes text to a new file.
func (m *model) save(i screen.Save) tea.Cmd {
	file := filepath.Join(m.dir, fileName(i.Name))
	return m.effect(func(context.Context) then {
		err := writeNew(file, i.Text)
		return func(m *model, now time.Time) tea.Cmd {
			shown := core.Visible(file, 200, false)
			switch {
			case os.IsExist(err):
				m.say(screen.Bad, shown+" is there already; nothing was written", now)
			case err != nil:
				m.say(screen.Bad, problem("cannot write "+shown, err), now)
			default:
				m.say(screen.Good, "saved to "+shown, now)
			}
			return nil
		}
	})
}

// writeNew writes a file that must not be there, and leaves no half of one.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(file)
	}
	return err
}

// maxName bounds the name of a file, in bytes.
const maxName = 100

// fileName makes a name for a file out of text from anywhere: no folder, no
// hidden file, nothing that a shell or a terminal reads anything into.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
	if len(name) > maxName {
		ext := filepath.Ext(name)
		if len(ext) > 10 {
			ext = ""
		}
		name = name[:maxName-len(ext)] + ext
	}
	if name = strings.TrimLeft(name, ".-"); name == "" {
		return "pml.txt"
	}
	return name
}
