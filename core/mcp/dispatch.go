package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// reply is an error that this package answers itself.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   replyError      `json:"error"`
}

type replyError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// tooBusy is the code of the error for a call over a limit, in the range that
// JSON-RPC leaves to servers.
const tooBusy = -32000

func refused(id json.RawMessage, code int, text string) *reply {
	if len(id) == 0 {
		id = core.Null
	}
	return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: replyError{Code: code, Message: text}}
}

// errUnencoded is what a message that cannot be written as JSON fails with.
var errUnencoded = errors.New("cannot encode a message")

func unencoded(err error) error { return fmt.Errorf("%w: %w", errUnencoded, err) }

// orRefused sends an answer, or an error where it cannot be written: who waits
// for it must hear of that.
func orRefused(send func(message any) error, answer any, id json.RawMessage) error {
	err := send(answer)
	if errors.Is(err, errUnencoded) {
		return send(refused(id, mcp.INTERNAL_ERROR, "the answer cannot be encoded"))
	}
	return err
}

// parse reads a message. What is not one comes back as the answer to it.
func parse(raw []byte) (*message, *reply) {
	m := &message{raw: raw}
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' && json.Valid(raw) {
		return m, refused(nil, mcp.INVALID_REQUEST, "batches are not supported; send one message at a time")
	}
	if core.Depth(raw) > maxDepth {
		return m, refused(idOf(raw), mcp.INVALID_PARAMS, "the message is nested more than "+strconv.Itoa(maxDepth)+" levels deep; make it flatter")
	}
	if err := json.Unmarshal(raw, m); err != nil {
		var shape *json.UnmarshalTypeError
		if errors.As(err, &shape) {
			return m, refused(plainID(m.ID), mcp.INVALID_REQUEST, "the message is not JSON-RPC: "+shape.Field+" must not be a "+shape.Value)
		}
		return m, refused(nil, mcp.PARSE_ERROR, "the message is not valid JSON")
	}
	switch {
	case m.JSONRPC != mcp.JSONRPC_VERSION:
		return m, refused(plainID(m.ID), mcp.INVALID_REQUEST, `"jsonrpc" must be "2.0"`)
	case len(m.ID) > 0 && plainID(m.ID) == nil && m.Method != "":
		return m, refused(nil, mcp.INVALID_REQUEST, "the id must be a string or a number")
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return m, refused(plainID(m.ID), mcp.INVALID_REQUEST, "the message has no method")
	}
	return m, nil
}

// maxDepth is how deeply a message may be nested: the values in it have their
// own limit, and it puts a few levels around them.
const maxDepth = core.MaxDepth + 20

// idOf finds the id of a message that is too deep to be read, so that who waits
// for its answer gets one. It reads token by token, which has no such limit.
func idOf(raw []byte) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth, name, named := 0, "", false
	for {
		token, err := dec.Token()
		if err != nil {
			return nil
		}
		switch delim, _ := token.(json.Delim); {
		case delim == '{' || delim == '[':
			depth++
		case delim != 0:
			depth--
			named = named && depth > 1 // a value of the message has ended
		case depth > 1:
		case !named:
			name, _ = token.(string)
			named = true
		case name == "id":
			id, _ := json.Marshal(token) // a string or a number: there is nothing to fail
			return plainID(id)
		default:
			named = false
		}
	}
}

// plainID is an id if it is a string or a number, nil otherwise.
func plainID(id json.RawMessage) json.RawMessage {
	if len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9') {
		return id
	}
	return nil
}

