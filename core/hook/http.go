package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// client posts to the URLs of http nodes. It follows no redirect, because what decides
// about calls is who was named, and keeps to this machine where nothing is encrypted.
var client = &http.Client{
	Transport: &http.Transport{
		DialContext: dial, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

type plainKey struct{}

// dial connects; for http:// to addresses of this machine only, whatever a name is
// resolved to.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{ControlContext: func(ctx context.Context, _, addr string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(addr); ctx.Value(plainKey{}) != nil && (err != nil || !at.Addr().Unmap().IsLoopback()) {
			return core.Errorf(core.CodeHookFailed, "http:// is for addresses of this machine only; use https://")
		}
		return nil
	}}
	return d.DialContext(ctx, network, addr)
}

// post gives the event to a URL and reads its answer.
func (e *execution) post(ctx context.Context, in flow.Input) (out flow.Output, err error) {
	h := in.Node.Data.HTTP
	body, err := eventOf(in)
	if err != nil {
		return out, err
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return out, core.Errorf(core.CodeHookFailed, "its URL cannot be read")
	}
	ctx, cancel := context.WithTimeout(ctx, in.Node.Timeout())
	defer cancel()
	if u.Scheme != "https" {
		ctx = context.WithValue(ctx, plainKey{}, true)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return out, core.Errorf(core.CodeHookFailed, "its URL cannot be used")
	}
	for name, text := range h.Headers {
		value, err := e.expand(in, text)
		if err != nil {
			return out, err
		}
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return out, unanswered(ctx, in, u, err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxReply+1))
	switch {
	case err != nil:
		return out, unanswered(ctx, in, u, err)
	case len(said) > maxReply:
		return out, core.Errorf(core.CodeHookFailed, "%s answered with more than %d MiB", u.Host, maxReply>>20)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return out, core.Errorf(core.CodeHookFailed, "%s answered with status %d, which decides nothing; redirects are not followed", u.Host, answer.StatusCode)
	}
	return readReply(in, said)
}

// unanswered is the error of a URL that gave no answer. It names the host only: the
// rest of a URL may hold keys.
func unanswered(ctx context.Context, in flow.Input, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return core.Errorf(core.CodeTimeout, "%s did not answer within %v (timeoutMs)", u.Host, in.Node.Timeout())
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return core.Errorf(core.CodeHookFailed, "%s gave no answer: %w", u.Host, err)
}
