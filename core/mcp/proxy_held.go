package mcp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// heldCall is a call of an offered tool for a client of a revision without
// requests from the server. It goes on while the client is asked: the request
// that made it is answered with the question, and one that brings the answer
// takes it up.
type heldCall struct {
	id      string
	account holder
	since   int64           // in the order in which calls began to wait; set with the calls' lock held
	ctx     context.Context //nolint:containedctx // it outlives the requests that serve it
	cancel  context.CancelFunc
	out     atomic.Pointer[stream] // of the request that serves it at present
	one     sync.Mutex             // a round at a time
	given   map[string]json.RawMessage
	asked   chan *heldQuestion
	ended   chan heldEnd
	open    *heldQuestion // that the client has; used by one request at a time
	timer   *time.Timer
}

// heldQuestion is what a server asks in one round, by the keys that the client
// is to answer under.
type heldQuestion struct {
	asked  map[string]api.Question
	answer chan map[string]json.RawMessage
}

// heldEnd is how a call ended. ours is false where it was about nothing that
// servers have.
type heldEnd struct {
	result api.OfferedResult
	ours   bool
	err    error
}

// heldCalls are the calls whose questions clients have.
type heldCalls struct {
	o      Options
	states *states
	peers  *peers

	mu   sync.Mutex
	open map[string]*heldCall
	puts int64
}

// maxHeld bounds them.
const maxHeld = 1000

func (all *heldCalls) put(c *heldCall, life time.Duration) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.open) >= maxHeld {
		return false
	}
	if all.open == nil {
		all.open = map[string]*heldCall{}
	}
	all.open[c.id] = c
	all.puts++
	c.since = all.puts
	c.timer = time.AfterFunc(life, func() {
		if all.take(c.id) != nil {
			c.cancel()
		}
	})
	return true
}

func (all *heldCalls) take(id string) *heldCall {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.open[id]
	if c != nil {
		delete(all.open, id)
		c.timer.Stop()
	}
	return c
}

// abandon ends the call that an account's client has left unanswered for longest.
// It reports false where there is none.
func (all *heldCalls) abandon(account holder) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	var found *heldCall
	for _, c := range all.open {
		if c.account == account && (found == nil || c.since < found.since) {
			found = c
		}
	}
	if found == nil {
		return false
	}
	delete(all.open, found.id)
	found.timer.Stop()
	found.cancel()
	return true
}

// put puts questions of a server to whoever serves the call, or will.
func (h *heldCall) put(ctx context.Context, asked map[string]api.Question) (map[string]json.RawMessage, error) {
	q := &heldQuestion{asked: asked, answer: make(chan map[string]json.RawMessage, 1)}
	select {
	case h.asked <- q:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
	select {
	case answers := <-q.answer:
		return answers, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
}

// ask puts a question that has no key of its own, until it is answered.
func (h *heldCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	h.one.Lock()
	defer h.one.Unlock()
	for {
		answers, err := h.put(ctx, map[string]api.Question{inputKey: {Method: method, Params: params}})
		if raw := answers[inputKey]; err != nil || len(raw) > 0 {
			return raw, err
		}
	}
}

// askAll puts all questions of a round. What the client has brought without being
// asked counts once, if it answers any of them.
func (h *heldCall) askAll(ctx context.Context, asked map[string]api.Question) (map[string]json.RawMessage, error) {
	h.one.Lock()
	defer h.one.Unlock()
	given := h.given
	h.given = nil
	for key := range asked {
		if len(given[key]) > 0 {
			return given, nil
		}
	}
	return h.put(ctx, asked)
}

// hold does work that may have to wait for answers of its client, of which p
// stands for it; done gives p back.
func (all *heldCalls) hold(ctx context.Context, c *call, p *peer, done func(), work func(context.Context, *heldCall) heldEnd) (*heldCall, error) {
	var random [16]byte
	if _, err := io.ReadFull(all.o.Random, random[:]); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no random numbers for a call: %w", err)
	}
	h := &heldCall{
		id: hex.EncodeToString(random[:]), account: c.session.holder.account(), given: c.responses,
		asked: make(chan *heldQuestion), ended: make(chan heldEnd, 1),
	}
	h.out.Store(c.out)
	o := &offering{out: c.out, ask: h.ask, askAll: h.askAll, logs: c.level}
	h.ctx, h.cancel = context.WithCancel(o.of(context.WithoutCancel(ctx)))
	p.begin(o)
	go func() {
		var end heldEnd
		defer func() {
			p.end(o)
			done()
			h.ended <- end
		}()
		defer core.Recover(all.o.Log, "a call was made", func(err *core.Error) { end = heldEnd{ours: true, err: err} })
		end = work(h.ctx, h)
	}()
	return h, nil
}

// leased does work for a client of a revision without sessions that can be asked,
// and serves it.
func (all *heldCalls) leased(ctx context.Context, gw Proxy, c *call, work func(context.Context, *heldCall, *api.Peer) heldEnd) (heldEnd, *inputRequired) {
	p, done, err := all.peers.lease(ctx, gw, c.session.holder, c.can)
	if err != nil {
		return heldEnd{ours: true, err: err}, nil
	}
	h, err := all.hold(ctx, c, p, done, func(ctx context.Context, h *heldCall) heldEnd { return work(ctx, h, &p.seen) })
	if err != nil {
		done()
		return heldEnd{ours: true, err: err}, nil
	}
	return all.attend(ctx, c, h)
}

// attend serves a call until it asks its client something, or ends.
func (all *heldCalls) attend(ctx context.Context, c *call, h *heldCall) (heldEnd, *inputRequired) {
	h.out.Store(c.out)
	defer h.out.Store(nil)
	select {
	case q := <-h.asked:
		h.open = q
		now := all.o.Clock.Now()
		text, err := all.states.sealed(state{
			Held: h.id, Owner: c.session.holder.owner, Workspace: c.session.holder.workspace, Call: c.digest(),
			Issued: now.UnixMilli(), Expires: now.Add(all.o.Holding).UnixMilli(),
		})
		if err == nil && !all.put(h, all.o.Holding) {
			err = core.Errorf(core.CodeBudget, "too many calls wait for answers of their clients")
		}
		if err != nil {
			h.cancel()
			return heldEnd{ours: true, err: err}, nil
		}
		all.peers.changed() // who waits for a place may have this one's
		return heldEnd{}, &inputRequired{all: q.asked, state: text}
	case end := <-h.ended:
		h.cancel()
		return end, nil
	case <-ctx.Done():
		h.cancel()
		return heldEnd{ours: true, err: ctx.Err()}, nil
	}
}

// answered takes up a call with what its client brings.
func (all *heldCalls) answered(ctx context.Context, c *call, st state) (heldEnd, *inputRequired) {
	h := all.take(st.Held)
	if h == nil {
		return heldEnd{ours: true, err: &api.PeerError{
			Code:    mcp.INVALID_PARAMS,
			Message: "the call that asked is over: it waited too long, made room for later calls of its client, or pml was restarted meanwhile. Call the tool anew",
		}}, nil
	}
	h.open.answer <- c.responses
	return all.attend(ctx, c, h)
}
