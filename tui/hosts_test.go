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
	hosts []api.ConnectedHost
	asked int
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
