package gate

import (
	"maps"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// servers keep what was found out about the servers of one workspace, as all
// clients see them and as those see them that have capabilities of their own.
type servers struct {
	clock core.Clock
	// at is a server as one state of the settings has it.
	at func(s *settings, name string) *server
	// lives reports whether what a server's tools were listed from still runs.
	lives func(upstream.Launch, upstream.Edition) bool

	mu      sync.Mutex
	keepers map[string]*keeper

	newsMu sync.Mutex // held for a moment only
	newsOf map[string]int
}

// of is the keeper of a server as those see it who have declared nothing.
func (m *servers) of(name string) *keeper { return m.keep(name, name, nil, 0) }

// ofPeer keeps what a client with capabilities of its own sees apart, and
// what those see that speak in sessions: a server may offer them other tools.
func (m *servers) ofPeer(name string, peer *upstream.Peer) *keeper {
	own := declares(peer)
	if !own && (peer == nil || peer.Era != upstream.Sessions) {
		return m.of(name)
	}
	if own {
		return m.keep(name+"\x00"+peer.ID, name, peer, peer.Era)
	}
	return m.keep(name+"\x00", name, nil, peer.Era)
}

// keep returns the keeper of a key, which is a new one if there is none.
func (m *servers) keep(key, name string, peer *upstream.Peer, era upstream.Era) *keeper {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keepers[key]
	if k == nil {
		k = &keeper{in: m, name: name, peer: peer, era: era}
		m.keepers[key] = k
	}
	return k
}

// forget makes whoever prepares a server next, for any client, look again.
func (m *servers) forget(name string) {
	m.mu.Lock()
	var all []*keeper
	for _, k := range m.keepers {
		if k.name == name {
			all = append(all, k)
		}
	}
	m.mu.Unlock()
	for _, k := range all { // each may wait for a server that is being prepared
		k.forget()
	}
}

// peerGone forgets what was known of servers as a client sees them.
func (m *servers) peerGone(peer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.keepers, func(_ string, k *keeper) bool { return k.peer != nil && k.peer.ID == peer })
}

// changed notes that the tools of a server may be others: its next call compares
// them again.
func (m *servers) changed(name string) {
	m.newsMu.Lock()
	defer m.newsMu.Unlock()
	m.newsOf[name]++
}

// news counts a server's notifications that its tools have changed.
func (m *servers) news(name string) int {
	m.newsMu.Lock()
	defer m.newsMu.Unlock()
	return m.newsOf[name]
}

// clients are those for whom the calls of runs are made.
type clients struct {
	mu    sync.RWMutex
	byRun map[core.ID]*Guest
}

func (c *clients) attend(run core.ID, g *Guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byRun[run] = g
}

func (c *clients) leave(run core.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byRun, run)
}

func (c *clients) peerGone(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byRun, func(_ core.ID, g *Guest) bool { return g.Peer != nil && g.Peer.ID == peer })
}

// of is the client of a run, nil where there is none.
func (c *clients) of(run core.ID) *Guest {
	if run == "" {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byRun[run]
}
