package local

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
)

// Hold goes on with an Execute that has returned at an approval, as if that had
// held approvals: what it returns is what Execute would have. A thousand calls
// may wait in it, so it takes and keeps little: what is on the way to the start
// of a run is not under it.
func (c *Client) Hold(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	h, err := c.heldHere(ctx, id)
	if err != nil {
		return &api.Result{}, err
	}
	if h == nil {
		return c.holdLate(ctx, id, limit)
	}
	return c.wait(ctx, h, nil, 0, limit, true, api.StatusSuccess)
}

// heldHere is the handle of a run of this process, nil where it has none now.
func (c *Client) heldHere(ctx context.Context, id core.ID) (*engine.Handle, error) {
	if _, err := c.o.Store.Run(ctx, id); err != nil { // also: whether it may be seen
		return nil, err
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return nil, err
	}
	return eng.Handle(id), nil
}

// holdLate is Hold of a run that has gone on or away meanwhile.
func (c *Client) holdLate(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	r, err := c.follow(ctx, id, nil, limit, true)
	if r.Status == api.StatusComplete {
		r.Status = api.StatusSuccess
	}
	return &r, err
}
