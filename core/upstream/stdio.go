package upstream

import (
	"context"
	"encoding/json"
	"errors"
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
	c := m.newConn(life, l)
	c.proc = proc
	ready := false
	defer func() {
		if !ready { // in a panic, too
			m.discard(c)
		}
	}()
	m.note(l, proc)
	noise := func(line []byte) {
		if !m.log.Enabled(life, slog.LevelDebug) {
			return
		}
		m.log.Debug("not a message", "server", l.Name, "line", core.Visible(string(line), 300, false))
	}
	go c.guard()
	t := newPipe(c, proc.stdout, proc.stdin, m.limits.ResultBytes+64<<10, noise)
	// The handshake first: a probe for the newest revision stalls or even ends
	// many of the servers that are out there.
	err = m.handshake(ctx, c, client.NewClient(t, client.WithLegacyProtocolOnly())) //nolint:staticcheck // deprecated with the old protocol, which is what most servers speak
	var rpc *transport.Error
	if err != nil && !errors.As(err, &rpc) && ctx.Err() == nil && !c.isLost() {
		second := client.NewClient(t, client.WithDiscoverTimeout(discoverTimeout))
		skipRequestID(c.life, second)
		err = m.handshake(ctx, c, second)
	}
	if err != nil {
		return nil, m.startFailed(ctx, c, l, err)
	}
	ready = true
	return c, nil
}

func (m *Manager) newConn(life context.Context, l Launch) *conn {
	c := &conn{
		name: l.Name, key: keyOf(l), clock: m.opts.Clock, log: m.log, lost: make(chan struct{}),
		changed: make(chan struct{}, 1), root: l.Workspace, patience: m.limits.Call,
		info: mcp.Implementation{Name: m.opts.ClientName, Version: m.opts.ClientVersion},
	}
	c.life, c.cancel = context.WithCancel(life)
	if c.declared = l.Peer.declared(); len(c.declared) > 0 {
		c.own = l.Peer
	}
	c.tell = func(during *flight, method string, params json.RawMessage) { m.tell(c, during, method, params) }
	return c
}

// guard ends a child's connection when the child has ended, though its output
// may be held open by others, or when it does not read its input.
func (c *conn) guard() {
	defer c.survive("a server's process was watched")
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
func (m *Manager) handshake(ctx context.Context, c *conn, cl *client.Client) error {
	c.client = cl
	if err := c.client.Start(c.life); err != nil {
		return err
	}
	var req mcp.InitializeRequest
	req.Params.ClientInfo = c.info
	res, err := c.client.Initialize(ctx, req)
	if err != nil {
		return err
	}
	c.protocol = core.Visible(res.ProtocolVersion, 40, false)
	c.server = core.Visible(strings.TrimSpace(res.ServerInfo.Name+" "+res.ServerInfo.Version), maxServerName, false)
	c.capabilities = capabilitiesOf(c.greeting, c.protocol)
	c.modern = mcp.IsModernProtocol(res.ProtocolVersion)
	c.listens = listensTo(res.Capabilities)
	if c.modern {
		m.startListening(c)
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
