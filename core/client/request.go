package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// request is one question to the server.
type request struct {
	method string
	path   string // after /api/v1, escaped
	query  url.Values
	body   any
	key    string        // Idempotency-Key
	wait   time.Duration // that the server may hold it
	by     core.Actor    // who decides; what it says of an agent is passed on
}

// maxPauses is how often a request is sent again because the server asked for
// a pause, and maxPause the longest of those.
const (
	maxPauses = 3
	maxPause  = 10 * time.Second
)

// ask sends a request and reads the answer into out (nil: thrown away). One that
// found nobody is sent again to the server that is there by now.
func (c *connection) ask(ctx context.Context, r request, out any) error {
	err := c.direct(ctx, r, out)
	if gone, sent := away(err); !gone || sent || c.o.Redial == nil {
		return err
	}
	if err = c.redial(ctx, !c.o.Passive || r.method != http.MethodGet, err); err != nil {
		return err
	}
	return c.direct(ctx, r, out)
}

// direct is ask without a second server.
func (c *connection) direct(ctx context.Context, r request, out any) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.exchange(ctx, r, out)
}

// check refuses, once, a server that speaks another version of the protocol.
func (c *connection) check(ctx context.Context) error {
	c.mu.Lock()
	done := c.checked
	c.mu.Unlock()
	if done {
		return nil
	}
	var s api.ServerStatus
	if err := c.exchange(ctx, request{method: http.MethodGet, path: "/server"}, &s); err != nil {
		return err
	}
	if s.Protocol != api.Protocol {
		return core.Errorf(core.CodeServerUnreachable, "the server at %s is pml %s and speaks version %d of the protocol, this is pml %s and speaks version %d; use the same pml on both sides",
			c.name, core.Visible(s.Version, 40, false), s.Protocol, c.o.Version, api.Protocol).WithNext("pml", "version")
	}
	c.mu.Lock()
	c.checked = true
	c.mu.Unlock()
	return nil
}

// exchange is ask without the look at the server. It pauses where the server
// says that there are too many requests.
func (c *connection) exchange(ctx context.Context, r request, out any) error {
	for n := 0; ; n++ {
		pause, err := c.once(ctx, r, out)
		if core.CodeOf(err) != core.CodeRateLimited || n == maxPauses {
			return err
		}
		if sleep(ctx, pause) != nil {
			return err
		}
	}
}

// once sends a request once. After core.CodeRateLimited pause says how long the
// server wants to be left alone.
func (c *connection) once(ctx context.Context, r request, out any) (pause time.Duration, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.o.Limits.Timeout+max(0, r.wait), errSlow)
	defer cancel()
	req, err := c.prepare(bounded, r)
	if err != nil {
		return 0, err
	}
	var sent atomic.Bool
	resp, err := c.http.Do(noting(req, &sent))
	if err != nil {
		return 0, c.transport(ctx, bounded, sent.Load(), err)
	}
	defer resp.Body.Close()
	body := c.known.body()
	defer c.known.kept(body)
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, c.o.Limits.Body+1)); err != nil {
		return 0, c.transport(ctx, bounded, true, err)
	}
	raw := body.Bytes()
	if int64(len(raw)) > c.o.Limits.Body {
		return 0, core.Errorf(core.CodeResultTooLarge, "the answer of %s to %s is larger than %d bytes", c.name, r.path, c.o.Limits.Body)
	}
	if resp.StatusCode >= 300 {
		return retryAfter(resp), c.problem(resp, raw)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return 0, nil
	}
	if err := decode(raw, out); err != nil {
		return 0, core.Errorf(core.CodeServerUnreachable, "the answer of %s to %s is not one of a pml server (%w)", c.name, r.path, err)
	}
	return 0, nil
}

func (c *connection) prepare(ctx context.Context, r request) (_ *http.Request, err error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, core.Errorf(core.CodeInvalidArguments, "the request cannot be written as JSON: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	u := *c.base
	u.RawPath = u.EscapedPath() + "/api/v1" + r.path
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot ask %s: %w", c.name, err)
	}
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot ask %s: %w", c.name, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pml/"+c.o.Version)
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	c.identify(req.Header, r.by)
	for name, values := range req.Header {
		if !carried(values...) {
			return nil, core.Errorf(core.CodeInvalidArguments, "the %s of the request has a line break or another control character in it", strings.ToLower(name))
		}
	}
	return req, nil
}

// noting is the request that notes when something of it was written.
func noting(req *http.Request, sent *atomic.Bool) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}))
}

// identify says who asks, and about which folder.
func (c *connection) identify(h http.Header, by core.Actor) {
	if c.o.Via == core.ViaMCP { // an agent decides nowhere as a person
		h.Set(api.HeaderVia, string(c.o.Via))
		for name, said := range map[string]string{api.HeaderAgent: by.Host(), api.HeaderAgentVersion: by.Client.Version, api.HeaderAgentTitle: by.Client.Title} {
			if said != "" {
				h.Set(name, url.PathEscape(said))
			}
		}
	}
	if c.o.Socket == "" {
		if c.o.APIKey != "" {
			h.Set("Authorization", "Bearer "+c.o.APIKey)
		}
		return
	}
	if c.o.Workspace != "" {
		// A path may have what no header can carry.
		h.Set(api.HeaderWorkspace, (&url.URL{Path: c.o.Workspace}).EscapedPath())
	}
	if c.o.Via == core.ViaCLI || c.o.Via == core.ViaTUI {
		h.Set(api.HeaderVia, string(c.o.Via))
	}
}

// carried reports whether values can be those of a header.
func carried(values ...string) bool {
	return !slices.ContainsFunc(values, func(v string) bool {
		return strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	})
}

// retryAfter is how long a server wants to be left alone, within reason.
func retryAfter(resp *http.Response) time.Duration {
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return time.Second
	}
	return min(time.Duration(s)*time.Second, maxPause)
}

// sleep waits, and fails when the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errSlow = errors.New("no answer in time")
