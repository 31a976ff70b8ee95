//go:build unix

package pmltest

import (
	"strings"
	"syscall"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// Serving is a server that was started by hand and answers.
func (m *Machine) Serving(args ...string) *Process {
	m.T.Helper()
	p := m.Start(append([]string{"serve"}, args...)...)
	m.Listening(p)
	return p
}

// Listening waits until a server says that it listens.
func (m *Machine) Listening(p *Process) {
	m.T.Helper()
	WaitFor(m.T, "the server listens", func() bool {
		select {
		case <-p.Ended():
			m.T.Fatalf("the server ended: %+v", p.Wait())
		default:
		}
		return strings.Contains(p.Err.String(), "listening on ")
	})
}

// StopAtEnd stops what a test has started in the background.
func (m *Machine) StopAtEnd() {
	m.T.Helper()
	m.T.Cleanup(func() {
		rec, ok := daemon.ReadRecord(m.Home)
		m.PML("server", "stop")
		if ok && syscall.Kill(rec.PID, 0) == nil {
			_ = syscall.Kill(rec.PID, syscall.SIGKILL) // a server that does not stop fails its own test
		}
	})
}

// ServerState is what server status --json says.
type ServerState struct {
	Running bool
	Server  api.ServerStatus
}

// Status runs pml server status.
func (m *Machine) Status(code int) ServerState {
	m.T.Helper()
	var s ServerState
	m.Exit(code, "server", "status", "--json").Decode(&s)
	return s
}
