package service

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/core/upstream"
)

// through is what all views of a client share of what is offered through.
type through struct {
	mu       sync.Mutex
	peers    map[string]*guestPeer // of those that have declared something, by owner and session
	watchers map[int]func(server, workspace string)
	watching int                   // numbers the watchers
	known    map[string]remembered // by file: what was read or found out
	reads    map[readsOf]*readsRun
	runner   string // of the lists in reads
	paused   pausedCalls
	pending  int         // calls that read and are not kept yet
	flushing *time.Timer // nil while nothing is pending

	calls sync.WaitGroup // that Close waits for
	write sync.Mutex     // held while reads are kept
}

func newThrough() *through {
	return &through{
		peers: map[string]*guestPeer{}, watchers: map[int]func(string, string){}, known: map[string]remembered{}, reads: map[readsOf]*readsRun{},
	}
}

// guestPeer is a client as upstream servers know it, for as long as its session
// lasts; each request may name anew whom it stands for.
type guestPeer struct {
	capabilities json.RawMessage
	of           map[string]*upstream.Peer // by server
	now          atomic.Pointer[api.Peer]
}

// peerID names a peer among those of all owners.
func (c *Service) peerID(peer string) string { return c.scope.Owner + "\x00" + peer }

// guest is a peer as one of this client's servers sees it. One that has declared
// nothing gets what belongs to a call by the way of that call.
func (c *Service) guest(p *api.Peer, server string) *upstream.Peer {
	if p == nil {
		return nil
	}
	id := c.peerID(p.ID)
	if !gate.Declares(p.Capabilities) {
		g := &guestPeer{}
		g.now.Store(p)
		return &upstream.Peer{ID: id, Owner: c.scope.Owner, Era: eraOf(p), Notify: g.notify(c.shownOf(c.o.Workspace.Dir))}
	}
	t := c.through
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.peers[id]
	if g == nil || string(g.capabilities) != string(p.Capabilities) {
		g = &guestPeer{capabilities: p.Capabilities, of: map[string]*upstream.Peer{}}
		t.peers[id] = g
	}
	g.now.Store(p)
	up := g.of[server]
	if up == nil {
		show := c.shownOf(c.o.Workspace.Dir)
		up = &upstream.Peer{ID: id, Owner: c.scope.Owner, Era: eraOf(p), Capabilities: p.Capabilities, Ask: g.ask(server, show), Notify: g.notify(show)}
		if p.AskAll != nil {
			up.AskAll = g.askAll(server, show)
		}
		g.of[server] = up
	}
	return up
}

// eraOf is the era that a client speaks.
func eraOf(p *api.Peer) upstream.Era {
	if p.Stateless {
		return upstream.Stateless
	}
	return upstream.Sessions
}

func (g *guestPeer) ask(server string, show redact.View) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		p := g.now.Load()
		if p.Ask == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked"}
		}
		params, err := shownTo(show, server, method, params)
		if err != nil {
			return nil, err
		}
		result, err := p.Ask(ctx, method, params)
		return result, asRPC(err)
	}
}

func (g *guestPeer) askAll(server string, show redact.View) func(context.Context, map[string]upstream.Question) (map[string]json.RawMessage, error) {
	return func(ctx context.Context, asked map[string]upstream.Question) (map[string]json.RawMessage, error) {
		questions := make(map[string]api.Question, len(asked))
		for key, q := range asked {
			params, err := shownTo(show, server, q.Method, q.Params)
			if err != nil {
				return nil, err
			}
			questions[key] = api.Question{Method: q.Method, Params: params}
		}
		answers, err := g.now.Load().AskAll(ctx, questions)
		return answers, asRPC(err)
	}
}

// shownTo is what a server asks as a client may see it.
func shownTo(show redact.View, server, method string, params json.RawMessage) (json.RawMessage, error) {
	params = show.JSON(params)
	if method != methodElicit {
		return params, nil
	}
	return asksAs(server, params)
}

// asRPC is the refusal of a client as it passes to a server.
func asRPC(err error) error {
	if refused, ok := errors.AsType[*api.PeerError](err); ok {
		return &jsonrpc.Error{Code: refused.Code, Message: refused.Message, Data: refused.Data}
	}
	return err
}

