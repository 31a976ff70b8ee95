package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/casys-ai/pml/core"
)

const (
	flowTime   = 30 * time.Minute // a person may take to consent
	beginTime  = 2 * time.Minute
	watchEvery = 250 * time.Millisecond
)

// pending is a flow that was begun: all that any process needs to end it.
type pending struct {
	Version       int          `json:"version"`
	ID            string       `json:"id"`
	Server        string       `json:"server"` // its canonical URL
	AuthURL       string       `json:"auth_url"`
	State         string       `json:"state,omitempty"`
	Verifier      string       `json:"verifier,omitempty"`
	Redirect      string       `json:"redirect_uri"`
	Issuer        string       `json:"issuer"`
	IssRequired   bool         `json:"iss_required,omitempty"`
	TokenEndpoint string       `json:"token_endpoint"`
	Resource      string       `json:"resource"`
	Client        registration `json:"client"`
	Scopes        []string     `json:"scopes,omitempty"`
	// Replaces is the grant that was kept when the flow began: another one
	// means that somebody has connected the server since.
	Replaces string    `json:"replaces,omitempty"`
	Expires  time.Time `json:"expires"`
	// Failed is how the flow ended, for others who wait for it.
	Failed *core.Error `json:"failed,omitempty"`
}

// Flow is one attempt to connect a server: a person opens URL, consents, and
// the authorization server sends the browser to a callback on loopback. The
// process listens for the callback, and keeps the tokens, from Begin to Close, whether
// somebody waits or not.
type Flow struct {
	// URL is what the person opens. It is the same in every process that
	// begins the flow again before it expires.
	URL    string
	Issuer string
	Scopes []string

	c    *Client
	s    Server
	r    resource
	p    pending
	port string

	heard *hearing // nil: another process listens, or none can; watch's own

	over sync.Once
	quit chan struct{} // closed once err is set
	err  error
	done chan struct{} // closed when nothing runs any more

	answering sync.Mutex // held while the answer is dealt with
}

var errClosed = core.Errorf(core.CodeCancelled, "the flow was closed before anybody consented; begin it again")

