package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/casys-ai/pml/core"
)

const (
	// refreshAhead is how long before its expiry a token is replaced.
	refreshAhead = time.Minute
	// refreshTime bounds a refresh with the wait for its lock.
	refreshTime = lockTime + requestTime
	// tokenLimit is the longest token that goes into a header.
	tokenLimit = 16 << 10
)

// Authorizer gives the Authorization header of a server's requests. It
// implements upstream.Authorizer.
func (c *Client) Authorizer(s Server) *Authorizer {
	a := &Authorizer{c: c, s: s}
	a.r, a.err = parseServerURL(s.URL)
	return a
}

// Authorizer is the credentials of one server in use. What it gives must be
// sent to the origin of the server's URL and nowhere else.
type Authorizer struct {
	c   *Client
	s   Server
	r   resource // of s
	err error    // why there is none
}

// Header returns the Authorization header, refreshed when it is about to
// expire; empty when the server is not connected. Errors: CodeServerUnreachable
// when a refresh found nobody and the token has expired, CodeStoreFailed when
// the credentials cannot be used as they lie there.
func (a *Authorizer) Header(ctx context.Context) (string, error) {
	if a.err != nil {
		return "", a.err
	}
	r := a.r
	k, err := a.c.kept(r)
	if err != nil || !k.usable() {
		return "", err
	}
	now := a.c.o.Clock.Now()
	if !k.due(now) {
		return k.header(), nil
	}
	if k.RefreshToken != "" {
		fresh, err := a.c.refresh(ctx, a.s, r, k.AccessToken, false)
		if err == nil {
			if !fresh.usable() {
				return "", nil
			}
			return fresh.header(), nil
		}
		if k.expired(now) {
			return "", err
		}
		a.c.o.Logger.Warn("a token could not be refreshed and is used until it expires", "server", a.s.Name, "err", err)
	}
	if k.expired(now) {
		return "", nil
	}
	return k.header(), nil
}

// Rejected takes back a header to which the server has answered 401. It reports
// whether another header can be had, so that the request may be sent again.
// Tokens that cannot be replaced are marked: the server counts as not
// connected from then on.
func (a *Authorizer) Rejected(ctx context.Context, header string) bool {
	if a.err != nil {
		return false
	}
	r := a.r
	k, err := a.c.load(r)
	if err != nil || !k.usable() {
		return false
	}
	if header != k.header() {
		return true // replaced meanwhile
	}
	// A replacement that is refused at once: another one would be, too.
	again := k.AfterRejection && a.c.o.Clock.Now().Sub(k.Obtained) < refreshAhead
	if k.RefreshToken == "" || again {
		if err := a.c.spoil(ctx, r, k.AccessToken, "the server refuses the access token"); err != nil {
			a.c.o.Logger.Warn("cannot mark credentials as unusable", "server", a.s.Name, "err", err)
		}
		return false
	}
	fresh, err := a.c.refresh(ctx, a.s, r, k.AccessToken, true)
	a.c.refreshed(r, k.AccessToken, err)
	if err != nil {
		a.c.o.Logger.Warn("a token could not be refreshed", "server", a.s.Name, "err", err)
	}
	return err == nil && fresh.usable()
}

// failedRefresh is a refresh that came to nothing while the credentials may
// still be good: nobody was reached, or nothing could be written.
type failedRefresh struct {
	stale string // the access token that it was to replace
	err   error
}

// refreshed notes how the refresh of a rejected token ended.
func (c *Client) refreshed(r resource, stale string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, r.key)
		return
	}
	c.failed[r.key] = failedRefresh{stale, err}
}

// RefreshFailure is why the server's credentials, which it has rejected, could
// not be refreshed although they may still be good: the network, or the disk.
// Connecting anew would not mend that. It is nil when there is nothing of the
// kind, or other credentials by now.
func (c *Client) RefreshFailure(s Server) error {
	r, err := parseServerURL(s.URL)
	if err != nil {
		return err
	}
	c.mu.Lock()
	failed := c.failed[r.key]
	c.mu.Unlock()
	if failed.err == nil {
		return nil
	}
	if k, err := c.load(r); err != nil || !k.usable() || k.AccessToken != failed.stale {
		return err
	}
	return failed.err
}

// refresh replaces a stale access token, once for all who ask in this process
// and in others. A caller that gives up does not end it: with rotation, an
// answer that nobody reads costs the person another consent.
func (c *Client) refresh(ctx context.Context, s Server, r resource, stale string, rejected bool) (*credentials, error) {
	result := c.flight.DoChan(r.key+" "+stale, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
		defer cancel()
		var k *credentials
		err := c.locked(ctx, r, func() (err error) {
			// Another process may have done it while we waited.
			if k, err = c.load(r); err != nil || !k.usable() || k.AccessToken != stale {
				return err
			}
			k.Client.renew(s)
			return c.refreshLocked(ctx, r, k, rejected)
		})
		return k, err
	})
	select {
	case <-ctx.Done():
		return nil, stopped(ctx, "refresh the token of "+r.id)
	case res := <-result:
		k, _ := res.Val.(*credentials)
		return k, res.Err
	}
}