func (g *guestPeer) notify(show redact.View) func(string, json.RawMessage) {
	return func(method string, params json.RawMessage) {
		p := g.now.Load()
		if p.Notify == nil {
			return
		}
		if params = show.JSON(params); method == methodMessage {
			params = visible(params)
		}
		p.Notify(method, params)
	}
}

// PeerGone says that a client has left: what was started for it alone is
// stopped, and its reads are kept.
func (c *Service) PeerGone(peer string) {
	t := c.through
	t.mu.Lock()
	peer = c.peerID(peer)
	delete(t.peers, peer)
	t.mu.Unlock()
	c.machine.PeerGone(peer)
}

// Exposed lists the servers of which the workspace offers something, with what
// is known of each. Nothing is started.
func (c *Service) Exposed(_ context.Context, peer *api.Peer) ([]api.Exposed, error) {
	h, err := c.own()
	if err != nil {
		return nil, err
	}
	e, err := h.Exposure()
	if err != nil {
		return nil, err
	}
	var out []api.Exposed
	for _, name := range e.Names() {
		out = append(out, c.exposed(e, name, peer))
	}
	return out, nil
}

func (c *Service) exposed(e *gate.Exposure, name string, peer *api.Peer) api.Exposed {
	file, err := c.memoryOf(e, name, peer)
	if err != nil {
		return api.Exposed{Name: name, Search: e.Searched(), Problems: []core.Fault{{Path: name, Message: core.AsError(err).Message}}}
	}
	known, ok := c.recall(file)
	if !ok {
		return api.Exposed{Name: name, Search: e.Searched(), Ready: e.Ready(name)}
	}
	return known.exposed(e, name)
}

// Explore starts a server, if it may be, and says what it has now. What keeps it
// from being started is among the Problems; then the list is the one that pml has kept.
func (c *Service) Explore(ctx context.Context, peer *api.Peer, name string) (api.Exposed, error) {
	h, err := c.own()
	if err != nil {
		return api.Exposed{}, err
	}
	e, err := h.Exposure()
	if err != nil {
		return api.Exposed{}, err
	}
	if !e.Lists(name) {
		return api.Exposed{Name: name}, nil
	}
	file, err := c.memoryOf(e, name, peer)
	if err != nil {
		return c.exposed(e, name, peer), nil
	}
	r, err := h.Reach(ctx, name, c.guest(peer, name))
	if err != nil && ctx.Err() != nil {
		return api.Exposed{}, err
	}
	if err != nil || len(r.Asks) > 0 {
		out := c.exposed(e, name, peer)
		if err != nil {
			out.Problems = append(out.Problems, core.Fault{Path: name, Message: core.AsError(err).Message})
		}
		for _, ask := range r.Asks {
			out.Problems = append(out.Problems, core.Fault{Path: name, Message: ask.Description})
		}
		return out, nil
	}
	known := remembered{Version: memoryVersion, Tools: r.Tools, Capabilities: r.Capabilities}
	c.remember(file, known)
	out := known.exposed(e, name)
	out.Live = true
	return out, nil
}

// ForwardExposed sends a request of a client about resources, prompts,
// completions or logs to a server of which they are offered.
func (c *Service) ForwardExposed(ctx context.Context, peer *api.Peer, server, method string, params json.RawMessage) (json.RawMessage, error) {
	h, err := c.own()
	if err != nil {
		return nil, err
	}
	raw, err := h.Forward(ctx, server, c.guest(peer, server), method, params)
	return raw, saidError(server, err)
}

// WatchExposed calls f with the name of each server of the workspace that says
// that its tools have changed, until the context ends. f must return at once.
func (c *Service) WatchExposed(ctx context.Context, f func(server string)) {
	t, dir := c.through, c.o.Workspace.Dir
	t.mu.Lock()
	t.watching++
	n := t.watching
	t.watchers[n] = func(server, workspace string) {
		if workspace == dir {
			f(server)
		}
	}
	t.mu.Unlock()
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watchers, n)
	})
}

// told tells who watches that a server has other tools.
func (t *through) told(server, workspace string) {
	t.mu.Lock()
	list := make([]func(string, string), 0, len(t.watchers))
	for _, f := range t.watchers {
		list = append(list, f)
	}
	t.mu.Unlock()
	for _, f := range list {
		f(server, workspace)
	}
}
