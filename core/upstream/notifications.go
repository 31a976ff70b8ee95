package upstream

import (
	"encoding/json"
	"slices"
)

// flight is a call or request that runs, and whom it is made for; its context
// ends with it.
type flight struct {
	over    <-chan struct{}
	silence *silence
	owner   string
	peer    *Peer // nil: the notification goes to no client
}

// flightKey finds the flight of a context.
type flightKey struct{}

// tell passes on what a server says unasked. during is the request in whose
// stream it came, nil for none.
func (m *Manager) tell(c *conn, during *flight, method string, params json.RawMessage) {
	if c.own != nil {
		if c.own.Notify != nil {
			c.own.Notify(method, params)
		}
		return
	}
	for _, p := range m.hearers(c, during, method, params) {
		p.Notify(method, params)
	}
}

// hearers are the peers of a shared connection that get a notification. Logs are
// for whom the server works: what it logs may be of that call. Where it works
// for several owners at once, or for nobody and several have a part in it,
// it is dropped. Updates of a resource are for those who watch it, if anybody
// watches anything; all else says nothing of anybody.
func (m *Manager) hearers(c *conn, during *flight, method string, params json.RawMessage) []*Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := c.key.id()
	all := make([]*Peer, 0, len(m.listeners[of]))
	for _, p := range m.listeners[of] {
		all = append(all, p)
	}
	switch method {
	case methodMessage:
		return c.hearersOfLogs(during, all)
	case methodResourceNew:
		if s := m.servers[c.key]; s != nil && len(s.watched) > 0 {
			return slices.DeleteFunc(all, func(p *Peer) bool { return !s.watches(p.ID, params) })
		}
	}
	return all
}

// watches reports whether a peer has subscribed to what was updated: to the very
// resource or, where nobody has, to one that it may be a part of.
func (s *server) watches(peer string, params json.RawMessage) bool {
	var updated struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(params, &updated) != nil {
		return false
	}
	if peers, ok := s.watched[updated.URI]; ok {
		return peers[peer]
	}
	for _, peers := range s.watched {
		if peers[peer] {
			return true
		}
	}
	return false
}

// hearersOfLogs are those of the peers of a shared connection that get what
// the server logs now.
func (c *conn) hearersOfLogs(during *flight, all []*Peer) []*Peer {
	var flights []*flight
	if during != nil {
		flights = []*flight{during}
	} else {
		c.serving.mu.Lock()
		for f := range c.serving.calls {
			flights = append(flights, f)
		}
		c.serving.mu.Unlock()
	}
	if len(flights) == 0 {
		if slices.ContainsFunc(all, func(p *Peer) bool { return p.Owner != all[0].Owner }) {
			return nil
		}
		return all
	}
	var out []*Peer
	for _, f := range flights {
		if f.owner != flights[0].owner {
			return nil
		}
		if f.peer != nil && f.peer.Notify != nil && !slices.ContainsFunc(out, func(p *Peer) bool { return p.ID == f.peer.ID }) {
			out = append(out, f.peer)
		}
	}
	return out
}

// listen remembers a peer that uses a shared connection, until it is Gone.
// m.mu is held.
func (m *Manager) listen(k key, p *Peer) {
	if p == nil || p.Notify == nil || k.own {
		return
	}
	all := m.listeners[k.id()]
	if all == nil {
		all = map[string]*Peer{}
		m.listeners[k.id()] = all
	}
	all[p.ID] = p
}
