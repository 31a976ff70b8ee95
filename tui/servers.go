package tui

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
)

// Servers looks at the MCP servers of the workspace.
type Servers interface {
	// Servers lists them without starting anything.
	Servers(ctx context.Context) ([]api.ServerInfo, error)
	// CheckServers starts those that may be started, and says how they stand.
	CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error)
}

// loadServers reads the servers.
func (m *model) loadServers() tea.Cmd {
	if m.o.Servers == nil {
		m.screen.ShowServers(nil, true, errors.New("this terminal has no set-up of a machine"))
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		list, err := m.o.Servers.Servers(ctx)
		return func(m *model, _ time.Time) tea.Cmd { m.screen.ShowServers(list, true, err); return nil }
	})
}

// checkServer starts one server and says how it stands.
func (m *model) checkServer(i screen.CheckServer, now time.Time) tea.Cmd {
	if m.o.Servers == nil {
		return nil
	}
	name := core.Visible(i.Name, 60, false)
	m.say(screen.Note, "starting "+name, now)
	return m.effect(func(ctx context.Context) then {
		list, err := m.o.Servers.CheckServers(ctx, i.Name)
		return func(m *model, now time.Time) tea.Cmd {
			switch {
			case err != nil:
				m.say(screen.Bad, problem(name, err), now)
				return nil
			case len(list) == 1 && list[0].State == api.ServerReady:
				m.say(screen.Good, name+" answers", now)
			case len(list) == 1:
				m.say(screen.Bad, name+" cannot be called yet: see what it needs", now)
			}
			m.screen.ShowServers(list, false, nil)
			return nil
		}
	})
}

// shell lends the terminal to a command line of pml.
func (m *model) shell(i screen.Shell, now time.Time) tea.Cmd {
	line := "pml " + strings.Join(i.Args, " ")
	if m.o.Self == nil {
		m.say(screen.Note, "run it in another terminal: "+line, now)
		return nil
	}
	if i.File != "" {
		if err := writeNew(filepath.Join(m.dir, i.File), i.Text); err != nil && !os.IsExist(err) {
			m.say(screen.Bad, problem("cannot write "+i.File, err), now)
			return nil
		}
	}
	cmd := m.o.Self(m.reading, i.Args, !i.Full)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = m.o.In, m.o.Out, m.o.Out
	return m.exec(cmd, func(err error) tea.Msg {
		return doneMsg{apply: func(m *model, now time.Time) tea.Cmd {
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) { // the command itself has told the person the rest
				m.say(screen.Bad, problem(line, err), now)
			}
			m.feed.Refresh()
			return tea.Batch(m.back(), m.loadServers())
		}}
	})
}
