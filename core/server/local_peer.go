package server

import (
	"context"
	"net"
)

type peerKey struct{}

// atTerminal reports whether the process behind a request is this program too, on
// this machine and with a terminal: only then does it count when it says that a
// person has answered there. It is asked of the kernel, about whoever opened the
// connection; where the kernel cannot tell, nobody is. A process of the same user
// that starts pml in a terminal of its own making passes, as it would without a
// server.
func atTerminal(ctx context.Context) bool {
	if !listenerOf(ctx).socket {
		return false
	}
	conn, _ := ctx.Value(peerKey{}).(net.Conn)
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = outer.NetConn()
	}
	unix, ok := conn.(*net.UnixConn)
	return ok && peerAtTerminal(unix)
}