// Begin finds the authorization server, registers pml if it must, and listens
// for the callback. A flow that another process began and that has not expired
// is taken up again, under the same URL where its port is free; while that
// process lives, it is the one that listens for the callback. Errors:
// CodeInvalidConfig for a URL that tokens cannot be sent to, CodeAuth for a
// server that cannot be connected this way, CodeServerUnreachable.
func (c *Client) Begin(ctx context.Context, s Server) (*Flow, error) {
	r, err := parseServerURL(s.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	var f *Flow
	err = c.locked(ctx, r, func() (err error) {
		kept, err := c.load(r)
		if err != nil {
			return err
		}
		if f, err = c.takeUp(ctx, s, r, kept); err == nil && f == nil {
			f, err = c.beginNew(ctx, s, r, kept)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	go f.watch()
	return f, nil
}

// takeUp goes on with the flow that was begun; nil when there is none that can.
func (c *Client) takeUp(ctx context.Context, s Server, r resource, kept *credentials) (*Flow, error) {
	var p pending
	ok, err := c.read(c.flowFile(r), &p)
	if err != nil || !ok || !p.open(c.o.Clock.Now()) || p.Server != r.id || p.Replaces != grantOf(kept) {
		return nil, err
	}
	if !includes(p.Scopes, scopes(strings.Fields(s.Scope), s.Scopes)) || !p.Client.servesFor(s) {
		return nil, nil
	}
	f := c.newFlow(s, r, p)
	h, err := c.hear(ctx, r, f.port)
	switch {
	case errors.Is(err, errHeard):
	case err != nil:
		return nil, nil // a stranger has its port: the callback would go there
	default:
		f.serve(h)
	}
	return f, nil
}

// open reports whether a person may still consent.
func (p *pending) open(now time.Time) bool {
	return p.State != "" && p.Failed == nil && now.Before(p.Expires)
}

func grantOf(k *credentials) string {
	if k == nil {
		return ""
	}
	return k.Grant
}

// beginNew makes a flow and writes it down before anybody can see its URL.
func (c *Client) beginNew(ctx context.Context, s Server, r resource, kept *credentials) (*Flow, error) {
	prefer := ""
	if kept != nil {
		prefer = kept.Issuer
	}
	t, err := c.discover(ctx, s, r, prefer)
	if err != nil {
		return nil, err
	}
	var known *registration
	if kept != nil && kept.Issuer == t.server.Issuer {
		known = kept.Client
		t.scopes = scopes(t.scopes, kept.Scopes) // what was granted is not given up
	}
	if len(s.Scopes) > 0 {
		t.scopes = scopes(s.Scopes, strings.Fields(s.Scope))
	}
	if len(t.scopes) > 0 && slices.Contains(t.server.ScopesSupported, offline) {
		t.scopes = scopes(t.scopes, []string{offline})
	}
	if s.ClientID != "" && kept != nil && known == nil && kept.Client != nil && kept.Client.ID == s.ClientID {
		return nil, refused(s, "it names another authorization server, %s, than the one that its client id is for, %s", t.server.Issuer, kept.Issuer)
	}
	client, h, err := c.clientFor(ctx, s, r, t, known)
	if err != nil {
		return nil, err
	}
	f, err := c.keepFlow(s, r, t, kept, client)
	if err != nil {
		h.close()
		return nil, err
	}
	f.serve(h)
	return f, nil
}

// offline is the scope that asks for a refresh token, where servers know it.
const offline = "offline_access"

// clientFor returns a registration and the listener at its callback. The one
// that is known is used again where its port is free and the server still
// knows it.
func (c *Client) clientFor(ctx context.Context, s Server, r resource, t target, known *registration) (registration, *hearing, error) {
	if s.ClientID == "" && known.fits(t.scopes, c.o.Clock.Now()) {
		if h, err := c.open(ctx, r, portOf(known.Redirect)); err == nil {
			if !c.forgotten(ctx, *known, t) {
				return *known, h, nil
			}
			h.close()
		}
	}
	h, err := c.open(ctx, r, strconv.Itoa(s.RedirectPort))
	if err != nil {
		return registration{}, nil, portTaken(s, err)
	}
	redirect := redirectURI(h.port())
	if s.ClientID != "" {
		g := given(s, t.server)
		g.Redirect = redirect
		return *g, h, nil
	}
	g, err := c.register(ctx, s, t, redirect)
	if err != nil {
		h.close()
		return registration{}, nil, err
	}
	return *g, h, nil
}

// portTaken names the setting where the port was chosen by a person.
func portTaken(s Server, err error) error {
	if s.RedirectPort == 0 {
		return err
	}
	return core.Errorf(core.CodeAuth, "cannot connect server %q: port %d, its \"redirect_port\", cannot be listened at: %w; stop what uses it, or register another port",
		core.Visible(s.Name, 100, false), s.RedirectPort, err)
}

// keepFlow writes a new flow down, and before it the registration where there
// are no tokens of another one to be refreshed.
func (c *Client) keepFlow(s Server, r resource, t target, kept *credentials, client registration) (*Flow, error) {
	id, err1 := c.random()
	state, err2 := c.random()
	verifier, err3 := c.random()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no randomness: %w", err)
	}
	conf := client.config(t.server.TokenEndpoint)
	conf.Endpoint.AuthURL, conf.RedirectURL, conf.Scopes = t.server.AuthorizationEndpoint, client.Redirect, t.scopes
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", t.resource)}
	if slices.Contains(t.scopes, offline) {
		options = append(options, oauth2.ApprovalForce) // OpenID Connect Core §11
	}
	p := pending{
		Version: credentialsVersion, ID: id, Server: r.id, AuthURL: conf.AuthCodeURL(state, options...), State: state, Verifier: verifier,
		Redirect: client.Redirect, Issuer: t.server.Issuer, IssRequired: t.server.IssInResponse, TokenEndpoint: t.server.TokenEndpoint,
		Resource: t.resource, Client: client, Scopes: t.scopes, Replaces: grantOf(kept), Expires: c.o.Clock.Now().Add(flowTime).UTC(),
	}
	if !kept.usable() {
		k := p.credentials()
		k.Grant = p.Replaces
		if err := c.write(c.credentialsFile(r), k); err != nil {
			return nil, err
		}
		c.remember(k)
	}
	if err := c.write(c.flowFile(r), p); err != nil {
		return nil, err
	}
	return c.newFlow(s, r, p), nil
}

// credentials are those that the flow is to fill.
func (p *pending) credentials() *credentials {
	client := p.Client
	return &credentials{
		Version: credentialsVersion, Server: p.Server, Issuer: p.Issuer, TokenEndpoint: p.TokenEndpoint, Resource: p.Resource,
		Client: &client, Scopes: p.Scopes,
	}
}

// random returns 32 bytes as text: as RFC 7636 §4.1 has a verifier.
func (c *Client) random() (string, error) {
	b := make([]byte, 32)
	_, err := io.ReadFull(c.o.Rand, b)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (c *Client) newFlow(s Server, r resource, p pending) *Flow {
	return &Flow{
		URL: p.AuthURL, Issuer: p.Issuer, Scopes: slices.Clone(p.Scopes),
		c: c, s: s, r: r, p: p, port: portOf(p.Redirect), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

func redirectURI(port string) string { return "http://" + loopbackAddress(port) + callbackPath }

func portOf(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return ""
	}
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return ""
	}
	return port
}

// watch looks what others have done until the flow is over, and then stops
// hearing.
func (f *Flow) watch() {
	defer close(f.done)
	ticks, stop := f.c.o.Ticks(watchEvery)
	defer stop()
	for {
		select {
		case <-f.quit:
			f.deafen()
			return
		case <-ticks:
			f.look()
		}
	}
}

// look ends the flow when it was ended elsewhere, and begins to listen when the
// process that listened is gone. The flow's file is read before the credentials:
// who completes a flow writes in the opposite order.
func (f *Flow) look() {
	var now pending
	ok, err := f.c.read(f.c.flowFile(f.r), &now)
	if err != nil {
		f.finish(err)
		return
	}
	k, err := f.c.load(f.r)
	switch {
	case err != nil:
		f.finish(err)
	case k.usable() && k.Grant != f.p.Replaces:
		f.finish(nil)
	case !ok || now.ID != f.p.ID:
		f.finish(core.Errorf(core.CodeAuth, "connecting %s was ended elsewhere, or begun anew; begin it again", f.r.id))
	case now.Failed != nil:
		f.finish(now.Failed)
	case !now.open(f.c.o.Clock.Now()):
		f.finish(f.expired())
	case f.heard != nil:
		f.heard.claim()
	default:
		// A port that cannot be had yet is tried on the next tick.
		if h, err := f.c.hear(context.Background(), f.r, f.port); err == nil {
			f.serve(h)
		}
	}
}

func (f *Flow) expired() *core.Error {
	return core.Errorf(core.CodeTimeout, "nobody consented within %s to connect %s; begin it again", flowTime, f.r.id)
}

// finish sets the outcome, once.
func (f *Flow) finish(err error) {
	f.over.Do(func() {
		f.err = err
		close(f.quit)
	})
}

// Wait waits until the callback has come and the tokens are kept. It also
// returns, without an error, when another process has connected the server.
// Errors: CodeDenied when the person did not consent, CodeTimeout when the flow
// has expired, CodeCancelled when it was closed or ctx has ended; the flow goes
// on when only ctx has.
func (f *Flow) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return stopped(ctx, "connect "+f.r.id)
	}
}

// Close stops listening. A flow that was not completed can be begun again. An
// answer that is being dealt with is dealt with first.
func (f *Flow) Close() error {
	f.finish(errClosed)
	<-f.done
	return nil
}
