package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/casys-ai/pml/core"
)

// headBytes is how much is kept of the body of a response that failed.
const headBytes = 300

// maxSmall is the length of a body that is kept: it may be an error, whose data
// the library does not keep as it was sent.
const maxSmall = 16 << 10

// endpoint sends the requests to one HTTP server: with its configured headers
// and its authorization, to its own origin only, and with bounded responses.
type endpoint struct {
	next    http.RoundTripper
	server  string
	origin  *url.URL
	headers map[string]string
	auth    Authorizer // nil when the entry has an Authorization of its own
	max     int64
	grace   time.Duration // for the goodbye of a session
	stream  *streamGate
	// heard gets what the server says in streams; set before the first request.
	heard func(ctx context.Context, w wire)
}

// newEndpoint returns the endpoint of a launch.
func newEndpoint(l Launch, next http.RoundTripper, limits Limits) (*endpoint, error) {
	origin, err := url.Parse(l.URL)
	if err != nil || httpURL(origin.Scheme+"://"+origin.Host) == "" {
		return nil, core.Errorf(core.CodeInvalidConfig, "server %q: its url is not an address of HTTP", l.Name)
	}
	e := &endpoint{
		next: next, server: l.Name, origin: origin, headers: maps.Clone(l.Headers), auth: l.Auth,
		max: int64(limits.ResultBytes) + 1<<20, grace: limits.StopGrace, stream: newStreamGate(),
	}
	if e.configured() {
		e.auth = nil
	}
	return e, nil
}

// configured reports whether the entry itself declares Authorization.
func (e *endpoint) configured() bool {
	for name := range e.headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// client returns an HTTP client of the endpoint.
func (e *endpoint) client() *http.Client {
	return &http.Client{Transport: e, CheckRedirect: sameHost}
}

// sameHost refuses redirects that would carry the headers elsewhere.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 5 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errRedirect
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != e.origin.Host || req.URL.Scheme != e.origin.Scheme {
		closeBody(req)
		return nil, errRedirect
	}
	switch {
	case isListening(req):
		return e.listen(req)
	case req.Method == http.MethodDelete:
		return e.goodbye(req)
	}
	resp, err := e.send(req)
	if err != nil {
		return nil, err
	}
	body := &boundedBody{ReadCloser: resp.Body, max: e.max, left: e.max, events: isEvents(resp)}
	resp.Body = body
	if body.answer = answerOf(req.Context()); body.answer != nil {
		body.answer.note(resp, body)
	}
	if body.events && resp.StatusCode == http.StatusOK {
		resp.Body = e.filtered(req.Context(), body)
	}
	return resp, nil
}

// isListening reports whether a request opens the stream of notifications,
// and neither goes on with the stream of a call nor follows a redirect.
func isListening(req *http.Request) bool {
	return req.Method == http.MethodGet && req.Header.Get("Accept") == "text/event-stream" && req.Header.Get("Last-Event-ID") == ""
}

// send sends a request, once more with another header when the first one was
// rejected and the Authorizer has another.
func (e *endpoint) send(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	for try := 0; ; try++ {
		header := ""
		if e.auth != nil {
			var err error
			if header, err = e.auth.Header(ctx); err != nil {
				closeBody(req)
				return nil, err
			}
		}
		resp, err := e.next.RoundTrip(e.dress(req, header))
		answerOf(ctx).tried(err)
		if err != nil {
			return nil, err
		}
		asked := asksAuth(e.server, resp)
		if asked == nil {
			return resp, nil
		}
		discard(resp)
		again := try == 0 && e.auth != nil && resp.StatusCode == http.StatusUnauthorized &&
			(req.Body == nil || req.GetBody != nil) && e.auth.Rejected(ctx, header)
		if !again {
			return nil, refusal(asked, resp.StatusCode, e.configured())
		}
		if req.Body != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			req = req.Clone(ctx)
			req.Body = body
		}
	}
}

// tried notes whether the server may have got something of a request, which ended
// with err.
func (a *answer) tried(err error) {
	var op *net.OpError
	switch {
	case a == nil:
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		a.refused.Store(true)
	default:
		a.reached.Store(true)
	}
}

