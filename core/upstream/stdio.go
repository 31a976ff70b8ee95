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

// dialStdio starts a child and completes the handshake.
func (d *dialer) dialStdio(ctx context.Context, l Launch, w way) (*conn, error) {
	if l.Verify != nil {
		if err := l.Verify(); err != nil {
			return nil, err
		}
	}
	proc, err := startProcess(l, d.limits.StderrBytes, d.spawn.run)
	if err != nil {
		return nil, err
	}
	c := d.newConn(l)
	c.proc = proc
	ready := false
	defer func() {
		if !ready { // in a panic, too
			d.discard(c)
		}
	}()
	d.noted(l, proc)
	noise := func(line []byte) {
		proc.stray(line)
		if !d.log.Enabled(d.life, slog.LevelDebug) {
			return
		}
		d.log.Debug("not a message", "server", l.Name, "line", core.Visible(string(line), 300, false))
	}
	go c.guard()
	openPipe(c, proc.stdout, proc.stdin, l.resultBytes(d.limits)+64<<10, noise)
	c.noHandshake = w.first == Stateless && w.only
	err = d.handshake(ctx, c, w)
	if err != nil && w.first == Sessions && !w.only && wasAnswered(err) && ctx.Err() == nil && !c.isLost() {
		c.noHandshake = true
		w = way{first: Stateless, only: true}
		err = d.handshake(ctx, c, w)
	}
	if err != nil && w.first == Stateless && !w.only && ctx.Err() == nil && c.isLost() { // the probe has ended it
		return d.dialStdio(ctx, l, way{first: Sessions, only: true})
	}
	if err != nil {
		return nil, d.startFailed(ctx, c, l, err)
	}
	ready = true
	return c, nil
}

func (d *dialer) newConn(l Launch) *conn {
	c := &conn{
		name: l.Name, key: keyOf(l), clock: d.opts.Clock, log: d.log, lost: make(chan struct{}),
		changed: make(chan struct{}, 1), root: l.Workspace, patience: d.limits.Call,
		info: mcp.Implementation{Name: d.opts.ClientName, Version: d.opts.ClientVersion},
	}
	c.life, c.cancel = context.WithCancel(d.life)
	if c.declared = l.Peer.declared(); len(c.declared) > 0 {
		c.own = l.Peer
	}
	c.news.conn, c.beside = c, d.beside
	c.tell = func(during *flight, method string, params json.RawMessage) { d.tell(c, during, method, params) }
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

// handshake agrees on a protocol revision, by a client of mcp-go.
func (d *dialer) handshake(ctx context.Context, c *conn, w way) error {
	cl := client.NewClient(library{c}, w.option())
	var req mcp.InitializeRequest
	req.Params.ClientInfo = c.info
	req.Params.ProtocolVersion = w.pin
	res, err := cl.Initialize(ctx, req)
	if err == nil {
		err = w.pinned(c.name, res.ProtocolVersion)
	}
	if err != nil {
		return err
	}
	c.protocol = core.Visible(res.ProtocolVersion, 40, false)
	c.server = core.Visible(strings.TrimSpace(res.ServerInfo.Name+" "+res.ServerInfo.Version), maxServerName, false)
	c.capabilities = capabilitiesOf(c.greeting, c.protocol)
	c.modern = mcp.IsModernProtocol(res.ProtocolVersion)
	if c.modern {
		c.news.want(listensTo(res.Capabilities))
	}
	return nil
}

// startFailed says why a server did not start.
func (d *dialer) startFailed(ctx context.Context, c *conn, l Launch, err error) error {
	if d.life.Err() != nil {
		return errStopping(l.Name)
	}
	var coded *core.Error
	switch {
	case errors.As(context.Cause(ctx), &coded), errors.As(err, &coded):
		return coded // it was stopped, or its authorization is missing
	case ctx.Err() != nil:
		tail := ""
		if c.proc != nil {
			if line := c.proc.otherJSON(); line != "" {
				return core.Errorf(core.CodeServerUnreachable, "server %q answered, but not with an MCP message, and came up with none within %s: %q; is it an MCP server?", l.Name, d.limits.Start, line)
			}
			tail = c.proc.lastSaid(false)
		}
		return core.Errorf(core.CodeServerUnreachable, "server %q did not answer initialize within %s%s", l.Name, d.limits.Start, tail)
	case c.proc != nil && c.isLost():
		return core.Errorf(core.CodeServerUnreachable, "server %q stopped before it was ready: %s", l.Name, c.proc.report())
	}
	if odd, ok := errors.AsType[*answerError](err); ok {
		err = odd
	}
	return core.Errorf(core.CodeServerUnreachable, "server %q does not complete the MCP handshake: %s", l.Name, core.Visible(plain(err).Error(), 2000, true))
}

// otherJSON is the first line on stdout that is no message, if it is an object in JSON:
// then another protocol is spoken, or the child logs there.
func (p *process) otherJSON() string {
	line := p.banner.Load()
	if line == nil || !strings.HasPrefix(*line, "{") {
		return ""
	}
	return *line
}
