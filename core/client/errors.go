package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// lost is the cause of an error that says that the server did not answer. sent
// is false where the request cannot have reached it, final where trying again
// cannot help.
type lost struct {
	sent, final bool
	err         error
}

// Error implements error.
func (l *lost) Error() string { return l.err.Error() }

// Unwrap returns what went wrong on the way.
func (l *lost) Unwrap() error { return l.err }

// away reports whether an error says that the server did not answer, and might
// when asked again; sent whether it may have read the request.
func away(err error) (away, sent bool) {
	var l *lost
	if !errors.As(err, &l) || l.final {
		return false, false
	}
	return true, l.sent
}

// transport is the error of a request that got no answer. sent says whether any
// of it was written to a connection: the last of several that were tried may be
// one that could not be made.
func (c *connection) transport(ctx, bounded context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		return core.Errorf(core.CodeCancelled, "stopped waiting for %s: %w", c.name, context.Cause(ctx))
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // not the whole address again
	}
	l := &lost{sent: true, err: err}
	text, next := "the server at "+c.name+" closed the connection before it answered", []string{"pml", "server", "status"}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		l.sent = sent
		text, next = c.noDial(err)
	}
	if errors.Is(context.Cause(bounded), errSlow) {
		text = "the server at " + c.name + " did not answer in time"
	}
	if why := notTrusted(err); why != "" {
		l.sent, l.final = false, true
		text, next = "the server at "+c.name+" "+why, []string{"pml", "doctor"}
	}
	return core.Errorf(core.CodeServerUnreachable, "%s (%w)", text, l).WithNext(next...)
}

// noDial says why no connection could be made, and what helps.
func (c *connection) noDial(err error) (text string, next []string) {
	var dns *net.DNSError
	start := []string{"pml", "serve"}
	switch {
	case c.o.Socket != "" && errors.Is(err, fs.ErrNotExist):
		return "no server runs here: there is no socket " + c.name + "; start one", start
	case c.o.Socket != "" && errors.Is(err, syscall.ECONNREFUSED):
		return "no server runs here: nobody answers on the socket " + c.name + ", which was left behind; start one", start
	case c.o.Socket != "" && errors.Is(err, fs.ErrPermission):
		return "the socket " + c.name + " belongs to another user", []string{"pml", "doctor"}
	case errors.As(err, &dns):
		return "the host of the server " + c.name + " is not known; correct --server, PML_SERVER or server.url", []string{"pml", "config"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody answers at " + c.name + "; start the server there, or correct --server, PML_SERVER or server.url", []string{"pml", "config"}
	}
	return "the server at " + c.name + " cannot be reached", []string{"pml", "server", "status"}
}

// notTrusted says what is wrong with the encryption of a connection.
func notTrusted(err error) string {
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "does not speak TLS; write http:// if it is meant to be reached without"
	case errors.As(err, &cert), errors.As(err, &unknown), errors.As(err, &host):
		return "has a certificate that this machine does not trust"
	}
	return ""
}

// problem is the error that the server answered with.
func (c *connection) problem(resp *http.Response, raw []byte) error {
	var p api.Problem
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "application/problem+json" && json.Unmarshal(raw, &p) == nil {
		if p.Error == nil && p.Code != "" {
			p.Error = core.Errorf(p.Code, "%s", p.Detail)
		}
	}
	status := resp.StatusCode
	switch {
	case p.Error != nil && p.Error.Code == core.CodeCancelled && status == http.StatusServiceUnavailable:
		l := &lost{sent: true, err: p.Error}
		return core.Errorf(core.CodeServerUnreachable, "the server at %s is about to stop (%w)", c.name, l).WithRun(p.Error.RunID)
	case p.Error != nil && p.Error.Code != "":
		return p.Error
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return core.Errorf(core.CodeAuth, "the server at %s does not accept who asks (%s); set PML_API_KEY to a key that it knows", c.name, resp.Status).
			WithNext("pml", "server", "key", "add", "NAME")
	case status == http.StatusTooManyRequests:
		return core.Errorf(core.CodeRateLimited, "the server at %s has too many requests; try again later", c.name)
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		l := &lost{sent: true, err: errors.New(resp.Status)}
		return core.Errorf(core.CodeServerUnreachable, "the server at %s is not there now (%w)", c.name, l)
	case status < 400:
		return core.Errorf(core.CodeServerUnreachable, "the server at %s answers with a redirect to %s, which is not followed; name that address if it is the right one",
			c.name, core.Visible(resp.Header.Get("Location"), 200, false))
	}
	return core.Errorf(core.CodeServerUnreachable, "what answers at %s is not a pml server that this pml knows: it says %s", c.name, core.Visible(resp.Status, 100, false))
}
