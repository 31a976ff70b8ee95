package upstream

import (
	"time"

	"github.com/casys-ai/pml/core"
)

// record is what is remembered of a server beyond its processes. Manager.mu
// guards it.
type record struct {
	conns            int // how many there were
	proc             *process
	start            time.Duration
	protocol, server string
	lastErr          string
}

// records are the servers that are remembered. Manager.mu guards them.
type records map[id]*record

// of returns the record of a server.
func (all records) of(server id) *record {
	r, ok := all[server]
	if !ok {
		r = &record{}
		all[server] = r
	}
	return r
}

// known is the connection that Health reports: the shared one, or else one that a
// peer has of its own.
func (all records) known(name, workspace string) id {
	of := id{name: name, workspace: workspace}
	if all[of] != nil {
		return of
	}
	for other := range all {
		if other.name == name && other.workspace == workspace && (!of.own || other.peer < of.peer) {
			of = other
		}
	}
	return of
}

// now is the time of the clock; without one it is not known.
func (o *Options) now() time.Time {
	if o.Clock == nil {
		return time.Time{}
	}
	return o.Clock.Now()
}

// Health tells how a server of a workspace stands; ok is false when it was
// never started. Nothing is started. LastError stays when the server works
// again: Failures says whether it does.
func (m *Manager) Health(name, workspace string) (h Health, ok bool) {
	h, proc, ok := m.health(name, workspace)
	if proc != nil {
		if (h.State == "running" || h.State == "starting") && !proc.hasExited() {
			h.PID, h.Stderr = proc.cmd.Process.Pid, proc.stderr.tail(20, 4000)
		} else {
			h.Stderr, _ = proc.stderr.words(20, 4000)
		}
	}
	return h, ok
}

// health is Health without what the process itself tells, which is not asked with
// the lock held.
func (m *Manager) health(name, workspace string) (h Health, proc *process, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.records.known(name, workspace)
	r, ok := m.records[of]
	if !ok {
		return Health{}, nil, false
	}
	h = Health{
		Name: name, Workspace: workspace, State: "stopped", Start: r.start,
		Protocol: r.protocol, Server: r.server, LastError: r.lastErr,
	}
	if s := m.newest(of); s != nil {
		m.lost(s)
		h.Failures, h.Entry = s.failures, s.launch.Entry
		waits := m.opts.now().Before(s.readyAt)
		switch {
		case s.conn != nil:
			h.State = "running"
		case s.start != nil && !waits:
			h.State = "starting"
		case s.failures > 0:
			h.State = "failing"
		}
		if h.State == "failing" && waits {
			h.RetryAt = s.readyAt
		}
	}
	return h, r.proc, true
}

// newest returns the server that is not about to be replaced. m.mu is held.
func (m *Manager) newest(of id) *server {
	var found *server
	for k, s := range m.servers {
		if k.id() == of && (found == nil || !s.retired) {
			found = s
		}
	}
	return found
}

// Stop stops a server's process, whatever its digest; calls that run fail. It
// is started again by the next call. Stop does not wait for the process.
func (m *Manager) Stop(name, workspace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.servers {
		if k.name == name && k.workspace == workspace {
			m.remove(s)
		}
	}
}

// errStopped is what those get who waited for a server that Stop has stopped.
func errStopped(name, during string) error {
	return core.Errorf(core.CodeServerUnreachable, "server %q was stopped while %s", name, during)
}

// LocalTools is how many tools a server inside the binary offers; 0 where it is none.
func (m *Manager) LocalTools(name string) int {
	if s, ok := m.opts.Local[name]; ok {
		return len(s.Tools())
	}
	return 0
}
