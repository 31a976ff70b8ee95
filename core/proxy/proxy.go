// Package proxy offers tools, resources and prompts of upstream MCP servers
// through to an agent's host, under their own names. What is offered is named by
// the globs of expose; every call passes the gates, the journal and the audit
// log of the half that makes it.
package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Half is the half of pml that has the servers, in one scope.
type Half interface {
	Explorer
	// CallExposed makes a call of a tool (server:tool).
	CallExposed(ctx context.Context, tool string, call api.OfferedCall) (api.OfferedResult, error)
	// ForwardExposed sends a request of a client to a server.
	ForwardExposed(ctx context.Context, peer *api.Peer, server, method string, params json.RawMessage) (json.RawMessage, error)
	// PeerGone says that a client has left.
	PeerGone(peer string)
}

// Explorer finds out what servers have.
type Explorer interface {
	// Exposed says what is known of the servers, in the order in which they are
	// configured. It starts nothing and is quick.
	Exposed(ctx context.Context, peer *api.Peer) ([]api.Exposed, error)
	// Explore starts a server, if it may be, and says what it has now; the next
	// Exposed knows it.
	Explore(ctx context.Context, peer *api.Peer, server string) (api.Exposed, error)
	// WatchExposed calls f when a server says that its tools have changed, until
	// the context ends.
	WatchExposed(ctx context.Context, f func(server string))
}

// Options are what a Proxy is made of. Half is needed.
type Options struct {
	Half Half
	Log  *slog.Logger // nil: none
	// Wait bounds how long a client waits for the tools of a server of which
	// nothing is remembered; they are offered later. Default 5 s.
	Wait time.Duration
	// Look is how often it is looked whether the configuration offers something
	// else, while somebody wants to know. Default 2 s.
	Look time.Duration
	// After is how long a server of which something is remembered is not started
	// yet, so that the list goes out first. Default 100 ms.
	After time.Duration
	// Rank names the tools that fit a text, best first, at most limit: for search_tools.
	// Without it only names are found.
	Rank func(text string, tools []core.Tool, limit int) []api.SuggestedTool
}

// Proxy implements what core/mcp wants of one. Its methods may be called
// concurrently.
type Proxy struct {
	o    Options
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	views map[string]*view // by what a client has declared: see viewOf
}

// New makes a Proxy. Close it.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	if o.Look <= 0 {
		o.Look = 2 * time.Second
	}
	if o.After <= 0 {
		o.After = 100 * time.Millisecond
	}
	g := &Proxy{o: o, views: map[string]*view{}}
	g.life, g.end = context.WithCancel(context.Background())
	o.Half.WatchExposed(g.life, g.serverChanged)
	return g
}

// Close stops finding out about servers. The half has to be closed after it.
func (g *Proxy) Close() {
	g.mu.Lock()
	g.end()
	g.mu.Unlock()
	g.wg.Wait()
}

// viewOf is what a client sees. Those that have declared nothing see the same as
// all others of their era.
func (g *Proxy) viewOf(peer *api.Peer) *view {
	id, own := "", peer != nil && declares(peer)
	switch {
	case own:
		id = peer.ID
	case peer != nil && !peer.Stateless:
		id = inSessions
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.views[id]
	if v == nil {
		v = &view{g: g, exploring: map[string]*exploration{}, watchers: map[int]func(string){}, routes: newRoutes()}
		v.ctx, v.stop = context.WithCancel(g.life)
		g.views[id] = v
	}
	if own || v.peer == nil {
		v.peer = g.seen(peer)
	}
	return v
}

// inSessions stands for the ID of all clients with a session that have declared
// nothing; no client has it.
const inSessions = "\x00sessions"

func declares(peer *api.Peer) bool {
	caps := bytes.TrimSpace(peer.Capabilities)
	return len(caps) > 0 && !bytes.Equal(caps, []byte("{}")) && !bytes.Equal(caps, core.Null)
}

// seen is a client as servers may tell it something: that a list of tools has
// changed is notified once it is known that the list is another one.
func (g *Proxy) seen(peer *api.Peer) *api.Peer {
	if peer == nil || peer.Notify == nil {
		return peer
	}
	p := *peer
	p.Notify = func(method string, params json.RawMessage) {
		if method != toolsChanged {
			peer.Notify(method, params)
		}
	}
	return &p
}

// Offer says what there is for a client.
func (g *Proxy) Offer(ctx context.Context, peer *api.Peer) (api.Offer, error) {
	return g.viewOf(peer).offer(ctx)
}

// Call calls an offered tool.
func (g *Proxy) Call(ctx context.Context, call api.OfferedCall) (api.OfferedResult, error) {
	v := g.viewOf(call.Peer)
	if call.Name == api.SearchTools || call.Name == api.CallTool {
		result, done, err := v.search(ctx, &call)
		if done || err != nil {
			return result, err
		}
	}
	tool, err := v.tool(ctx, call.Name)
	if err != nil {
		return api.OfferedResult{}, err
	}
	call.Peer = g.seen(call.Peer)
	return g.o.Half.CallExposed(ctx, tool, call)
}

// Changed calls f with the method of the notification for each list that has
// changed for a client, until the context ends.
func (g *Proxy) Changed(ctx context.Context, peer *api.Peer, f func(method string)) error {
	v := g.viewOf(peer)
	leave := v.watch(f)
	defer leave()
	if _, err := v.offer(ctx); err != nil && ctx.Err() == nil {
		g.o.Log.Debug("cannot say what is offered", "error", core.AsError(err))
	}
	tick := time.NewTicker(g.o.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			v.refresh(ctx)
		case <-ctx.Done():
			return nil
		case <-v.ctx.Done():
			return nil
		}
	}
}

// Gone says that a client has left.
func (g *Proxy) Gone(peer string) {
	g.mu.Lock()
	if v := g.views[peer]; v != nil && peer != "" {
		v.stop()
		delete(g.views, peer)
	}
	g.mu.Unlock()
	g.o.Half.PeerGone(peer)
}

// serverChanged finds out anew what a server has, for all who see it.
func (g *Proxy) serverChanged(server string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.views {
		if g.life.Err() == nil {
			g.wg.Go(func() {
				defer core.Recover(g.o.Log, "it was found out what a server has", nil, "server", server)
				v.again(server)
			})
		}
	}
}
