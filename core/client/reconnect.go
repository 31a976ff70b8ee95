package client

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// redial looks for the server of this machine after err, which says that nobody
// is where it was. It returns nil when there is one, otherwise why there is none;
// what is no reason to give up leaves it away.
func (c *connection) redial(ctx context.Context, start bool, err error) error {
	if c.o.Redial == nil {
		return err
	}
	if start {
		c.tell("the pml server at " + c.name + " is gone; looking for another one")
	}
	socket, rerr := c.o.Redial(ctx, start)
	switch code := core.CodeOf(rerr); {
	case rerr == nil && socket == "":
		return err
	case rerr == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.socket = socket
		return nil
	case ctx.Err() != nil:
		return core.Errorf(core.CodeCancelled, "stopped waiting for %s: %w", c.name, context.Cause(ctx))
	case code == core.CodeServerUnreachable || code == core.CodeStoreBusy: // the old one may not have left yet
		return core.Errorf(code, "%w", &lost{err: rerr}).WithNext(core.AsError(rerr).Next...)
	}
	return rerr
}

// tell says, once, that the server is away.
func (c *connection) tell(text string) {
	if c.o.Warn != nil {
		c.told.Do(func() { c.o.Warn(text) })
	}
}
