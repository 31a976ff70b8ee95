package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// peer is a client as upstream servers see it, and its calls that they work for
// at the moment: what a server asks or says goes the way of one of these.
type peer struct {
	gateway Proxy
	seen    api.Peer
	can     abilities
	session *session // nil: the peer of a revision without sessions
	notify  func(method string, params json.RawMessage)

	mu    sync.Mutex
	calls []*offering // newest last
	idle  *time.Timer // of one that nobody uses at present
}

// offering is a call of an offered tool while it is made.
type offering struct {
	out *stream
	// ask puts a question of the server to the client that made the call.
	ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// askAll puts all of a round, where the client answers so.
	askAll func(ctx context.Context, asked map[string]api.Question) (map[string]json.RawMessage, error)
	// logs is the level from which on the client wants what the server
	// logs; 0: nothing.
	logs int
}

func newPeer(gw Proxy, id string, can abilities) *peer {
	p := &peer{gateway: gw, can: can}
	p.seen = api.Peer{ID: id, Stateless: true, Capabilities: can.servers, Ask: p.ask, AskAll: p.askAll, Notify: p.tell}
	return p
}

func (p *peer) begin(o *offering) {
	p.mu.Lock()
	p.calls = append(p.calls, o)
	p.mu.Unlock()
}

func (p *peer) end(o *offering) {
	p.mu.Lock()
	p.calls = slices.DeleteFunc(p.calls, func(other *offering) bool { return other == o })
	p.mu.Unlock()
}

// newest is the call that began last, nil without any.
func (p *peer) newest() *offering {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		return nil
	}
	return p.calls[len(p.calls)-1]
}

// offer is a call of a client with a session, whose questions end with it.
func (p *peer) offer(ctx context.Context, c *call) *offering {
	return &offering{
		out: c.out, logs: 1, // the level was set at the server
		ask: func(asks context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			asks, cancel := context.WithCancel(asks)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return p.session.ask(asks, c.out, method, orNothing(params))
		},
	}
}

type offeringKey struct{}

// of is a context in which a call is made: a question that comes in its stream,
// or as its answer, has it.
func (o *offering) of(ctx context.Context) context.Context {
	return context.WithValue(ctx, offeringKey{}, o)
}

// named is the call that a question belongs to, nil where nothing says so.
func (p *peer) named(ctx context.Context) *offering {
	o, _ := ctx.Value(offeringKey{}).(*offering)
	p.mu.Lock()
	defer p.mu.Unlock()
	if o == nil || !slices.Contains(p.calls, o) {
		return nil
	}
	return o
}

// any is the stream for a question that may belong to any call: that of the only
// one, else the session's own, which outlives them, else that of the newest.
func (p *peer) any() *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if main := p.session.mainStream(); len(p.calls) == 0 || len(p.calls) > 1 && main.open() {
		return main
	}
	return p.calls[len(p.calls)-1].out
}

// ask implements api.Peer. Nothing is asked that the client has not declared.
func (p *peer) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !p.can.declared(method, params) {
		return nil, &api.PeerError{Code: mcp.METHOD_NOT_FOUND, Message: "the client has not declared that it can be asked this"}
	}
	o := p.named(ctx)
	if o == nil && p.session == nil {
		o = p.newest() // there is one at a time
	}
	switch {
	case o != nil:
		return o.ask(ctx, method, params)
	case p.session == nil:
		return nil, &api.PeerError{Code: mcp.INTERNAL_ERROR, Message: "no call of the client is being made, so it cannot be asked"}
	}
	return p.session.ask(ctx, p.any(), method, orNothing(params))
}

// askAll implements api.Peer for a client that answers by round. Nothing is asked
// of which it has not declared a part.
func (p *peer) askAll(ctx context.Context, asked map[string]api.Question) (map[string]json.RawMessage, error) {
	for _, q := range asked {
		if !p.can.declared(q.Method, q.Params) {
			return nil, &api.PeerError{Code: mcp.METHOD_NOT_FOUND, Message: "the client has not declared that it can be asked this"}
		}
	}
	o := p.newest() // there is one at a time
	if o == nil || o.askAll == nil {
		return nil, &api.PeerError{Code: mcp.INTERNAL_ERROR, Message: "no call of the client is being made, so it cannot be asked"}
	}
	return o.askAll(ctx, asked)
}

// orNothing leaves params away that there are none of.
func orNothing(params json.RawMessage) any {
	if len(params) == 0 {
		return nil
	}
	return params
}

// declared reports whether servers may ask by a method.
func (a abilities) declared(method string, params json.RawMessage) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(a.servers, &all) != nil {
		return false
	}
	switch method {
	case "sampling/createMessage":
		return len(all["sampling"]) > 0
	case "roots/list":
		return len(all["roots"]) > 0
	case "elicitation/create":
		var in struct {
			Mode string `json:"mode"`
		}
		if json.Unmarshal(params, &in) != nil {
			return false
		}
		return in.Mode == "url" && a.url || in.Mode != "url" && a.form
	}
	return false
}

// tell implements api.Peer.
func (p *peer) tell(method string, params json.RawMessage) {
	if p.notify != nil {
		p.notify(method, params)
		return
	}
	o := p.newest()
	logs := method == string(mcp.MethodNotificationMessage)
	switch {
	case logs && o != nil && o.out.open():
		if o.logs > 0 && levelOf(params) >= o.logs {
			o.out.notify(method, orNothing(params))
		}
	case p.session == nil:
	default:
		if main := p.session.mainStream(); main.open() {
			main.notify(method, orNothing(params))
		} else if o != nil {
			o.out.notify(method, orNothing(params))
		}
	}
}

