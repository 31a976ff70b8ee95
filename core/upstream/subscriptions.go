package upstream

import (
	"context"
	"encoding/json"
)

// A shared connection has one subscription for all peers that want the same
// resource told of.

func uriOf(fields map[string]json.RawMessage) string {
	var uri string
	_ = json.Unmarshal(fields["uri"], &uri)
	return uri
}

func ownerOf(l Launch) string {
	if l.Peer == nil {
		return ""
	}
	return l.Peer.Owner
}

func peerID(l Launch) string {
	if l.Peer == nil {
		return ""
	}
	return l.Peer.ID
}

// answersHere does what needs no request to the server: an unsubscription of
// one of several, and what the newest revision has other means for.
func (m *Manager) answersHere(s *server, c *conn, l Launch, method string, fields map[string]json.RawMessage) bool {
	uri := uriOf(fields)
	switch method {
	case methodUnsubscribe:
		m.mu.Lock()
		last := s.drop(uri, peerID(l))
		m.mu.Unlock()
		if c.modern && last {
			c.news.watch(uri, false)
		}
		return c.modern || !last
	case methodSubscribe:
		if !c.modern {
			return false
		}
		m.subscribed(s, l, method, fields)
		c.news.watch(uri, true)
		return true
	case methodSetLevel:
		if !c.modern {
			return false
		}
		c.logFrom(fields["level"])
		m.subscribed(s, l, method, fields)
		return true
	}
	return false
}

// logFrom tells with each request from which level on the server is to log, as
// the newest revision has it.
func (c *conn) logFrom(level json.RawMessage) {
	var name string
	_ = json.Unmarshal(level, &name)
	c.mu.Lock()
	c.level = name
	c.mu.Unlock()
}

// subscribed remembers what the server was asked to tell, and has accepted.
func (m *Manager) subscribed(s *server, l Launch, method string, fields map[string]json.RawMessage) {
	if method != methodSubscribe && method != methodSetLevel {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if method == methodSetLevel {
		m.levels[s.key.id()] = fields["level"]
		return
	}
	if s.removed {
		return
	}
	uri := uriOf(fields)
	if s.watched == nil {
		s.watched = map[string]map[string]bool{}
	}
	if s.watched[uri] == nil {
		s.watched[uri] = map[string]bool{}
	}
	s.watched[uri][peerID(l)] = true
}

// drop ends a peer's subscription and reports whether nobody else has it.
// Manager.mu is held.
func (s *server) drop(uri, peer string) (last bool) {
	delete(s.watched[uri], peer)
	if len(s.watched[uri]) > 0 {
		return false
	}
	delete(s.watched, uri)
	return true
}

// unwatch ends all subscriptions of a peer and reports whether it had any; those
// that nobody else has go to the server. Manager.mu is held.
func (m *Manager) unwatch(s *server, peer string) (had bool) {
	var over []string
	for uri, peers := range s.watched {
		if peers[peer] {
			had = true
			if s.drop(uri, peer) {
				over = append(over, uri)
			}
		}
	}
	if c := s.conn; c != nil && len(over) > 0 && !m.closed {
		m.wg.Go(func() { c.unsubscribe(over) })
	}
	return had
}

func (c *conn) unsubscribe(uris []string) {
	defer c.survive("a server was told what is not wanted any more")
	for _, uri := range uris {
		if c.modern {
			c.news.watch(uri, false)
			continue
		}
		c.tellURI(methodUnsubscribe, uri)
	}
}

// takeUp tells a new connection from which level on to log, and what to tell of,
// as the one before it was told.
func (c *conn) takeUp(watched []string, level json.RawMessage) {
	defer c.survive("a server was told what is wanted of it")
	if level != nil && c.modern {
		c.logFrom(level)
		level = nil
	}
	if level == nil && len(watched) == 0 {
		return
	}
	c.beside(func() {
		defer c.survive("a server was told what is wanted of it")
		if level != nil && c.capabilities.serve(methodSetLevel) {
			c.tellOnce(methodSetLevel, map[string]json.RawMessage{"level": level})
		}
		c.resubscribe(watched)
	})
}

// resubscribe tells a new connection what the one before it was asked to tell.
func (c *conn) resubscribe(uris []string) {
	for _, uri := range uris {
		if c.modern {
			c.news.watch(uri, true)
			continue
		}
		c.tellURI(methodSubscribe, uri)
	}
}

func (c *conn) tellURI(method, uri string) {
	text, err := json.Marshal(uri)
	if err != nil {
		return
	}
	c.tellOnce(method, map[string]json.RawMessage{"uri": text})
}

// tellOnce makes a request whose outcome nobody waits for.
func (c *conn) tellOnce(method string, fields map[string]json.RawMessage) {
	ctx, cancel := context.WithTimeout(c.life, c.patience)
	defer cancel()
	if a, err := c.request(ctx, method, fields); err != nil || a.rpc != nil {
		c.log.Debug("the server was not told what is wanted of it", "server", c.name, "method", method)
	}
}
