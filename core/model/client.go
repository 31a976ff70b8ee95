package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/redact"
)

const (
	maxErrorBody   = 64 << 10
	defaultTokens  = 4096
	defaultSilence = 2 * time.Minute
)

// Client calls models. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	clock core.Clock
}

// NewClient returns a client that sends its requests with h, whose transport it uses:
// no redirect is followed, because the conversation and the key go to where the
// configuration says and nowhere else. With nil it is Go's own, with the proxies and
// the certificates of the environment.
func NewClient(h *http.Client, clock core.Clock) *Client {
	c := http.Client{}
	if h != nil {
		c.Transport = h.Transport
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &c, clock: clock}
}

// Call asks a model and returns its whole answer. It sends one request.
//
// Errors are core.CodeModelNoKey and core.CodeModelKeyRefused, CodeRateLimited (with
// RetryAfter where the provider says it), CodeModelUnavailable (it fails or is
// overloaded), CodeModelQuota, CodeModelContext (the conversation is too long),
// CodeModelInvalid, CodeModelRefused (by a policy of the provider's),
// CodeModelStream (the answer broke off, or is not what the protocol says),
// CodeModelTimeout, CodeResultTooLarge, CodeServerUnreachable, CodeCancelled, and
// CodePermissionDenied where the model is not at Request.To. None of them holds the key.
func (c *Client) Call(ctx context.Context, m Model, r Request) (Answer, error) {
	if r.MaxTokens <= 0 {
		r.MaxTokens = m.Tokens()
	}
	if r.To != "" && r.To != m.Base() {
		return Answer{}, core.Errorf(core.CodePermissionDenied, "the model %s is at %s by now, and not at %s, which was allowed; nothing was sent: run it again to be asked", m.Name, core.Visible(m.Base(), 200, false), core.Visible(r.To, 200, false)).WithNotMade()
	}
	if m.Silence <= 0 {
		m.Silence = defaultSilence
	}
	if m.NeedsKey() && m.Key == "" {
		return Answer{}, m.errorOf(faultf(core.CodeModelNoKey, "needs a key, and none is set; set the variable that api_key in its entry of models names"), "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(m.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	answer, requestID, err := c.send(ctx, m, r, silence)
	if err != nil {
		return Answer{}, m.errorOf(transportFault(ctx, m, err), requestID)
	}
	answer.RequestID = requestID
	return answer, nil
}

// send makes the request and reads its answer.
func (c *Client) send(ctx context.Context, m Model, r Request, silence *time.Timer) (a Answer, requestID string, err error) {
	req, err := newRequest(ctx, m, r)
	if err != nil {
		return a, "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	silence.Reset(m.Silence)
	if requestID = resp.Header.Get("Request-Id"); requestID == "" {
		requestID = resp.Header.Get("X-Request-ID")
	}
	requestID = core.Visible(requestID, 100, false)
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err != nil && ctx.Err() != nil {
			return a, requestID, err
		}
		return a, requestID, statusError(resp.StatusCode, resp.Header, text, c.clock.Now())
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "text/event-stream" {
		return a, requestID, broken("answered with %q, which is no stream of events", core.Visible(resp.Header.Get("Content-Type"), 60, false))
	}
	a, err = readStream(heardReader{resp.Body, func() { silence.Reset(m.Silence) }}, newAssembler(m.Protocol, r.OnText))
	return a, requestID, err
}

// heardReader tells of each read that brought something.
type heardReader struct {
	src   io.Reader
	heard func()
}

// Read implements io.Reader.
func (r heardReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if n > 0 {
		r.heard()
	}
	return n, err
}

func newRequest(ctx context.Context, m Model, r Request) (*http.Request, error) {
	body, path := anthropicRequest(m, r), "/messages"
	if m.Protocol == OpenAI {
		body, path = openAIRequest(m, r), "/chat/completions"
	}
	base := strings.TrimRight(m.Base(), "/")
	if m.Protocol == Anthropic && !strings.HasSuffix(base, "/v1") {
		path = "/v1" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, faultf(core.CodeInvalidConfig, "has a base_url that is no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "pml")
	switch {
	case m.Protocol == Anthropic:
		req.Header.Set("Anthropic-Version", anthropicVersion)
		if m.Key != "" {
			req.Header.Set("X-Api-Key", m.Key)
		}
	case m.Key != "":
		req.Header.Set("Authorization", "Bearer "+m.Key)
	}
	return req, nil
}

// errorOf names the model and where it is, and takes the key out of what was said.
func (m Model) errorOf(err error, requestID string) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		f = faultf(core.CodeInternal, "%v", err)
	}
	where := ""
	if u, err := url.Parse(m.Base()); err == nil && u.Host != "" {
		where = " (" + m.ID + " at " + u.Host + ")"
	}
	text := "the model " + m.Name + core.Visible(where, 200, false) + " " + f.whole()
	if requestID != "" {
		text += " (request " + requestID + ")"
	}
	out := core.Errorf(f.code, "%s", redact.New(map[string]string{"api_key": m.Key}).String(text))
	out.RetryAfter = f.seconds()
	if f.code == core.CodeModelKeyRefused || f.code == core.CodeModelNoKey {
		out.Next = []string{"pml", "models", "ls"}
	}
	return out
}
