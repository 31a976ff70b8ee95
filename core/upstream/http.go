package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// cancelWait bounds how long the notice of a cancelled call may take.
const cancelWait = 5 * time.Second

var (
	errTooLong  = errors.New("the response is too long")
	errRedirect = errors.New("a redirect to another host is not followed: it would get the configured headers")
)

// httpTransport is streamable HTTP: a POST for each message, which is answered by
// JSON or by a stream of events, and a GET for what belongs to none.
type httpTransport struct {
	conn *conn
	end  *endpoint
	url  string
	// closed ends when no more is to be sent.
	closed context.Context    //nolint:containedctx // of all requests
	cut    context.CancelFunc // ends it
	// version is the revision that goes with all that is sent, session the id of
	// the session; both are texts.
	version, session atomic.Value
	// refused is set when the probe for the newest revision lacked
	// authorization: the handshake that follows it would too.
	refused error
}

// speak implements wire.
func (t *httpTransport) speak(version string) { t.version.Store(version) }

func text(v *atomic.Value) string {
	s, _ := v.Load().(string)
	return s
}

// modern reports whether requests stand alone. Before, closing the stream of one
// does not cancel it.
func (t *httpTransport) modern() bool { return mcp.IsModernProtocol(text(&t.version)) }

// close implements wire. It ends the session without waiting for a server that
// does not answer.
func (t *httpTransport) close() error {
	if t.closed.Err() != nil {
		return nil
	}
	t.cut()
	if text(&t.session) == "" || t.modern() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.closed), t.end.grace)
	defer cancel()
	req, err := t.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return err
	}
	if resp, err := t.end.do(req, nil); err == nil {
		discard(resp)
	}
	return nil
}

// request is a request over HTTP with what goes with each.
func (t *httpTransport) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
	}
	if id := text(&t.session); id != "" && !t.modern() {
		req.Header.Set(transport.HeaderKeySessionID, id)
	}
	if v := text(&t.version); v != "" {
		req.Header.Set(transport.HeaderKeyProtocolVersion, v)
	}
	return req, nil
}

// trip implements wire. It tells the server of a request that was given up.
func (t *httpTransport) trip(ctx context.Context, req request, a *answer) (*jsonrpc.Message, error) {
	if t.refused != nil && req.Method == string(mcp.MethodInitialize) {
		return nil, t.refused
	}
	m, err := t.post(ctx, req, a)
	if err == nil {
		if err = mismatch(req, m); err == nil {
			return m, nil
		}
	}
	var auth *AuthRequired
	switch {
	case errors.As(err, &auth) && req.Method == string(mcp.MethodServerDiscover):
		t.refused = err
	case errors.Is(err, transport.ErrSessionTerminated):
		a.unsent = true // the server has forgotten us and did nothing
	}
	if ctx.Err() != nil && !req.starts() && !t.modern() {
		go t.sendCancelled(context.WithoutCancel(ctx), req)
	}
	return nil, a.explain(err)
}

// post sends a request and reads the response to it.
func (t *httpTransport) post(ctx context.Context, req request, a *answer) (*jsonrpc.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.closed, cancel)()
	body, err := json.Marshal(req.Request)
	if err != nil {
		return nil, err
	}
	r, err := t.request(ctx, http.MethodPost, body)
	if err != nil {
		return nil, err
	}
	for name, values := range req.header {
		if r.Header.Get(name) == "" {
			r.Header[name] = values
		}
	}
	if err := req.mayGo(a); err != nil {
		return nil, err
	}
	resp, err := t.end.do(r, a) //nolint:bodyclose // its body is closed as what was said
	if err != nil {
		return nil, err
	}
	said := t.end.body(resp, a, nil)
	defer func() { _ = said.Close() }()
	a.http = &httpFacts{status: resp.Status, code: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: said}
	switch ok := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted; {
	case resp.StatusCode == http.StatusNotFound:
		return nil, transport.ErrSessionTerminated
	case ok && isEvents(resp):
		t.begin(req, resp)
		s := eventStream{answers: true, heard: func(m jsonrpc.Message) { t.conn.heard(ctx, m, t.queue) }, reopen: t.end.reopening(r, resp, a, nil)}
		return s.read(said)
	case ok && !isJSON(resp):
		return nil, errNoObject // explained by what it is
	case ok:
		t.begin(req, resp)
	}
	var text json.RawMessage
	if err := json.NewDecoder(said).Decode(&text); err != nil {
		return nil, err
	}
	m, ok := jsonrpc.Parse(text)
	if !ok {
		return nil, errNoObject
	}
	return &m, nil
}

