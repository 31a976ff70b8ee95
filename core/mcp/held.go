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
	id     string
	ctx    context.Context //nolint:containedctx // it outlives the requests that serve it
	cancel context.CancelFunc
	out    atomic.Pointer[stream] // of the request that serves it at present
	one    sync.Mutex             // a question at a time
	asked  chan *heldQuestion
	ended  chan heldEnd
	open   *heldQuestion // that the client has; used by one request at a time
	timer  *time.Timer
}

type heldQuestion struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

type heldEnd struct {
	result api.OfferedResult
	err    error
}

// heldCalls are the calls whose questions clients have.
type heldCalls struct {
	mu   sync.Mutex
	open map[string]*heldCall
}

// maxHeld bounds them.
const maxHeld = 1000

func (h *heldCalls) put(c *heldCall, life time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) >= maxHeld {
		return false
	}
	if h.open == nil {
		h.open = map[string]*heldCall{}
	}
	h.open[c.id] = c
	c.timer = time.AfterFunc(life, func() {
		if h.take(c.id) != nil {
			c.cancel()
		}
	})
	return true
}

func (h *heldCalls) take(id string) *heldCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.open[id]
	if c != nil {
		delete(h.open, id)
		c.timer.Stop()
	}
	return c
}

// ask puts a question of a server to whoever serves the call, or will.
func (h *heldCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	h.one.Lock()
	defer h.one.Unlock()
	q := &heldQuestion{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	select {
	case h.asked <- q:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
	select {
	case raw := <-q.answer:
		return raw, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
}

// hold makes a call that may have to wait for answers of its client.
func (e *Edge) hold(ctx context.Context, c *call, p *peer, done func(), oc api.OfferedCall) (*heldCall, error) {
	var random [16]byte
	if _, err := io.ReadFull(e.o.Random, random[:]); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no random numbers for a call: %w", err)
	}
	h := &heldCall{id: hex.EncodeToString(random[:]), asked: make(chan *heldQuestion), ended: make(chan heldEnd, 1)}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.out.Store(c.out)
	if oc.Progress != nil {
		token := c.token
		oc.Progress = func(message string, done, total float64) {
			passProgress(h.out.Load(), token, message, done, total)
		}
	}
	o := &offering{out: c.out, ask: h.ask, logs: c.level}
	p.begin(o)
	go func() {
		var end heldEnd
		defer func() {
			p.end(o)
			done()
			h.ended <- end
		}()
		defer core.Recover(e.o.Log, "a call was made", func(err *core.Error) { end = heldEnd{err: err} })
		end.result, end.err = p.gateway.Call(h.ctx, oc)
	}()
	return h, nil
}

// attend serves a call until it asks its client something, or ends.
func (e *Edge) attend(ctx context.Context, c *call, h *heldCall) (api.OfferedResult, *inputRequired, error) {
	h.out.Store(c.out)
	defer h.out.Store(nil)
	select {
	case q := <-h.asked:
		h.open = q
		now := e.o.Clock.Now()
		text, err := e.sealed(state{
			Held: h.id, Owner: c.session.holder.owner, Workspace: c.session.holder.workspace, Call: c.digest(),
			Issued: now.UnixMilli(), Expires: now.Add(e.o.Holding).UnixMilli(),
		})
		if err == nil && !e.held.put(h, e.o.Holding) {
			err = core.Errorf(core.CodeBudget, "too many calls wait for answers of their clients")
		}
		if err != nil {
			h.cancel()
			return api.OfferedResult{}, nil, err
		}
		return api.OfferedResult{}, &inputRequired{Method: q.method, Params: orNothing(q.params), state: text}, nil
	case end := <-h.ended:
		h.cancel()
		return end.result, nil, end.err
	case <-ctx.Done():
		h.cancel()
		return api.OfferedResult{}, nil, ctx.Err()
	}
}

// answered takes up a call with the answer of its client.
func (e *Edge) answered(ctx context.Context, c *call, st state) (api.OfferedResult, *inputRequired, error) {
	h := e.held.take(st.Held)
	if h == nil {
		return api.OfferedResult{}, nil, &api.PeerError{
			Code:    mcp.INVALID_PARAMS,
			Message: "the call that asked is over: it waited too long, or pml was restarted meanwhile. Call the tool anew",
		}
	}
	raw := c.responses[inputKey]
	if len(raw) == 0 {
		h.cancel()
		return api.OfferedResult{}, nil, &api.PeerError{Code: mcp.INVALID_PARAMS, Message: "inputResponses has no answer to \"" + inputKey + "\"; the call was cancelled"}
	}
	h.open.answer <- raw
	return e.attend(ctx, c, h)
}