// dress returns the request with the headers of the entry and its authorization.
func (e *endpoint) dress(req *http.Request, authorization string) *http.Request {
	out := req.Clone(req.Context())
	for name, value := range e.headers {
		out.Header.Set(name, value)
	}
	if authorization != "" {
		out.Header.Set("Authorization", authorization)
	}
	return out
}

// goodbye ends a session without waiting for a server that does not answer.
func (e *endpoint) goodbye(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), e.grace)
	defer cancel()
	resp, err := e.send(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	discard(resp)
	resp.Body = http.NoBody
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// discard ends a response; what is short is read so that its connection can be
// used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

func isEvents(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/event-stream"
}

// boundedBody cuts a response that is longer than max bytes, and a stream of
// events at an event that is.
type boundedBody struct {
	io.ReadCloser
	max, left int64
	events    bool
	blank     bool // of a stream: the line so far is empty
	head      []byte
	keepHead  bool
	small     []byte // the whole body if it is no longer than maxSmall
	read      int64
	answer    *answer
	received  func() // of a notification stream: something came
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.answer != nil {
			b.answer.tooLong.Store(true)
		}
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.events {
		b.endEvents(p[:n])
	}
	if b.keepHead && len(b.head) < headBytes {
		b.head = append(b.head, p[:min(n, headBytes-len(b.head))]...)
	}
	if b.read += int64(n); b.read > maxSmall || b.events {
		b.small = nil
	} else {
		b.small = append(b.small, p[:n]...)
	}
	if n > 0 && b.received != nil {
		b.received()
	}
	return n, err
}

// endEvents starts the count anew behind the last event that is complete.
func (b *boundedBody) endEvents(p []byte) {
	for i, c := range p {
		switch {
		case c == '\n' && b.blank:
			b.left = b.max - int64(len(p)-i-1)
		case c == '\n':
			b.blank = true
		case c != '\r':
			b.blank = false
		}
	}
}

// httpFacts is how a server answered a request, apart from what it said.
type httpFacts struct {
	status string
	code   int
	kind   string // its content type
	body   *boundedBody
}

// note keeps the facts of the first response behind redirects: those after it
// in the same context belong to our answers to the server's own requests.
func (a *answer) note(resp *http.Response, body *boundedBody) {
	f := &httpFacts{status: resp.Status, code: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: body}
	body.keepHead = f.code >= 300
	if old := a.http.Load(); old == nil || old.code/100 == 3 {
		a.http.Store(f)
	}
}

// answerError says how a response was no answer.
type answerError struct {
	text  string
	cause error
}

// Error implements error.
func (e *answerError) Error() string { return e.text }

// Unwrap returns what the library made of it.
func (e *answerError) Unwrap() error { return e.cause }

// explain says in our words why a request over HTTP failed, where the facts
// tell more than the library.
func (a *answer) explain(err error) error {
	f := a.http.Load()
	if f == nil || a.tooLong.Load() {
		return err
	}
	if f.code >= 300 {
		text := "it answers with HTTP " + core.Visible(f.status, 60, false)
		if head := strings.TrimSpace(string(f.body.head)); head != "" && !strings.HasPrefix(head, "<") {
			text += ": " + core.Visible(head, 200, false)
		}
		return &answerError{text, err}
	}
	kind, _, _ := mime.ParseMediaType(f.kind)
	if kind != "application/json" && kind != "text/event-stream" {
		if kind == "" {
			kind = "text without a type"
		}
		return &answerError{fmt.Sprintf("it answers with %s, which is no MCP message: is its url right?", core.Visible(kind, 60, false)), err}
	}
	return err
}

// mismatch returns an error unless resp is an answer to the request.
func mismatch(req transport.JSONRPCRequest, resp *transport.JSONRPCResponse) error {
	switch {
	case resp == nil:
		return &answerError{text: "it answers with nothing"}
	case resp.Error != nil && resp.ID.IsNil():
		return nil // it could not read the request's id
	case resp.Error == nil && resp.Result == nil:
		return &answerError{text: "it answers with neither a result nor an error"}
	case resp.ID.String() != req.ID.String():
		return &answerError{text: "it answers to another request than the one it was sent"}
	}
	return nil
}
