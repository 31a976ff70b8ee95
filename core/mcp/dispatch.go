package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// tooBusy is the code of the error for a call over a limit, in the range that
// JSON-RPC leaves to servers.
const tooBusy = -32000

// slow reports whether the answer may take its time, so that others must not
// wait for it.
func (e *Edge) slow(m *message) bool {
	method := mcp.MCPMethod(m.Method)
	return slices.Contains(slowMethods, method) || e.o.Proxy != nil && slices.Contains(slowBehind, method)
}

// slowMethods ask a backend.
var slowMethods = []mcp.MCPMethod{
	mcp.MethodToolsCall, mcp.MethodSubscriptionsListen, mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete,
	mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
}

// slowBehind ask servers where there is a gateway.
var slowBehind = []mcp.MCPMethod{
	mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodPromptsList, mcp.MethodSetLogLevel,
}

// dispatch handles a message of a session and returns the answer, nil when
// there must be none. Notifications of a request go to out, all of them before
// dispatch returns.
func (e *Edge) dispatch(ctx context.Context, s *session, m *message, out *stream) (answer *jsonrpc.Response) {
	if !m.isRequest() {
		if m.Method == string(mcp.MethodNotificationCancelled) {
			s.served.Cancel(m.Params.RequestID, errCancelled)
		}
		if m.Method == "" {
			s.asked.Answered(m.Message)
		}
		return nil
	}
	r, bad := e.take(ctx, s, m)
	if bad != nil {
		return bad
	}
	return e.serveRequest(r, out)
}

// taken is a request that was let in: from then on it can be cancelled. done has to
// be called once it was answered.
type taken struct {
	*message
	ctx     context.Context
	session *session
	done    func()
}

// take lets a request in, or says why not.
func (e *Edge) take(ctx context.Context, s *session, m *message) (*taken, *jsonrpc.Response) {
	ctx, done, err := s.served.Begin(ctx, m.ID, e.o.MaxCalls)
	switch {
	case errors.Is(err, jsonrpc.ErrTooMany):
		return nil, jsonrpc.Refuse(m.ID, tooBusy, "too many calls are waiting in this session; wait for some to be answered")
	case err != nil:
		return nil, jsonrpc.Refuse(m.ID, mcp.INVALID_REQUEST, err.Error())
	}
	if !e.slow(m) {
		return &taken{m, ctx, s, done}, nil
	}
	owner := s.holder.owner
	if !e.owners.enter(owner) {
		done()
		return nil, jsonrpc.Refuse(m.ID, tooBusy, "too many calls of this API key are waiting; wait for some to be answered")
	}
	return &taken{m, ctx, s, func() { e.owners.leave(owner); done() }}, nil
}

// serveRequest answers a request that was let in.
func (e *Edge) serveRequest(r *taken, out *stream) (answer *jsonrpc.Response) {
	defer r.done()
	defer out.end()
	defer e.survive(r.message, &answer)
	return e.answerTo(r.ctx, r.session, r.message, out)
}

// survive makes an answer of a panic. It is deferred.
func (e *Edge) survive(m *message, answer **jsonrpc.Response) {
	if r := recover(); r != nil {
		*answer = e.panicked("a request was answered", r, m)
	}
}

// panicked is the answer to a request with which something panicked.
func (e *Edge) panicked(doing string, thrown any, m *message) *jsonrpc.Response {
	err := core.Panicked(e.o.Log, doing, thrown, "method", core.Visible(m.Method, 100, false))
	return jsonrpc.Refuse(m.ID, mcp.INTERNAL_ERROR, err.Message).With(map[string]any{"error_code": err.Code})
}

// beside runs f in a goroutine of its own. A panic in it ends nothing but f, and
// what f was for goes without.
func (e *Edge) beside(doing string, f func()) { beside(e.o.Log, doing, f) }

func beside(log *slog.Logger, doing string, f func()) {
	go func() {
		defer core.Recover(log, doing, nil)
		f()
	}()
}

// answerTo is the answer to a request that was let in, nil where there is none.
func (e *Edge) answerTo(ctx context.Context, s *session, m *message, out *stream) *jsonrpc.Response {
	c := e.newCall(s, m, out)
	if m.Method == string(mcp.MethodSubscriptionsListen) {
		listener, stop := e.listen(ctx, s, m.ID, out)
		s = listener
		defer stop()
	}
	ctx = context.WithValue(e.protocol.WithContext(ctx, s), callKey{}, c)
	answer, ok := e.aside(ctx, s, m, c)
	if !ok {
		answer = ofLibrary(e.protocol.HandleMessage(ctx, m.request(m.Message.Params)), m)
	}
	if c.result != nil {
		answer = e.called(ctx, c, m.ID, answer)
	}
	if m.Method == string(mcp.MethodInitialize) && !m.modern() && answer.Code() == 0 {
		s.initialized(m.Params.Capabilities)
		s.introduce(clientOf(s.GetClientInfo()))
	}
	if errors.Is(context.Cause(ctx), errCancelled) {
		// A client that has cancelled gets no answer.
		return nil
	}
	if c.input != nil {
		return c.input.answer(m.ID, e.info)
	}
	if c.refusal != nil {
		return &jsonrpc.Response{ID: m.ID, Error: c.refusal}
	}
	return answer
}

// listen gives a request that listens a session of its own, so that what mcp-go
// sends in it reaches the client through the request, before its answer. The
// first is what says what is listened to. stop returns once all of it was sent.
func (e *Edge) listen(ctx context.Context, s *session, id json.RawMessage, out *stream) (listener *session, stop func()) {
	listener = newSession(s.id+"/"+string(id), s.holder, time.Time{})
	listener.Initialize()
	ctx, cancel := context.WithCancel(ctx)
	out.dropWhenFull(func() { s.served.Cancel(id, errCancelled) })
	done, first := make(chan struct{}), make(chan struct{})
	e.beside("a client was told what it listens to", func() {
		defer close(done)
		for begun := false; ; begun = true {
			select {
			case n := <-listener.out:
				_ = out.pass(subscribed(n, id))
				if !begun {
					close(first)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	end := e.attendListener(ctx, listener, func(method string, params any) {
		select {
		case <-first:
			fields, _ := params.(map[string]any)
			fields = maps.Clone(fields)
			fields["_meta"] = map[string]any{mcp.MetaKeySubscriptionID: id}
			out.notify(method, fields)
		case <-ctx.Done():
		}
	})
	return listener, func() {
		cancel()
		<-done
		end()
		for {
			select {
			case n := <-listener.out:
				_ = out.pass(subscribed(n, id))
			default:
				return
			}
		}
	}
}

// subscribed is a notification with the id of what it belongs to as the client
// has written it.
func subscribed(n mcp.JSONRPCNotification, id json.RawMessage) mcp.JSONRPCNotification {
	if _, ok := n.Params.Meta[mcp.MetaKeySubscriptionID]; ok {
		n.Params.Meta = maps.Clone(n.Params.Meta)
		n.Params.Meta[mcp.MetaKeySubscriptionID] = id
	}
	return n
}
