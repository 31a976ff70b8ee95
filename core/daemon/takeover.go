package daemon

import (
	"context"
	"sync"

	"github.com/casys-ai/pml/core"
)

// TakeOver is NewClaim for a server that a person starts: one that pml has
// started by itself, and that is of no newer version, is asked to leave first,
// and its runs are taken up by whoever is the server then. Until started is
// called nobody else starts a server of this home; it may be called again. left
// is the server that has gone, nil for none.
//
// Errors: core.CodeStoreBusy where a person has started the one that is there,
// or it does not answer; those of Stop.
func (d *Daemon) TakeOver(ctx context.Context) (claim *Claim, left *Server, started func(), err error) {
	unlock, err := d.lockStart(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	s, err := d.Find(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, nil, err
	case err == nil && s != nil && s.Background && !newer(s.Version, d.o.Version):
		if err := d.end(ctx, s); err != nil {
			return nil, nil, nil, err
		}
		left = s
	}
	// Who does not answer, or was started by hand, has the claim.
	if claim, err = NewClaim(ctx, d.o.Home); err != nil {
		if ctx.Err() != nil {
			err = core.Errorf(core.CodeCancelled, "stopped before there was a server: %w", context.Cause(ctx))
		}
		return nil, nil, nil, err
	}
	return claim, left, sync.OnceFunc(unlock), nil
}
