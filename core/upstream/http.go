package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// cancelWait bounds how long the notice of a cancelled call may take.
const cancelWait = 5 * time.Second

var (
	errTooLong  = errors.New("the response is too long")
	errRedirect = errors.New("a redirect to another host is not followed: it would get the configured headers")
)

// httpTransport is the library's streamable HTTP.
type httpTransport struct {
	*transport.StreamableHTTP
	conn   *conn
	url    string
	client *http.Client // of the endpoint
	// version is the revision that goes with our answers.
	version atomic.Value
	// modern is what SetProtocolVersion was told.
	modern bool
	// refused is set when the probe for the newest revision lacked
	// authorization: the handshake that follows it would too.
	refused error
}

// RequiresLegacyProtocol hides what the library deduces from its listening:
// here it listens on old revisions, and subscribes on the newest.
func (t *httpTransport) RequiresLegacyProtocol() bool { return false }

// SetProtocolVersion notes the era: before 2026-07-28 closing a request's
// stream does not cancel it.
func (t *httpTransport) SetProtocolVersion(version string) {
	t.modern = mcp.IsModernProtocol(version)
	t.version.Store(version)
	t.StreamableHTTP.SetProtocolVersion(version)
}

// SendRequest implements transport.Interface.
func (t *httpTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	return t.conn.exchange(ctx, req, t.roundTrip)
}

// roundTrip keeps the data of an error as it was sent and tells the server of
// a request that was given up.
func (t *httpTransport) roundTrip(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if t.refused != nil && req.Method == string(mcp.MethodInitialize) {
		return nil, t.refused
	}
	a := answerOf(ctx)
	if a == nil {
		ctx, a = withAnswer(ctx)
	}
	resp, err := t.StreamableHTTP.SendRequest(ctx, req)
	if err == nil {
		err = mismatch(req, resp)
	}
	if err == nil {
		if resp.Error != nil {
			a.keepData(resp.Error)
		}
		return resp, nil
	}
	var auth *AuthRequired
	switch {
	case errors.As(err, &auth) && req.Method == string(mcp.MethodServerDiscover):
		t.refused = err
	case errors.Is(err, transport.ErrSessionTerminated):
		a.unsent = true // the server has forgotten us and did nothing
	}
	starts := req.Method == string(mcp.MethodInitialize) || req.Method == string(mcp.MethodServerDiscover)
	if ctx.Err() != nil && !starts && !t.modern {
		go t.sendCancelled(context.WithoutCancel(ctx), req.ID)
	}
	return nil, a.explain(err)
}

func (t *httpTransport) sendCancelled(ctx context.Context, id mcp.RequestId) {
	defer t.conn.survive("a server was told that a call is cancelled")
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, answerKey{}, (*answer)(nil)), cancelWait)
	defer cancel()
	var n mcp.JSONRPCNotification
	n.JSONRPC = mcp.JSONRPC_VERSION
	n.Method = string(mcp.MethodNotificationCancelled)
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": "the caller has given up"}
	if err := t.SendNotification(ctx, n); err != nil {
		t.conn.log.Debug("the cancellation was not delivered", "server", t.conn.name, "err", plain(err))
	}
}

// keepData gives an error its data as it was sent.
func (a *answer) keepData(e *mcp.JSONRPCErrorDetails) {
	if e.Data == nil {
		return
	}
	if data := a.data.Load(); data != nil {
		e.Data = *data
	} else if f := a.http.Load(); f != nil {
		if w, ok := parseWire(bytes.TrimSpace(f.body.small)); ok {
			if data := errorData(w.failure); data != nil {
				e.Data = data
			}
		}
	}
}

// plain is an error without the address of its request, which may hold a key.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// dialHTTP opens a streamable HTTP endpoint and agrees on a revision.
func (m *Manager) dialHTTP(ctx, life context.Context, l Launch) (*conn, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, core.Errorf(core.CodeInternal, "the HTTP transport was replaced")
	}
	own := base.Clone()
	own.MaxIdleConnsPerHost = m.limits.PerServer
	end, err := newEndpoint(l, own, m.limits)
	if err != nil {
		return nil, err
	}
	inner, err := transport.NewStreamableHTTP(l.URL, transport.WithHTTPBasicClient(end.client()),
		transport.WithContinuousListening(), //nolint:staticcheck // deprecated with the revisions that need it
		transport.WithHTTPLogger(slog.New(calmLog{m.log.Handler()})))
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "server %q: its url is not an address of HTTP", l.Name)
	}
	c := m.newConn(life, l)
	cancel := c.cancel
	c.cancel = func() { cancel(); own.CloseIdleConnections() }
	t := &httpTransport{StreamableHTTP: inner, conn: c, url: l.URL, client: end.client()}
	end.heard = func(ctx context.Context, w wire) { c.heard(ctx, w, t.queue) }
	ready := false
	defer func() {
		if !ready { // in a panic, too
			m.discard(c)
		}
	}()
	if err := m.handshake(ctx, c, client.NewClient(t, client.WithDiscoverTimeout(discoverTimeout))); err != nil {
		return nil, m.startFailed(ctx, c, l, err)
	}
	ready = true
	end.stream.open(c.own != nil || c.capabilities.announces(), c.protocol)
	return c, nil
}