// begin takes the id of the session that a handshake has begun.
func (t *httpTransport) begin(req request, resp *http.Response) {
	if id := resp.Header.Get(transport.HeaderKeySessionID); id != "" && req.Method == string(mcp.MethodInitialize) {
		t.session.Store(id)
	}
}

// tell implements wire.
func (t *httpTransport) tell(ctx context.Context, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return t.deliver(ctx, body)
}

// deliver posts what has no answer.
func (t *httpTransport) deliver(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.closed, cancel)()
	req, err := t.request(ctx, http.MethodPost, body)
	if err != nil {
		return err
	}
	resp, err := t.end.do(req, nil)
	if err != nil {
		return err
	}
	discard(resp)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return nil
	case http.StatusNotFound:
		return transport.ErrSessionTerminated
	}
	return &answerError{text: "it answers with HTTP " + core.Visible(resp.Status, 60, false)}
}

// queue has the answer to a request of the server sent, and returns at once.
func (t *httpTransport) queue(response []byte) { t.conn.deliver(response, t.reply) }

// replyWait bounds how long the delivery of an answer may take.
const replyWait = 30 * time.Second

// reply sends the answer to a request of the server.
func (t *httpTransport) reply(response []byte) {
	ctx, cancel := context.WithTimeout(t.conn.life, replyWait)
	defer cancel()
	if err := t.deliver(ctx, response); err != nil {
		t.conn.log.Debug("an answer was not delivered", "server", t.conn.name, "err", plain(err))
	}
}

func (t *httpTransport) sendCancelled(ctx context.Context, req request) {
	defer t.conn.survive("a server was told that a call is cancelled")
	ctx, cancel := context.WithTimeout(ctx, cancelWait)
	defer cancel()
	if err := t.tell(ctx, takesBack(req)); err != nil {
		t.conn.log.Debug("the cancellation was not delivered", "server", t.conn.name, "err", plain(err))
	}
}

// plain is an error without the address of its request, which may hold a key.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// dialHTTP opens a streamable HTTP endpoint and agrees on a revision.
func (d *dialer) dialHTTP(ctx context.Context, l Launch, w way) (*conn, error) {
	c, answered, err := d.openHTTP(ctx, l, w)
	if err != nil && answered && w.first == Sessions && !w.only && ctx.Err() == nil {
		c, _, err = d.openHTTP(ctx, l, way{first: Stateless, only: true})
	}
	return c, err
}

// openHTTP opens an endpoint in the way that comes first; where that is the
// probe, the library does the handshake when it fails. answered is set where the
// server has refused.
func (d *dialer) openHTTP(ctx context.Context, l Launch, w way) (_ *conn, answered bool, _ error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, false, core.Errorf(core.CodeInternal, "the HTTP transport was replaced")
	}
	own := base.Clone()
	own.MaxIdleConnsPerHost = l.atOnce(d.limits)
	end, err := newEndpoint(l, own, d.limits)
	if err != nil {
		return nil, false, err
	}
	c := d.newConn(l)
	c.noHandshake = w.first == Stateless && w.only
	cancel := c.cancel
	c.cancel = func() { cancel(); own.CloseIdleConnections() }
	t := &httpTransport{conn: c, end: end, url: l.URL}
	t.closed, t.cut = context.WithCancel(context.WithoutCancel(d.life))
	c.wire = t
	ready := false
	defer func() {
		if !ready { // in a panic, too
			d.discard(c)
		}
	}()
	if err := d.handshake(ctx, c, w); err != nil {
		return nil, wasAnswered(err), d.startFailed(ctx, c, l, err)
	}
	ready = true
	if !c.modern && (c.own != nil || c.capabilities.announces()) {
		t.beginListening(ctx)
	}
	return c, true, nil
}
