package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// pipe is the way to a child, over its standard streams: one message a line. What
// the server says unasked goes to the connection as it was sent; responses share
// the memory of their line.
type pipe struct {
	conn  *conn
	lines *jsonrpc.LineReader
	noise func(line []byte) // gets what is no message
	out   io.WriteCloser    // takes a whole message in one Write, and never blocks
	calls jsonrpc.Calls

	end  sync.Once
	done chan struct{} // closed when no answer comes any more
}

// openPipe makes a pipe the wire of a connection. It is read to the end of src.
func openPipe(c *conn, src io.Reader, out io.WriteCloser, max int, noise func([]byte)) {
	p := &pipe{conn: c, lines: jsonrpc.NewLineReader(src, max), noise: noise, out: out, done: make(chan struct{})}
	c.wire = p
	go func() {
		defer p.stop()
		defer p.conn.survive("the output of a server was read")
		p.lines.Messages(p.done, p.noise, p.received)
		p.conn.lose(endedItself)
	}()
}

func (p *pipe) stop() { p.end.Do(func() { close(p.done) }) }

// close implements wire.
func (p *pipe) close() error {
	p.stop()
	return p.out.Close()
}

// speak implements wire: a child gets the revision in the handshake.
func (*pipe) speak(string) {}

// received handles one message. It runs on the reader, which gives up its memory.
func (p *pipe) received(w jsonrpc.Message) {
	if w.Unasked() {
		p.conn.heard(p.conn.life, w, func(response []byte) { _, _ = p.out.Write(append(response, '\n')) })
		return
	}
	p.calls.Answered(w)
}

// trip implements wire.
func (p *pipe) trip(ctx context.Context, req request, a *answer) (*jsonrpc.Message, error) {
	if p.conn.isLost() {
		a.unsent = true
		return nil, transport.ErrTransportClosed
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text, err := json.Marshal(req.Request)
	if err != nil {
		return nil, err
	}
	m, err := p.calls.Do(ctx, req.ID, 0, p.done, func() error {
		if err := req.mayGo(a); err != nil {
			return err
		}
		if p.conn.isLost() { // while the request was held up
			a.unsent = true
			return transport.ErrTransportClosed
		}
		_, _ = p.out.Write(append(text, '\n')) // what becomes of it the connection learns
		return nil
	})
	switch {
	case errors.Is(err, jsonrpc.ErrClosed):
		return nil, transport.ErrTransportClosed
	case err != nil:
		return nil, err
	}
	return &m, mismatch(req, &m)
}

// tell implements wire.
func (p *pipe) tell(_ context.Context, message any) error {
	select {
	case <-p.done:
		return transport.ErrTransportClosed
	default:
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(text, '\n'))
	return err
}
