package server

import (
	"context"
	"net"
)

type peerKey struct{}

// atTerminal reports whether the process behind a request is this program too, or one of
// Options.Faces, on this machine and with a terminal: only then does it count when it says that a
// person has answered there. It is asked of the kernel, about whoever opened the
// connection; where the kernel cannot tell, nobody is. A process of the same user
// that starts pml in a terminal of its own making passes, as it would without a
// server.
func atTerminal(ctx context.Context) bool {
	unix := peerOf(ctx)
	return unix != nil && peerAtTerminal(unix, listenerOf(ctx).faces...)
}

// otherProgram reports whether the process behind a request is known to be another
// program than this one: another version of pml, say.
func otherProgram(ctx context.Context) bool {
	unix := peerOf(ctx)
	return unix != nil && peerIsOther(unix, listenerOf(ctx).faces...)
}

// peerOf is the connection behind a request that came over the socket, nil for another.
func peerOf(ctx context.Context) *net.UnixConn {
	if !listenerOf(ctx).socket {
		return nil
	}
	conn, _ := ctx.Value(peerKey{}).(net.Conn)
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = outer.NetConn()
	}
	unix, _ := conn.(*net.UnixConn)
	return unix
}