// refreshLocked makes one refresh and keeps what comes of it in k. Killed
// between the server's answer and the rename, a refresh token that was rotated
// is lost: the next refresh is answered invalid_grant and the person is asked
// to connect again. So nothing but writing is done in between, into a file that
// is open already.
func (c *Client) refreshLocked(ctx context.Context, r resource, k *credentials, rejected bool) error {
	if k.Client == nil {
		k.Unusable = "the registration is missing"
		return c.write(c.credentialsFile(r), k)
	}
	d, err := c.draft(c.credentialsFile(r))
	if err != nil {
		return err
	}
	defer d.drop()
	now := c.o.Clock.Now()
	conf := k.Client.config(k.TokenEndpoint)
	// The library's own refresh cannot send a resource; this one sends what it
	// is told.
	cc := clientcredentials.Config{
		ClientID: conf.ClientID, ClientSecret: conf.ClientSecret, TokenURL: conf.Endpoint.TokenURL, AuthStyle: conf.Endpoint.AuthStyle,
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {k.RefreshToken}, "resource": {k.Resource}},
	}
	tok, err := cc.Token(c.withHTTP(ctx))
	if err == nil {
		err = k.take(tok, now)
	}
	if err != nil {
		failure := tokenError(k.TokenEndpoint, err, k.AccessToken, k.RefreshToken, k.Client.Secret)
		if !failure.final {
			return failure.err
		}
		k.Unusable = k.Client.explain(failure).Message
		if failure.code == "invalid_client" && !k.Client.Given {
			k.Client = nil // forgotten there: the next flow registers again
		}
		c.o.Logger.Warn("a server must be connected again", "server", r.id, "why", k.Unusable)
	} else {
		k.AfterRejection = rejected
	}
	if err := d.commit(k); err != nil {
		return err
	}
	c.remember(k)
	return nil
}

// spoil marks tokens as unusable if they are still those.
func (c *Client) spoil(ctx context.Context, r resource, access, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTime)
	defer cancel()
	return c.locked(ctx, r, func() error {
		k, err := c.load(r)
		if err != nil || !k.usable() || k.AccessToken != access {
			return err
		}
		k.Unusable = why
		return c.write(c.credentialsFile(r), k)
	})
}

var (
	errTokenType = errors.New("its token is not a bearer token")
	errToken     = errors.New("its token cannot be sent in a header")
)

// take moves a token response into the credentials. asked is when the request
// was sent: the lifetime is counted from there.
func (k *credentials) take(tok *oauth2.Token, asked time.Time) error {
	if !strings.EqualFold(tok.Type(), "bearer") {
		return errTokenType
	}
	if !printable(tok.AccessToken, tokenLimit) || tok.RefreshToken != "" && !printable(tok.RefreshToken, tokenLimit) {
		return errToken
	}
	k.AccessToken, k.Obtained, k.Expiry, k.Unusable = tok.AccessToken, asked.UTC(), time.Time{}, ""
	// An answer without one keeps the refresh token that was used (RFC 6749 §6).
	if tok.RefreshToken != "" {
		k.RefreshToken = tok.RefreshToken
	}
	if life := lifetime(tok.Extra("expires_in")); life > 0 {
		k.Expiry = k.Obtained.Add(life)
	}
	if granted, ok := tok.Extra("scope").(string); ok && granted != "" {
		k.Granted = strings.Join(scopes(strings.Fields(granted)), " ")
	}
	return nil
}

// lifetime reads expires_in as servers write it; zero when it says nothing.
// The library's own Expiry is not used: it reads the machine's clock.
func lifetime(v any) time.Duration {
	const longest = 10 * 365 * 24 * time.Hour
	var seconds float64
	switch v := v.(type) {
	case float64:
		seconds = v
	case int64:
		seconds = float64(v)
	case string:
		d, err := time.ParseDuration(v + "s")
		if err != nil {
			return 0
		}
		return min(d, longest)
	}
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

// withHTTP makes the library use our client.
func (c *Client) withHTTP(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, c.http)
}

// tokenFailure is a token request that failed. It is final when the same
// request would fail again.
type tokenFailure struct {
	code  string
	final bool
	err   *core.Error
}

// tokenError says what went wrong at a token endpoint, without the secrets
// that were sent. The library's own text is not used: it holds the whole
// answer.
func tokenError(endpoint string, err error, secrets ...string) tokenFailure {
	var re *oauth2.RetrieveError
	var ue *url.Error
	switch {
	case errors.As(err, &re):
		f := tokenFailure{code: re.ErrorCode}
		switch re.ErrorCode {
		case "invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_request", "invalid_target":
			f.final = true
			f.err = core.Errorf(core.CodeAuth, "%s refused%s; connect the server again", endpoint, because(re.ErrorCode, re.ErrorDescription, secrets...))
		default:
			status := http.StatusInternalServerError
			if re.Response != nil {
				status = re.Response.StatusCode
			}
			f.err = core.Errorf(core.CodeServerUnreachable, "%s answered with status %d%s; try again later", endpoint, status,
				because(re.ErrorCode, re.ErrorDescription, secrets...))
		}
		return f
	case errors.As(err, &ue), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return tokenFailure{err: unreachable(endpoint, err)}
	case errors.Is(err, errTokenType), errors.Is(err, errToken):
		return tokenFailure{err: core.Errorf(core.CodeServerUnreachable, "%s cannot be used: %w", endpoint, err)}
	}
	return tokenFailure{err: core.Errorf(core.CodeServerUnreachable, "%s did not answer with a token; try again later", endpoint)}
}

// because appends what a server said of an error, made safe to show, and
// without secrets should it send them back.
func because(code, description string, secrets ...string) string {
	var parts []string
	for _, p := range []string{code, description} {
		for _, secret := range secrets {
			if secret != "" {
				p = strings.ReplaceAll(p, secret, "«secret»")
			}
		}
		if p != "" {
			parts = append(parts, core.Visible(p, 200, false))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ": ")
}