// levelOf is the level of a message of the log; of one that has none, the
// highest.
func levelOf(params json.RawMessage) int {
	var in struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(params, &in) != nil || levels[in.Level] == 0 {
		return len(levels)
	}
	return levels[in.Level]
}

// peerOf is a session as upstream servers see it.
func (s *session) peerOf(gw Proxy) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == nil {
		s.peer = newPeer(gw, s.id, s.asks)
		s.peer.session, s.peer.seen.Stateless, s.peer.seen.AskAll = s, false, nil
	}
	return s.peer
}

// leave tells upstream servers that the client of a session has left.
func (s *session) leave() {
	s.mu.Lock()
	p := s.peer
	s.mu.Unlock()
	if p != nil {
		p.gateway.Gone(p.seen.ID)
	}
}

// peers are those of clients of a revision without sessions that can be asked.
// Each is used by one call at a time, so that a server's question belongs to it,
// and again by the next call of the same client: its connections stay.
type peers struct {
	log *slog.Logger
	// abandoned ends a call of an account whose client has left a question
	// unanswered, the oldest one, if there is any.
	abandoned func(account holder) bool

	mu   sync.Mutex
	wake chan struct{} // closed when there may be a place
	last int
	kept map[holder]int       // by account: used and free
	free map[leaseKey][]*peer // never empty lists
}

// leaseKey is what calls have in common that can use the same peer.
type leaseKey struct {
	holder  holder
	servers string // as in abilities
}

const (
	maxPeers = 8 // of one client, whatever it declares
	peerIdle = 10 * time.Minute
)

// account is whose peers are counted together: those of an API key, wherever it
// works, and of this user those of a workspace.
func (h holder) account() holder {
	if h.owner != "" {
		return holder{owner: h.owner}
	}
	return h
}

// lease gives a call a peer. When a client has too many calls, one whose question
// it has left unanswered is ended for it; where they are all being made, it waits
// until one is over.
func (p *peers) lease(ctx context.Context, gw Proxy, h holder, can abilities) (leased *peer, done func(), err error) {
	for {
		p.mu.Lock()
		leased, done = p.tryLease(gw, h, can)
		wake := p.wake
		p.mu.Unlock()
		if leased != nil {
			return leased, done, nil
		}
		if p.abandoned(h.account()) {
			// It gives its place back when its server's call has ended.
			p.log.Info("a question that a client has left unanswered was given up, since it makes more calls", "calls", maxPeers)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, nil, core.Errorf(core.CodeCancelled, "the call was given up while %d others of its client were made: %w", maxPeers, context.Cause(ctx))
		}
	}
}

// changed wakes those that wait for a place.
func (p *peers) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
}

// signal is changed for who holds the lock.
func (p *peers) signal() {
	if p.wake != nil {
		close(p.wake)
	}
	p.wake = make(chan struct{})
}

// tryLease is lease for a client that has a place; nil without. The caller holds
// the lock.
func (p *peers) tryLease(gw Proxy, h holder, can abilities) (leased *peer, done func()) {
	key := leaseKey{h, string(can.servers)}
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	if p.kept == nil {
		p.kept, p.free = map[holder]int{}, map[leaseKey][]*peer{}
	}
	if list := p.free[key]; len(list) > 0 {
		leased = list[len(list)-1]
		p.take(key, leased)
		leased.idle.Stop()
		return leased, sync.OnceFunc(func() { p.back(key, leased) })
	}
	if p.kept[h.account()] >= maxPeers && !p.makeRoom(h.account()) {
		return nil, nil
	}
	p.kept[h.account()]++
	p.last++
	leased = newPeer(gw, "alone-"+strconv.Itoa(p.last), can)
	return leased, sync.OnceFunc(func() { p.back(key, leased) })
}

// makeRoom closes one peer of an account that no call uses, if there is one. The
// caller holds the lock.
func (p *peers) makeRoom(account holder) bool {
	for key, list := range p.free {
		if key.holder.account() == account {
			list[0].idle.Stop()
			p.forget(key, list[0])
			return true
		}
	}
	return false
}

// take takes a peer out of those that are free, if it is there. The caller holds
// the lock.
func (p *peers) take(key leaseKey, free *peer) bool {
	at := slices.Index(p.free[key], free)
	if at < 0 {
		return false
	}
	p.free[key] = slices.Delete(p.free[key], at, at+1)
	if len(p.free[key]) == 0 {
		delete(p.free, key)
	}
	return true
}

// forget closes a peer that is free. The caller holds the lock.
func (p *peers) forget(key leaseKey, free *peer) {
	if !p.take(key, free) {
		return
	}
	account := key.holder.account()
	if p.kept[account]--; p.kept[account] == 0 {
		delete(p.kept, account)
	}
	go func() { // it may tell servers
		defer core.Recover(p.log, "it was told that a client has gone", nil)
		free.gateway.Gone(free.seen.ID)
	}()
}

func (p *peers) back(key leaseKey, leased *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[key] = append(p.free[key], leased)
	p.signal()
	leased.idle = time.AfterFunc(peerIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(key, leased)
	})
}
