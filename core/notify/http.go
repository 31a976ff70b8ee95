package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	sendTime  = 10 * time.Second // for one try of a carrier
	maxAnswer = 4 << 10
)

// failure is why a carrier did not take a message.
type failure struct {
	reason string
	final  bool          // the same message will not be taken later
	after  time.Duration // before the next try, where the carrier says so
}

// Error implements error.
func (f *failure) Error() string { return f.reason }

func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{reason: err.Error()}
}

// checkURL refuses what would send messages unencrypted beyond this machine. It repeats
// nothing of the URL, which may hold a key.
func checkURL(text string, insecure bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return core.Errorf(core.CodeInvalidConfig, "needs a URL that begins with https:// and names a host")
	case u.User != nil:
		return core.Errorf(core.CodeInvalidConfig, "has a name or a password in its URL; put a key where the carrier has a place for it")
	case u.Scheme == "http" && !insecure && !isLoopback(u.Hostname()):
		return core.Errorf(core.CodeInvalidConfig, `must begin with https://; http:// is for this machine, or with "insecure": true`)
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// clientFor follows no redirect: messages go where the configuration says and nowhere else.
// http:// connects to addresses of this machine only, whatever its name is resolved to,
// and without a proxy, unless insecure.
func clientFor(address string, insecure bool) *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: sendTime, DisableKeepAlives: true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if !strings.HasPrefix(strings.ToLower(address), "https://") && !insecure {
		t.Proxy = nil
		d := &net.Dialer{ControlContext: func(_ context.Context, _, addr string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(addr); err != nil || !at.Addr().Unmap().IsLoopback() {
				return &failure{reason: "http:// is for addresses of this machine only; use https://", final: true}
			}
			return nil
		}}
		t.DialContext = d.DialContext
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// address is a carrier that is reached by HTTP.
type address struct {
	base
	url    string
	client *http.Client
}

// post sends JSON, and returns the beginning of the answer: of a good one and of a bad one,
// which is a failure as well.
func (a address) post(ctx context.Context, body any, header http.Header) ([]byte, error) {
	raw, ok := body.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, core.Errorf(core.CodeInternal, "cannot encode a message: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(raw))
	if err != nil {
		return nil, &failure{reason: "its URL cannot be used", final: true}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "pml")
	maps.Copy(req.Header, header)
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, transport(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 {
		return answer, nil // it has taken the message, whatever became of its words
	}
	if err != nil {
		answer = nil
	}
	return answer, refused(resp, a.words(answer))
}

// leastKey is the least length of a part of a URL that may be a key.
const leastKey = 6

// words are a foreign text in one line, without what the URL has beyond the host: many
// servers repeat the path that they do not know, and whoever knows that can send.
func (a address) words(text []byte) string {
	said := string(text)
	if u, err := url.Parse(a.url); err == nil {
		parts := append(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")...)
		for _, value := range u.Query() {
			parts = append(parts, value...)
		}
		for _, part := range parts {
			if len(part) >= leastKey {
				said = strings.ReplaceAll(said, part, "…")
			}
		}
	}
	return core.OneLine(said, 150)
}

// transport makes a failure of an error of net/http, without the URL that it repeats.
func transport(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure{reason: "did not answer within " + sendTime.String()}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &failure{reason: "cannot be reached: " + core.Visible(err.Error(), 200, false)}
}

// refused is the failure of an answer that is no yes; words are what it says.
func refused(resp *http.Response, words string) *failure {
	f := &failure{reason: "answered " + strconv.Itoa(resp.StatusCode)}
	if words != "" {
		f.reason += ": " + words
	}
	switch c := resp.StatusCode; {
	case c/100 == 3:
		f.reason, f.final = "answered "+strconv.Itoa(c)+", a redirect, which is not followed; configure the address that it leads to", true
	case c == http.StatusRequestTimeout, c == http.StatusTooManyRequests, c >= 500:
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			f.after = time.Duration(min(s, 3600)) * time.Second
		}
	default:
		f.final = true
	}
	return f
}
