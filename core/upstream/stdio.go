package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// discoverTimeout bounds the question whether a server speaks the revision
// without a handshake. Servers that do not know it often never answer.
const discoverTimeout = 3 * time.Second

// maxServerName bounds what is kept of a server's name and version. Whoever shows
// it takes secrets out first and then cuts it to far less, so that the cut that
// is made here leaves no part of one.
const maxServerName = 4000

// stdioTransport is the library's line protocol over pipes that are ours.
type stdioTransport struct {
	*transport.Stdio
	conn *conn
	root string
}

// SendRequest keeps the response as it was sent.
func (t *stdioTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if t.conn.isLost() {
		if a := answerOf(ctx); a != nil {
			a.unsent = true
		}
		return nil, transport.ErrTransportClosed
	}
	resp, err := t.Stdio.SendRequest(ctx, req)
	if err == nil {
		err = mismatch(req, resp)
	}
	if err != nil {
		return nil, err
	}
	return keep(ctx, req, resp), nil
}

// SetRequestHandler answers roots/list itself. The capability is not declared:
// servers that are told of roots drop the folders that their own arguments name.
func (t *stdioTransport) SetRequestHandler(next transport.RequestHandler) {
	next = offered(next)
	t.Stdio.SetRequestHandler(func(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		if req.Method != string(mcp.MethodListRoots) {
			return next(ctx, req)
		}
		roots := fmt.Appendf(nil, `{"roots":[{"uri":%q}]}`, fileURI(t.root))
		return transport.NewJSONRPCResultResponse(req.ID, roots), nil
	})
}

// offered answers a ping, and says of everything else that a server asks for
// that it is not there: no capability was declared.
func offered(next transport.RequestHandler) transport.RequestHandler {
	return func(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		if req.Method == string(mcp.MethodPing) {
			return next(ctx, req)
		}
		text := "pml does not offer " + core.Visible(req.Method, 100, false) + " to servers"
		return transport.NewJSONRPCErrorResponse(req.ID, mcp.METHOD_NOT_FOUND, text, nil), nil
	}
}

func fileURI(path string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return u.String()
}

// dialStdio starts a child and completes the handshake. life is how long the
// connection may live, ctx how long the start may take.
func (m *Manager) dialStdio(ctx, life context.Context, l Launch) (*conn, error) {
	if l.Verify != nil {
		if err := l.Verify(); err != nil {
			return nil, err
		}
	}
	proc, err := startProcess(l, m.limits.StderrBytes, m.spawn.run)
	if err != nil {
		return nil, err
	}
	m.note(l, proc)
	c := m.newConn(l)
	c.proc = proc
	noise := func(line []byte) {
		if !m.log.Enabled(life, slog.LevelDebug) {
			return
		}
		m.log.Debug("not a message", "server", l.Name, "line", core.Visible(string(line), 300, false))
	}
	lines := newLineReader(proc.stdout, m.limits.ResultBytes+64<<10, noise, func() { c.lose(endedItself) })
	go c.guard()
	t := &stdioTransport{Stdio: transport.NewIO(lines, proc.stdin, nil), conn: c, root: l.Workspace}
	life, c.cancel = context.WithCancel(life)
	// The handshake first: a probe for the newest revision stalls or even ends
	// many of the servers that are out there.
	err = m.handshake(ctx, life, c, client.NewClient(t, client.WithLegacyProtocolOnly())) //nolint:staticcheck // deprecated with the old protocol, which is what most servers speak
	var rpc *transport.Error
	if err != nil && !errors.As(err, &rpc) && ctx.Err() == nil && !c.isLost() {
		second := client.NewClient(t, client.WithDiscoverTimeout(discoverTimeout))
		skipRequestID(life, second)
		err = m.handshake(ctx, life, c, second)
	}
	if err != nil {
		err = m.startFailed(ctx, c, l, err)
		m.discard(c)
		return nil, err
	}
	return c, nil
}

func (m *Manager) newConn(l Launch) *conn {
	return &conn{
		name: l.Name, clock: m.opts.Clock, log: m.log, lost: make(chan struct{}), cancel: func() {},
		changed: make(chan struct{}, 1),
	}
}

// guard ends a child's connection when the child has ended, though its output
// may be held open by others, or when it does not read its input.
func (c *conn) guard() {
	select {
	case <-c.proc.stdin.full:
		c.lose(endedFull)
		<-c.proc.exited
	case <-c.proc.exited:
	}
	t := time.NewTimer(drainGrace)
	defer t.Stop()
	select {
	case <-c.lost:
	case <-t.C:
	}
	c.lose(endedItself)
	_ = c.proc.stdout.Close()
}

// handshake starts the connection's client and agrees on a protocol revision.
func (m *Manager) handshake(ctx, life context.Context, c *conn, cl *client.Client) error {
	c.client = cl
	c.client.OnNotification(c.notify)
	if err := c.client.Start(life); err != nil {
		return err
	}
	var req mcp.InitializeRequest
	req.Params.ClientInfo = mcp.Implementation{Name: m.opts.ClientName, Version: m.opts.ClientVersion}
	res, err := c.client.Initialize(ctx, req)
	if err != nil {
		return err
	}
	c.protocol = core.Visible(res.ProtocolVersion, 40, false)
	c.server = core.Visible(strings.TrimSpace(res.ServerInfo.Name+" "+res.ServerInfo.Version), maxServerName, false)
	c.announces = res.Capabilities.Tools != nil && res.Capabilities.Tools.ListChanged
	if c.announces && mcp.IsModernProtocol(res.ProtocolVersion) {
		m.wg.Add(1)
		go m.subscribe(life, c)
	}
	return nil
}

// skipRequestID uses up the client's first request id. A second client on the
// same pipes must not take the id of the first one's handshake again: the
// library forgets an id a moment after it has handed out the response.
func skipRequestID(ctx context.Context, c *client.Client) {
	ctx, cancel := context.WithCancel(ctx)
	cancel() // counted, and not sent
	_, _ = c.Discover(ctx, mcp.DiscoverRequest{})
}

// startFailed says why a server did not start.
func (m *Manager) startFailed(ctx context.Context, c *conn, l Launch, err error) error {
	if m.ctx.Err() != nil {
		return errStopping(l.Name)
	}
	var coded *core.Error
	switch {
	case errors.As(context.Cause(ctx), &coded), errors.As(err, &coded):
		return coded // it was stopped, or its authorization is missing
	case ctx.Err() != nil:
		tail := ""
		if c.proc != nil {
			if tail = c.proc.stderr.tail(10, 2000); tail != "" {
				tail = "; it last said:\n" + tail
			}
		}
		return core.Errorf(core.CodeServerUnreachable, "server %q did not answer initialize within %s%s", l.Name, m.limits.Start, tail)
	case c.proc != nil && c.isLost():
		return core.Errorf(core.CodeServerUnreachable, "server %q stopped before it was ready: %s", l.Name, c.proc.report())
	}
	var odd *answerError
	if errors.As(err, &odd) {
		err = odd
	}
	return core.Errorf(core.CodeServerUnreachable, "server %q does not complete the MCP handshake: %s", l.Name, core.Visible(plain(err).Error(), 2000, true))
}
