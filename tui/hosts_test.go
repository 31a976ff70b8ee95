package tui

import (
	"context"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// machine has hosts that come and go.
type machine struct {
	Machine
	hosts   []api.ConnectedHost
	servers []api.ServerInfo
	asked   int
}

func (m *machine) ConnectedHosts(context.Context) ([]api.ConnectedHost, error) {
	m.asked++
	return m.hosts, nil
}

// The hosts are read while their panel is on the screen, at once and every 2 s, and
// nobody asks for them otherwise.
func TestModel_Hosts(t *testing.T) {
	t.Parallel()
	on := &machine{}
	h := newHarness(t, func(o *Options) { o.Machine = on })
	h.learn(loaded)
	h.tick(hostsEvery)
	if on.asked != 0 {
		t.Errorf("asked %d times without the panel", on.asked)
	}
	h.send(letter("8"))
	h.shows("0 connected")
	if on.asked != 1 {
		t.Errorf("asked %d times at once", on.asked)
	}
	on.hosts = []api.ConnectedHost{{Client: core.Client{Name: "codex"}, Transport: "stdio", PID: 12, Since: began}}
	h.tick(time.Second)
	if on.asked != 1 {
		t.Errorf("asked %d times within a second", on.asked)
	}
	h.tick(time.Second)
	h.shows("1 connected")
	h.shows("codex")
	h.shows("stdio 12")
}

func (m *machine) Servers(context.Context) ([]api.ServerInfo, error) {
	m.asked++
	return m.servers, nil
}

// The servers are read while their panel is on the screen, at once and every 5 s: no
// event tells of a process that has ended.
func TestModel_ServersAgain(t *testing.T) {
	t.Parallel()
	on := &machine{servers: []api.ServerInfo{{Name: "slack", State: api.ServerReady, Health: &api.ServerHealth{State: "running", PID: 77}}}}
	h := newHarness(t, func(o *Options) { o.Machine = on })
	h.learn(loaded)
	h.tick(serversEvery)
	h.send(letter("7"))
	h.shows("running, pid 77")
	if on.asked != 1 {
		t.Errorf("asked %d times at once", on.asked)
	}
	on.servers = []api.ServerInfo{{Name: "slack", State: api.ServerFailed, Error: "exit status 7"}}
	h.tick(time.Second)
	if on.asked != 1 {
		t.Errorf("asked %d times within a second", on.asked)
	}
	h.tick(serversEvery)
	h.shows("exit status 7")
	h.send(letter("1"))
	h.tick(serversEvery)
	if on.asked != 2 {
		t.Errorf("asked %d times without the panel", on.asked)
	}
}

func (m *machine) CheckServers(context.Context, ...string) ([]api.ServerInfo, error) {
	return m.servers, nil
}

// A server that was started in vain says which key tries it again.
func TestModel_ServerInVain(t *testing.T) {
	t.Parallel()
	on := &machine{servers: []api.ServerInfo{{Name: "slack", State: api.ServerFailed, Error: "exit status 7"}}}
	h := newHarness(t, func(o *Options) { o.Machine = on })
	h.learn(loaded)
	h.send(letter("7"))
	h.send(letter("R"))
	h.shows("slack cannot be called yet")
	h.shows("then R tries it again")
	on.servers[0] = api.ServerInfo{Name: "slack", State: api.ServerNeeds, Needs: []api.ServerNeed{{Type: core.ApproveKeys}}}
	h.send(letter("R"))
	h.shows("slack cannot be called yet: I decides what it needs; then R tries it again")
}
