package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/upstream"
)

// connectWait bounds how long an approved connection waits for a person to
// consent in the browser.
const connectWait = 5 * time.Minute

// connection is what is known of the attempts to connect one server.
type connection struct {
	mu  sync.Mutex // held while an attempt is begun
	now *attempt
}

// attempt is one attempt to connect a server: pml listens for its callback as long as
// this process lives, whether anybody waits for it or not.
type attempt struct {
	flow *oauth.Flow
	// client and port are those that the entry had for it; empty: pml's own.
	client string
	port   int
	// anew is set when the attempt was given up for one that asks for more.
	anew atomic.Bool
	done chan struct{} // closed when the flow has ended
	err  error         // of the flow, once done is closed
}

func (a *attempt) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// covers reports whether the attempt asks for all that the server wants, as the
// client that its entry names now.
func (a *attempt) covers(s oauth.Server) bool {
	for _, name := range append(strings.Fields(s.Scope), s.Scopes...) {
		if !slices.Contains(a.flow.Scopes, name) {
			return false
		}
	}
	return a.client == s.ClientID && a.port == s.RedirectPort
}

// oauthServer is a server's entry as OAuth sees it.
func oauthServer(r env.Resolved) oauth.Server {
	s := oauth.Server{Name: r.Name, URL: r.URL}
	if o := r.OAuth; o != nil {
		s.ClientID, s.ClientSecret, s.Scopes, s.RedirectPort = o.ClientID, o.ClientSecret, o.Scopes, o.RedirectPort
	}
	return s
}

// connections are the attempts to connect servers, and what servers have said of
// the authorization that they want.
type connections struct {
	client *oauth.Client // nil: none can be connected
	log    *slog.Logger
	// ended is called with each attempt that has ended, and its error.
	ended func(server string, err error)

	life    context.Context // ends with close
	end     context.CancelFunc
	waiting sync.WaitGroup // flows whose callback is awaited

	mu         sync.Mutex
	byURL      map[string]*connection
	challenged map[string]oauth.Server // by name, with what their 401 said
}

func newConnections(client *oauth.Client, log *slog.Logger, ended func(string, error)) *connections {
	cs := &connections{client: client, log: log, ended: ended, byURL: map[string]*connection{}, challenged: map[string]oauth.Server{}}
	cs.life, cs.end = context.WithCancel(context.Background())
	return cs
}

// close stops listening for those who connect servers.
func (cs *connections) close() {
	cs.mu.Lock()
	cs.end()
	cs.mu.Unlock()
	cs.waiting.Wait()
}

// begin begins to connect a server, or takes up what was begun, unless the
// server wants more by now than that asks for.
func (cs *connections) begin(ctx context.Context, s oauth.Server) (*attempt, error) {
	cs.mu.Lock()
	c := cs.byURL[s.URL]
	if c == nil {
		c = &connection{}
		cs.byURL[s.URL] = c
	}
	cs.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && !c.now.ended() {
		if c.now.covers(s) {
			return c.now, nil
		}
		c.now.anew.Store(true)
		if err := c.now.flow.Close(); err != nil { // its port is taken up again
			return nil, err
		}
	}
	flow, err := cs.client.Begin(ctx, s)
	if err != nil {
		return nil, cannotBegin(s.Name, err)
	}
	a := &attempt{flow: flow, client: s.ClientID, port: s.RedirectPort, done: make(chan struct{})}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.life.Err() != nil {
		return nil, errors.Join(core.Errorf(core.CodeCancelled, "pml is stopping"), flow.Close())
	}
	cs.waiting.Go(func() { cs.await(s.Name, a) })
	c.now = a
	return a, nil
}

// cannotBegin is the error of a server that asks for authorization and does not
// say where it is to be had, or of one that cannot be reached, or that place.
func cannotBegin(name string, err error) error {
	e := core.AsError(err)
	switch e.Code {
	case core.CodeCancelled:
		return err
	case core.CodeServerUnreachable:
		out := core.Errorf(core.CodeServerUnreachable, "the server %s cannot be connected: %w", name, err)
		out.Next = e.Next
		return out
	default:
	}
	if len(e.Next) > 0 { // it says itself what helps
		out := core.Errorf(core.CodeAuth, "the server %s asks for authorization, and pml cannot ask for it: %w", name, err)
		out.Next = e.Next
		return out
	}
	out := core.Errorf(core.CodeAuth, "the server %s asks for authorization, and pml cannot ask for it: %w; set the header that it needs in its entry, or connect it", name, err)
	out.Next = []string{"pml", "servers", "connect", name}
	return out
}

// refreshFailure is the error of a server that has just rejected credentials which
// may be good, for all that it wants, and could not be refreshed: that is no
// question to a person.
func (cs *connections) refreshFailure(l upstream.Launch, wants *upstream.AuthRequired) error {
	srv := oauth.Server{Name: l.Name, URL: l.URL, Scope: wants.Scope}
	if cs.client == nil || !cs.client.Connected(srv) {
		return nil
	}
	err := cs.client.RefreshFailure(srv)
	if err == nil {
		return nil
	}
	return core.Errorf(core.CodeOf(err), "the authorization of the server %s could not be renewed: %w", l.Name, err)
}

// await waits for the end of a flow.
func (cs *connections) await(name string, a *attempt) {
	defer close(a.done)
	defer core.Recover(cs.log, "a server was connected", func(err *core.Error) { a.err = err }, "server", name)
	a.err = errors.Join(a.flow.Wait(cs.life), a.flow.Close())
	if a.err != nil {
		cs.log.Debug("a server was not connected", "server", name, "err", a.err)
	}
	cs.ended(name, a.err)
}

