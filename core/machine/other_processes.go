package machine

import (
	"cmp"
	"os"
	"slices"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/presence"
)

// ConnectedHosts are the hosts of agents that are connected to processes of this home,
// who came first in front.
func (m *Machine) ConnectedHosts() ([]api.ConnectedHost, error) {
	list, err := presence.List[api.ConnectedHost](m.o.Home.Clients())
	slices.SortFunc(list, func(a, b api.ConnectedHost) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID))
	})
	return list, err
}

// started tells other processes of a server's process until it has ended.
func (m *Machine) started(name, workspace string, pid int) (ended func()) {
	ended, err := presence.Join(m.o.Home.Processes(), api.ServerProcess{
		Server: name, Workspace: workspace, PID: pid, Owner: os.Getpid(), Since: m.o.Clock.Now(),
	})
	if err != nil {
		m.o.Logger.Warn("other terminals do not see that this server runs", "server", name, "error", err)
		return func() {}
	}
	return ended
}

// Elsewhere are the processes of a workspace's servers that other processes of this
// home have started, by the name of the server, the oldest first.
func (m *Machine) Elsewhere(workspace string) (map[string][]api.ServerProcess, error) {
	list, err := presence.List[api.ServerProcess](m.o.Home.Processes())
	if err != nil || len(list) == 0 {
		return nil, err
	}
	hosts, err := m.ConnectedHosts()
	if err != nil {
		return nil, err
	}
	serves, _ := daemon.ReadRecord(m.o.Home.Dir)
	slices.SortFunc(list, func(a, b api.ServerProcess) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	of := map[string][]api.ServerProcess{}
	for _, p := range list {
		if p.Workspace != workspace || p.Owner == os.Getpid() {
			continue
		}
		if i := slices.IndexFunc(hosts, func(h api.ConnectedHost) bool { return h.PID == p.Owner }); i >= 0 {
			p.Client = hosts[i].Client
		}
		if p.Serves = p.Owner == serves.PID; p.Serves && serves.Background {
			p.Log = daemon.LogFile(m.o.Home.Dir)
		}
		of[p.Server] = append(of[p.Server], p)
	}
	return of, nil
}
