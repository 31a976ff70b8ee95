package upstream

import (
	"context"
	"errors"

	"github.com/casys-ai/pml/core"
)

// Edition names one connection to a server: a process or a session. None has
// the number 0.
type Edition uint64

// ErrOtherEdition is wrapped by the error of a call that was bound to a
// connection which is gone.
var ErrOtherEdition = errors.New("list the tools of the one that runs now, and call again")

// List is Tools, and names the connection that they were listed on.
func (m *Manager) List(ctx context.Context, l Launch) ([]core.Tool, Edition, error) {
	if local, ok := m.local(l); ok {
		return local.tools(l.Name), 0, nil
	}
	tools, edition, err := m.list(ctx, l)
	if err != nil {
		return nil, edition, err
	}
	return tools.tools, edition, nil
}

// list lists the tools of a server that is not inside this binary.
func (m *Manager) list(ctx context.Context, l Launch) (*listed, Edition, error) {
	s, c, err := m.acquire(ctx, l, 0)
	if err != nil {
		return nil, 0, err
	}
	defer m.release(s)
	tools, err := c.listTools(ctx, m.limits.Call)
	return tools, c.edition, err
}

// LeftOut says why a tool that a server lists is not among its tools; empty where it is, or
// where nothing is known. Nothing is started.
func (m *Manager) LeftOut(l Launch, tool string) string {
	m.mu.Lock()
	s := m.servers[keyOf(l)]
	if s == nil || s.conn == nil {
		m.mu.Unlock()
		return ""
	}
	c := s.conn
	m.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leftOut[tool]
}

// Lives reports whether the connection of a launch is an edition. Nothing is
// started.
func (m *Manager) Lives(l Launch, e Edition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.servers[keyOf(l)].is(e)
}

// is reports whether a server, nil for none, lives as an edition. Manager.mu is
// held.
func (s *server) is(e Edition) bool {
	return s != nil && s.conn != nil && s.conn.edition == e && !s.conn.isLost()
}