// ask asks a person to connect a server. Its digest covers what is asked
// for, and not the address, which is another one each time.
func (cs *connections) ask(ctx context.Context, s oauth.Server) (engine.Ask, error) {
	cs.mu.Lock()
	cs.challenged[s.Name] = s
	cs.mu.Unlock()
	a, err := cs.begin(ctx, s)
	if err != nil {
		return engine.Ask{}, err
	}
	scopes := append([]string{}, a.flow.Scopes...)
	digest, err := core.DigestOf(map[string]any{"server": s.URL, "issuer": a.flow.Issuer, "scopes": scopes})
	if err != nil {
		return engine.Ask{}, err
	}
	for i := range scopes {
		scopes[i] = core.Visible(scopes[i], 100, false)
	}
	description := fmt.Sprintf("The server %s wants to be connected at %s", s.Name, core.Visible(a.flow.Issuer, 200, false))
	if len(scopes) > 0 {
		description += ", to: " + core.Visible(strings.Join(scopes, " "), 300, false)
	}
	return engine.Ask{
		Type: core.ApproveOAuth, Subject: s.Name, Tool: s.Name, Risk: core.RiskMedium, Digest: digest,
		Description: description + ".",
		Context:     map[string]any{"tool": s.Name, "auth_url": a.flow.URL, "issuer": a.flow.Issuer, "scopes": scopes},
	}, nil
}

// awaitConnection waits, for a while, until the server has been connected.
func (s *server) awaitConnection(ctx context.Context, progress func(string)) error {
	resolved, err := s.set.granted.Resolve(s.name)
	if err != nil {
		return err
	}
	if err := s.addressStands(resolved); err != nil {
		return err
	}
	srv := oauthServer(resolved)
	// A flow that runs may be for more than the credentials that there are. It is
	// waited for, also if it ends just now: to begin another would ask again.
	running := s.host.connections.running(srv)
	if o := s.host.o.OAuth; o != nil && running == nil && o.Connected(srv) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	return s.host.connections.connect(ctx, srv, running, func(url string) {
		progress("to connect the server " + s.name + ", open " + url)
	})
}

// Connect connects a server: show is given the address that a person opens, and
// Connect waits for the callback, as long as the context lives. A server that
// is connected already is connected anew; until then it stays connected.
func (h *Host) Connect(ctx context.Context, name string, show func(url string)) error {
	s, err := h.reader.recent()
	if err != nil {
		return err
	}
	if _, err := s.selected([]string{name}); err != nil {
		return err
	}
	if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
		return deny
	}
	if builtin(name) || s.granted.Servers[name].Type != env.TypeHTTP {
		return core.Errorf(core.CodeInvalidArguments, "the server %s is no HTTP server; only those are connected", name)
	}
	resolved, err := s.granted.Resolve(name)
	if err != nil {
		return err
	}
	if declaresAuthorization(resolved.Headers) {
		return core.Errorf(core.CodeInvalidArguments, "the entry of the server %s brings its own Authorization header; remove it to connect the server with OAuth", name)
	}
	if o := resolved.Entry.OAuth; o != nil && o.ClientSecret != "" && len(resolved.Missing) > 0 {
		// Without the secret the server refuses the code, after somebody has consented.
		return core.Errorf(core.CodeAuth, "the server %s needs %s before it can be connected; add it to %s (NAME=value, one a line), then connect it",
			name, strings.Join(resolved.Missing, ", "), h.o.Workspace.DotEnv()).WithNext("pml", "servers", "connect", name)
	}
	if err := h.serverOf(s, name).addressStands(resolved); err != nil {
		return err
	}
	srv := oauthServer(resolved)
	if _, err := h.servers.of(name).prepare(ctx, s); err != nil {
		// What its 401 says helps to find its authorization server; any other
		// failure shows when that is asked for.
		h.o.Logger.Debug("cannot reach a server before it is connected", "server", name, "err", err)
	}
	defer h.servers.forget(name)
	if err := h.connections.connect(ctx, srv, nil, show); err != nil {
		return s.clean(err)
	}
	return nil
}

// connect waits for the end of a flow: of the one that was seen to run, if that is
// for enough, else of one that it begins or takes up.
func (cs *connections) connect(ctx context.Context, s oauth.Server, a *attempt, show func(url string)) error {
	if cs.client == nil {
		return core.Errorf(core.CodeAuth, "the server %s cannot be connected here", s.Name)
	}
	cs.mu.Lock()
	if known, ok := cs.challenged[s.Name]; ok && known.URL == s.URL {
		s.Metadata, s.Scope = known.Metadata, known.Scope
	}
	cs.mu.Unlock()
	if a == nil || !a.covers(s) {
		var err error
		if a, err = cs.begin(ctx, s); err != nil {
			return err
		}
	}
	show(a.flow.URL)
	select {
	case <-a.done:
		if a.err != nil && a.anew.Load() {
			return cs.connect(ctx, s, nil, show)
		}
		if a.err != nil {
			return core.Errorf(core.CodeAuth, "the server %s was not connected: %w", s.Name, a.err).WithNext("pml", "servers", "connect", s.Name)
		}
		return nil
	case <-ctx.Done():
		return core.Errorf(core.CodeAuth, "the server %s is not connected yet: nobody has consented at %s; open it, or connect it again", s.Name, a.flow.URL).
			WithNext("pml", "servers", "connect", s.Name)
	}
}

// running is the flow for the server that runs in this process; nil for none.
func (cs *connections) running(s oauth.Server) *attempt {
	cs.mu.Lock()
	c := cs.byURL[s.URL]
	cs.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.now.ended() {
		return nil
	}
	return c.now
}
