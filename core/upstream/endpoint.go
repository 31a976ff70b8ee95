package upstream

import (
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

	"github.com/casys-ai/pml/core"
)

// headBytes is how much is kept of the body of a response that failed.
const headBytes = 300

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
}

// newEndpoint returns the endpoint of a launch.
func newEndpoint(l Launch, next http.RoundTripper, limits Limits) (*endpoint, error) {
	origin, err := url.Parse(l.URL)
	if err != nil || httpURL(origin.Scheme+"://"+origin.Host) == "" {
		return nil, core.Errorf(core.CodeInvalidConfig, "server %q: its url is not an address of HTTP", l.Name)
	}
	e := &endpoint{
		next: next, server: l.Name, origin: origin, headers: maps.Clone(l.Headers), auth: l.Auth,
		max: int64(l.resultBytes(limits)) + 1<<20, grace: limits.StopGrace,
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

// attempt sends one request, and what the redirects make of it.
type attempt struct {
	*endpoint
	answer *answer // may be nil
}

// do sends a request. What is known of how that went it notes in the answer.
func (e *endpoint) do(req *http.Request, a *answer) (*http.Response, error) {
	client := http.Client{Transport: attempt{e, a}, CheckRedirect: sameHost}
	return client.Do(req)
}

// sameHost refuses redirects that would carry the headers elsewhere.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 5 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errRedirect
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (t attempt) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != t.origin.Host || req.URL.Scheme != t.origin.Scheme {
		closeBody(req)
		return nil, errRedirect
	}
	return t.send(req, t.answer)
}

// body is what a response says, bounded.
func (e *endpoint) body(resp *http.Response, a *answer, received func()) *boundedBody {
	return &boundedBody{ReadCloser: resp.Body, max: e.max, left: e.max, events: isEvents(resp), keepHead: resp.StatusCode >= 300, answer: a, received: received}
}

// send sends a request, once more with another header when the first one was
// rejected and the Authorizer has another.
func (e *endpoint) send(req *http.Request, a *answer) (*http.Response, error) {
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
		a.tried(err)
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
		a.refused = true
	default:
		a.reached = true
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

func isEvents(resp *http.Response) bool { return kindOf(resp) == "text/event-stream" }

func isJSON(resp *http.Response) bool { return kindOf(resp) == "application/json" }

func kindOf(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
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
	answer    *answer
	received  func() // of a notification stream: something came
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.answer != nil {
			b.answer.tooLong = true
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
	f := a.http
	if f == nil || a.tooLong {
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
