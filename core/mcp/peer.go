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
	gateway Gateway
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
	// logs is the level from which on the client wants to hear what the server
	// logs; 0: nothing.
	logs int
}

func newPeer(gw Gateway, id string, can abilities) *peer {
	p := &peer{gateway: gw, can: can}
	p.seen = api.Peer{ID: id, Capabilities: can.servers, Ask: p.ask, Notify: p.tell}
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

// newest is the call that began last, nil without any. Which call of a client a
// server asks about is not in its question.
func (p *peer) newest() *offering {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		return nil
	}
	return p.calls[len(p.calls)-1]
}

// ask implements api.Peer. Nothing is asked that the client has not declared.
func (p *peer) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !p.can.declared(method, params) {
		return nil, &api.PeerError{Code: mcp.METHOD_NOT_FOUND, Message: "the client has not declared that it can be asked this"}
	}
	if o := p.newest(); o != nil {
		return o.ask(ctx, method, params)
	}
	if p.session == nil {
		return nil, &api.PeerError{Code: mcp.INTERNAL_ERROR, Message: "no call of the client is being made, so it cannot be asked"}
	}
	return p.session.ask(ctx, nil, method, orNothing(params))
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
func (s *session) peerOf(gw Gateway) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == nil {
		s.peer = newPeer(gw, s.id, s.asks)
		s.peer.session = s
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
	log  *slog.Logger
	mu   sync.Mutex
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

// lease gives a call a peer, nil when the client has too many calls: then its
// servers can ask nothing.
func (p *peers) lease(gw Gateway, h holder, can abilities) (leased *peer, done func()) {
	key := leaseKey{h, string(can.servers)}
	p.mu.Lock()
	defer p.mu.Unlock()
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
	leased.idle = time.AfterFunc(peerIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(key, leased)
	})
}
