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
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/screen"
)

// Machine looks at the MCP servers of the workspace and the hosts of agents.
type Machine interface {
	// Servers lists them without starting anything.
	Servers(ctx context.Context) ([]api.ServerInfo, error)
	// CheckServers starts those that may be started, and says how they stand.
	CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error)
	// RestartServer ends the process that one of them has here and starts it anew.
	RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error)
	// ConnectedHosts are the hosts that are connected now.
	ConnectedHosts(ctx context.Context) ([]api.ConnectedHost, error)
	// Rules are the permission rules in effect.
	Rules(ctx context.Context) ([]api.PermissionRule, error)
}

// loadRules reads the permission rules, for the palette.
func loadRules(m *model) tea.Cmd {
	if m.o.Machine == nil {
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		list, err := m.o.Machine.Rules(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("cannot read the rules", err), now)
				return nil
			}
			screen.ShowRules(m.screen, list)
			return nil
		}
	})
}

// serversEvery is how often the servers are read while their panel is on the screen:
// there are no events for a process that ends.
const serversEvery = 5 * time.Second

// loadServers reads the servers.
func (m *model) loadServers(now time.Time) tea.Cmd {
	if m.o.Machine == nil {
		m.screen.ShowServers(nil, true, errors.New("this terminal has no set-up of a machine"))
		return nil
	}
	m.servers = lookout{at: now, asking: true}
	return m.effect(func(ctx context.Context) then {
		list, err := m.o.Machine.Servers(ctx)
		return func(m *model, _ time.Time) tea.Cmd {
			m.servers.asking = false
			m.screen.ShowServers(list, true, err)
			return nil
		}
	})
}

// checkServer starts one server and says how it stands.
func (m *model) checkServer(i screen.CheckServer, now time.Time) tea.Cmd {
	if m.o.Machine == nil {
		return nil
	}
	name := core.Visible(i.Name, 60, false)
	text, start := "starting "+name, func(ctx context.Context) ([]api.ServerInfo, error) { return m.o.Machine.CheckServers(ctx, i.Name) }
	if i.Anew {
		text, start = "restarting "+name, func(ctx context.Context) ([]api.ServerInfo, error) { return m.o.Machine.RestartServer(ctx, i.Name) }
	}
	if i.Owners != "" {
		text += " here; that of " + i.Owners + " goes on"
	}
	m.say(screen.Note, text, now)
	return m.effect(func(ctx context.Context) then {
		list, err := start(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			switch {
			case err != nil:
				m.say(screen.Bad, problem(name, err), now)
				return nil
			case len(list) == 1 && list[0].State == api.ServerReady:
				m.say(screen.Good, name+" answers", now)
			case len(list) == 1 && list[0].State == api.ServerNeeds:
				m.say(screen.Bad, name+" cannot be called yet: "+decides(m, list[0])+"; then "+again(m)+" tries it again", now)
			case len(list) == 1:
				m.say(screen.Bad, name+" cannot be called yet: mend what it says is wrong, then "+again(m)+" tries it again", now)
			}
			m.screen.ShowServers(list, false, nil)
			return nil
		}
	})
}

// decides says which key leads to what a server needs of a person.
func decides(m *model, s api.ServerInfo) string {
	act, text, command := keys.Install, " decides what it needs", "pml servers install"
	if len(s.Needs) > 0 && s.Needs[0].Type == core.ApproveOAuth {
		act, text, command = keys.Connect, " signs in", "pml servers connect"
	}
	if k := m.o.Keys.Keys(act); len(k) > 0 {
		return k[0] + text
	}
	return command + text
}

// again is the key that starts a server once more.
func again(m *model) string { return keyFor(m, keys.Restart, "pml servers check") }

// keyFor is the key of an action, or the command that does the same where it has none.
func keyFor(m *model, act keys.Action, command string) string {
	if k := m.o.Keys.Keys(act); len(k) > 0 {
		return k[0]
	}
	return command
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
			return tea.Batch(append(m.carryOut(m.screen.AuditGrew(), now), m.back(), m.loadServers(now), m.loadFlows())...)
		}}
	})
}
