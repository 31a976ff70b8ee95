package upstream

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// pipe is the library's transport over the streams of a child: one message a
// line. What the server says unasked goes to the connection as it was sent;
// responses share the memory of their line.
type pipe struct {
	conn  *conn
	lines *lineReader
	out   io.WriteCloser // takes a whole message in one Write, and never blocks

	start, end sync.Once
	done       chan struct{} // closed when no answer comes any more

	mu      sync.Mutex
	waiting map[int64]chan *transport.JSONRPCResponse
}

func newPipe(c *conn, src io.Reader, out io.WriteCloser, max int, noise func([]byte)) *pipe {
	p := &pipe{conn: c, out: out, done: make(chan struct{}), waiting: map[int64]chan *transport.JSONRPCResponse{}}
	p.lines = newLineReader(src, max, noise, p.received)
	return p
}

// Start implements transport.Interface. The reader ends with the child's output.
func (p *pipe) Start(context.Context) error {
	p.start.Do(func() {
		go func() {
			defer p.stop()
			defer p.conn.survive("the output of a server was read")
			p.lines.run(p.done)
			p.conn.lose(endedItself)
		}()
	})
	return nil
}

func (p *pipe) stop() { p.end.Do(func() { close(p.done) }) }

// Close implements transport.Interface.
func (p *pipe) Close() error {
	p.stop()
	return p.out.Close()
}

// GetSessionId implements transport.Interface.
func (*pipe) GetSessionId() string { return "" }

// SetNotificationHandler implements transport.Interface: the connection has
// handled them.
func (*pipe) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// received handles one message. It runs on the reader, which gives up its memory.
func (p *pipe) received(w wire) {
	if w.unasked() {
		p.conn.heard(p.conn.life, w, func(response []byte) { _, _ = p.out.Write(append(response, '\n')) })
		return
	}
	id, err := strconv.ParseInt(string(w.id), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(w.id), 64)
		if id = int64(f); err != nil || float64(id) != f {
			return
		}
	}
	p.mu.Lock()
	ch := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	if ch != nil {
		ch <- &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Result: w.result, Error: w.rpc()}
	}
}

// SendRequest implements transport.Interface.
func (p *pipe) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	return p.conn.exchange(ctx, req, p.roundTrip)
}

func (p *pipe) roundTrip(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if p.conn.isLost() {
		if a := answerOf(ctx); a != nil {
			a.unsent = true
		}
		return nil, transport.ErrTransportClosed
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	id, _ := req.ID.Value().(int64)
	ch := make(chan *transport.JSONRPCResponse, 1)
	p.mu.Lock()
	p.waiting[id] = ch
	p.mu.Unlock()
	_, _ = p.out.Write(append(text, '\n')) // what becomes of it the connection learns
	select {
	case resp := <-ch:
		return resp, mismatch(req, resp)
	case <-p.done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	delete(p.waiting, id)
	p.mu.Unlock()
	select {
	case resp := <-ch: // it came as the connection ended
		return resp, mismatch(req, resp)
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, transport.ErrTransportClosed
}

// SendNotification implements transport.Interface.
func (p *pipe) SendNotification(_ context.Context, n mcp.JSONRPCNotification) error {
	select {
	case <-p.done:
		return transport.ErrTransportClosed
	default:
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(text, '\n'))
	return err
}
