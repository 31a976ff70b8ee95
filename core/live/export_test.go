package live

import (
	"context"
	"net"
)

// Accept serves watchers until the listener is closed.
func (t *Texts) Accept(ctx context.Context, l net.Listener) { t.accept(ctx, l) }
