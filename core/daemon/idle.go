package daemon

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// IdleTime is how long a background server stays without anything to do.
const IdleTime = 10 * time.Minute

// Idle finds out when a server is not needed any more: no caller is connected
// and none came for a while, and nothing runs. Runs that only wait do not count:
// whoever decides starts a server again.
type Idle struct {
	// After is how long nothing must have happened.
	After time.Duration
	Clock core.Clock
	// Busy reports whether something runs.
	Busy func(ctx context.Context) (bool, error)

	mu    sync.Mutex
	under int // connections that are open
	last  time.Time
}

// Listener counts the connections that a listener accepts: a caller that waits
// or reads events has one, and the server closes those on which nothing comes.
func (i *Idle) Listener(l net.Listener) net.Listener { return &counted{l, i} }

type counted struct {
	net.Listener
	idle *Idle
}

// Accept implements net.Listener.
func (l *counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.idle.enter()
	return &connection{Conn: conn, leave: sync.OnceFunc(l.idle.leave)}, nil
}

type connection struct {
	net.Conn
	leave func()
}

// NetConn is the connection itself, for who asks the kernel about its other end.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (i *Idle) enter() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.under++
}

func (i *Idle) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.under--
	i.last = i.Clock.Now()
}

// left is how long it still has to be quiet; an open connection starts anew.
func (i *Idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.Clock.Now()
	if i.under > 0 || i.last.IsZero() {
		i.last = now
	}
	return i.After - now.Sub(i.last)
}

// touch counts as a caller that has just left.
func (i *Idle) touch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = i.Clock.Now()
}

// Wait returns true once the server is not needed any more, false when the
// context ends first.
func (i *Idle) Wait(ctx context.Context) bool {
	for {
		left := i.left()
		if left <= 0 {
			busy, err := i.Busy(ctx)
			if err == nil && !busy {
				return true
			}
			i.touch()
			left = i.After
		}
		t := time.NewTimer(left)
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
	}
}
