package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/casys-ai/pml/core"
)

// dialer opens connections, and knows in which era servers can be spoken to.
type dialer struct {
	opts   Options
	limits Limits
	log    *slog.Logger
	spawn  *spawner
	life   context.Context //nolint:containedctx // of all connections
	wg     *sync.WaitGroup // is waited for when life is over

	noted  func(l Launch, p *process) // gets each process from its first moment on
	beside func(f func())             // runs f in the background, if life is not over
	tell   func(c *conn, during *flight, method string, params json.RawMessage)

	mu sync.Mutex
	// eras are those that servers have, where it is known that they have one only.
	eras map[key]knownEra
}

// dial opens a connection; ctx is how long that may take.
func (d *dialer) dial(ctx context.Context, l Launch) (c *conn, err error) {
	defer core.Recover(d.log, "a server was started", func(e *core.Error) { c, err = nil, e }, "server", l.Name)
	if ctx.Err() != nil {
		if d.life.Err() != nil {
			return nil, errStopping(l.Name)
		}
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, d.limits.Start)
	defer cancel()
	w := d.wayOf(l)
	if l.URL != "" {
		c, err = d.dialHTTP(ctx, l, w)
	} else {
		c, err = d.dialStdio(ctx, l, w)
	}
	d.learnEra(l, w, c, err)
	return c, err
}

// discard closes a connection that never came to be, without making its
// callers wait for a stubborn child.
func (d *dialer) discard(c *conn) {
	d.wg.Go(func() {
		defer c.survive("a connection was closed")
		if err := c.close(d.limits.StopGrace); err != nil {
			d.log.Debug("closing a server", "server", c.name, "err", err)
		}
	})
}