// isRequest reports whether the message wants an answer.
func (m *message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

// isNotification reports whether the message wants none.
func (m *message) isNotification() bool { return m.Method != "" && len(m.ID) == 0 }

// slow reports whether the answer may take its time, so that others must not
// wait for it.
func (e *Edge) slow(m *message) bool {
	method := mcp.MCPMethod(m.Method)
	return slices.Contains(slowMethods, method) || e.o.Gateway != nil && slices.Contains(slowBehind, method)
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
func (e *Edge) dispatch(ctx context.Context, s *session, m *message, out *stream) (answer any) {
	if !m.isRequest() {
		if m.Method == string(mcp.MethodNotificationCancelled) {
			s.cancel(string(m.Params.RequestID))
		}
		s.questions.answered(m)
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
func (e *Edge) take(ctx context.Context, s *session, m *message) (*taken, *reply) {
	ctx, done, err := s.begin(ctx, string(m.ID), e.o.MaxCalls)
	switch {
	case errors.Is(err, errTooMany):
		return nil, refused(m.ID, tooBusy, "too many calls are waiting in this session; wait for some to be answered")
	case err != nil:
		return nil, refused(m.ID, mcp.INVALID_REQUEST, err.Error())
	}
	if !e.slow(m) {
		return &taken{m, ctx, s, done}, nil
	}
	owner := s.holder.owner
	if !e.enter(owner) {
		done()
		return nil, refused(m.ID, tooBusy, "too many calls of this API key are waiting; wait for some to be answered")
	}
	return &taken{m, ctx, s, func() { e.vacate(owner); done() }}, nil
}

// serveRequest answers a request that was let in.
func (e *Edge) serveRequest(r *taken, out *stream) (answer any) {
	defer r.done()
	defer out.end()
	defer e.survive(r.message, &answer)
	return e.answerTo(r.ctx, r.session, r.message, out)
}

// survive makes an answer of a panic. It is deferred.
func (e *Edge) survive(m *message, answer *any) {
	if r := recover(); r != nil {
		*answer = e.panicked("a request was answered", r, m)
	}
}

// panicked is the answer to a request with which something panicked.
func (e *Edge) panicked(doing string, thrown any, m *message) *reply {
	err := core.Panicked(e.o.Log, doing, thrown, "method", core.Visible(m.Method, 100, false))
	answer := refused(m.ID, mcp.INTERNAL_ERROR, err.Message)
	answer.Error.Data = map[string]any{"error_code": err.Code}
	return answer
}

// beside runs f in a goroutine of its own. A panic in it ends nothing but f, and
// what f was for goes without.
func (e *Edge) beside(doing string, f func()) {
	go func() {
		defer core.Recover(e.o.Log, doing, nil)
		f()
	}()
}

// answerTo is the answer to a request that was let in, nil where there is none.
func (e *Edge) answerTo(ctx context.Context, s *session, m *message, out *stream) any {
	c := e.newCall(s, m, out)
	if m.Method == string(mcp.MethodSubscriptionsListen) {
		listener, stop := e.listen(ctx, s, string(m.ID), out)
		s = listener
		defer stop()
	}
	ctx = context.WithValue(e.protocol.WithContext(ctx, s), callKey{}, c)
	answer, ok := e.aside(ctx, s, m, c)
	if !ok {
		answer = plainly(withID(e.protocol.HandleMessage(ctx, m.raw), m.ID), m)
	}
	if c.result != nil {
		answer = e.called(ctx, c, m.ID, answer)
	}
	if m.Method == string(mcp.MethodInitialize) && !m.modern() && codeOf(answer) == 0 {
		s.initialized(m.Params.Capabilities)
	}
	if errors.Is(context.Cause(ctx), errCancelled) {
		// Who cancels does not want to hear any more.
		return nil
	}
	if c.input != nil {
		input, err := c.input.answer(m.ID, e.info)
		if err != nil {
			return refused(m.ID, mcp.INTERNAL_ERROR, "the answer cannot be encoded")
		}
		return input
	}
	if c.refusal != nil {
		return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID, Error: *c.refusal}
	}
	return answer
}

// withID is an answer with the id as the client has written it: mcp-go reads a
// number as a float, which has room for 53 bits of it.
func withID(answer any, id json.RawMessage) any {
	switch a := answer.(type) {
	case mcp.JSONRPCResponse:
		a.ID = mcp.NewRequestId(id)
		if listened, ok := a.Result.(mcp.SubscriptionsListenResult); ok {
			listened.EnsureResultMeta().SetSubscriptionID(id)
			a.Result = listened
		}
		return a
	case mcp.JSONRPCError:
		a.ID = mcp.NewRequestId(id)
		return a
	}
	return answer
}

// codeOf is the code of an answer that is an error, 0 for a result.
func codeOf(answer any) int {
	switch a := answer.(type) {
	case *reply:
		return a.Error.Code
	case mcp.JSONRPCError:
		return a.Error.Code
	case *mcp.JSONRPCError:
		return a.Error.Code
	}
	return 0
}

// listen gives a request that listens a session of its own, so that what mcp-go
// sends in it reaches the client through the request, before its answer. The
// first is what says what is listened to. stop returns once all of it was sent.
func (e *Edge) listen(ctx context.Context, s *session, id string, out *stream) (listener *session, stop func()) {
	listener = newSession(s.id+"/"+id, s.holder, time.Time{})
	listener.Initialize()
	ctx, cancel := context.WithCancel(ctx)
	out.dropWhenFull(func() { s.cancel(id) })
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
			fields["_meta"] = map[string]any{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
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
func subscribed(n mcp.JSONRPCNotification, id string) mcp.JSONRPCNotification {
	if _, ok := n.Params.Meta[mcp.MetaKeySubscriptionID]; ok {
		n.Params.Meta = maps.Clone(n.Params.Meta)
		n.Params.Meta[mcp.MetaKeySubscriptionID] = json.RawMessage(id)
	}
	return n
}
