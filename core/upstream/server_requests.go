package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	methodElicit      = string(mcp.MethodElicitationCreate)
	methodSample      = string(mcp.MethodSamplingCreateMessage)
	methodRoots       = string(mcp.MethodListRoots)
	methodMessage     = "notifications/message"
	methodResourceNew = "notifications/resources/updated"
)

const (
	// maxAsked bounds the requests of one server that wait at once.
	maxAsked = 64
	// maxAnswers and maxAnswerBytes bound the answers that wait until an HTTP
	// server takes them, maxPosts how many are on their way to it at once.
	maxAnswers     = 256
	maxAnswerBytes = 64 << 20
	maxPosts       = 4
)

// serving is the state of what a server asks of its client.
type serving struct {
	asked jsonrpc.Served

	mu    sync.Mutex
	calls map[*flight]struct{}

	answers [][]byte // that wait
	size    int      // of all of them
	posts   int      // senders
}

// deliver has an answer posted in its turn, and returns at once. A server that
// asks without taking the answers loses its connection.
func (c *conn) deliver(response []byte, post func([]byte)) {
	s := &c.serving
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isLost() {
		return
	}
	if s.size += len(response); len(s.answers) == maxAnswers || s.size > maxAnswerBytes {
		c.lose(endedFull)
		s.answers, s.size = nil, 0
		return
	}
	s.answers = append(s.answers, response)
	if s.posts < maxPosts {
		s.posts++
		go c.post(post)
	}
}

// post posts the answers that wait until there are none.
func (c *conn) post(post func([]byte)) {
	defer c.survive("an answer was sent to a server")
	s := &c.serving
	for {
		s.mu.Lock()
		if len(s.answers) == 0 || c.isLost() {
			s.posts--
			s.mu.Unlock()
			return
		}
		next := s.answers[0]
		s.answers = s.answers[1:]
		s.size -= len(next)
		s.mu.Unlock()
		post(next)
	}
}

var (
	errCallOver  = errors.New("the call that it belongs to is over")
	errTakenBack = errors.New("the server has taken it back")
)

// fly notes that something runs, and for whom, until done is called. What comes
// in the stream of a request with the context is about it.
func (c *conn) fly(ctx context.Context, s *silence, owner string, peer *Peer) (_ context.Context, done func()) {
	f := &flight{over: ctx.Done(), silence: s, owner: owner, peer: peer}
	c.serving.mu.Lock()
	defer c.serving.mu.Unlock()
	if c.serving.calls == nil {
		c.serving.calls = map[*flight]struct{}{}
	}
	c.serving.calls[f] = struct{}{}
	return context.WithValue(ctx, flightKey{}, f), func() {
		c.serving.mu.Lock()
		defer c.serving.mu.Unlock()
		delete(c.serving.calls, f)
	}
}

// heard handles a request or notification of the server; ctx ends when nobody
// waits for what it is about. It runs on the reader and returns at once, as reply
// does.
func (c *conn) heard(ctx context.Context, w jsonrpc.Message, reply func([]byte)) {
	defer c.survive("a server's message was taken in")
	method := w.Name()
	if !w.IsRequest() {
		during, _ := ctx.Value(flightKey{}).(*flight)
		c.notify(during, method, w.Params)
		return
	}
	id := w.ID
	switch {
	case method == string(mcp.MethodPing):
		reply(responseTo(id, json.RawMessage("{}"), nil))
	case c.asks(method):
		ctx, done, err := c.begin(ctx, method, id)
		if err != nil {
			reply(responseTo(id, nil, err))
			return
		}
		go func() {
			defer c.survive("a server's question was answered")
			defer done()
			result, err := c.ask(ctx, method, w.Params)
			// A server that is being stopped gets none either: with it, it could still end the call that asked.
			if c.life.Err() == nil && !errors.Is(context.Cause(ctx), errTakenBack) {
				reply(responseTo(id, result, err))
			}
		}()
	case method == methodRoots && c.own == nil && c.proc != nil:
		// The capability is not declared: servers that see it drop the
		// folders that their own arguments name.
		reply(responseTo(id, fmt.Appendf(nil, `{"roots":[{"uri":%q}]}`, fileURI(c.root)), nil))
	default:
		text := "pml does not offer " + core.Visible(method, 100, false) + " to servers"
		reply(responseTo(id, nil, &jsonrpc.Error{Code: mcp.METHOD_NOT_FOUND, Message: text}))
	}
}

// asks reports whether the server may ask for this: its client has declared it.
func (c *conn) asks(method string) bool {
	capability := map[string]string{methodSample: "sampling", methodElicit: "elicitation", methodRoots: "roots"}[method]
	return capability != "" && c.own != nil && c.own.Ask != nil && c.declared[capability] != nil
}

// begin returns the context of a question. It ends when the server takes the
// question back, when all calls are over that run now and one of which it may
// belong to, and, where none runs or it is about the client itself, when a
// call's time is over.
func (c *conn) begin(ctx context.Context, method string, id json.RawMessage) (context.Context, func(), error) {
	s := &c.serving
	ctx, served, err := s.asked.Begin(ctx, id, maxAsked)
	if err != nil {
		return nil, nil, &jsonrpc.Error{Code: mcp.INTERNAL_ERROR, Message: "too many requests wait for the client"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(c.life, func() { cancel(errCallOver) })
	s.mu.Lock()
	defer s.mu.Unlock()
	var limit *time.Timer
	if len(s.calls) == 0 || method == methodRoots {
		limit = time.AfterFunc(c.patience, func() { cancel(errCallOver) })
	} else {
		calls := make([]*flight, 0, len(s.calls))
		for f := range s.calls {
			calls = append(calls, f)
		}
		go func() {
			for _, f := range calls {
				select {
				case <-f.over:
				case <-ctx.Done():
					return
				}
			}
			cancel(errCallOver)
		}()
	}
	return ctx, func() {
		release()
		if limit != nil {
			limit.Stop()
		}
		cancel(nil)
		served()
	}, nil
}

// takeBack ends a question that the server does not want to be answered.
func (c *conn) takeBack(params []byte) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.serving.asked.Cancel(p.ID, errTakenBack)
}

// ask asks the client. It ends with ctx, whatever the client does.
func (c *conn) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	type outcome struct {
		result json.RawMessage
		err    error
	}
	defer c.waiting(ctx)()
	ch := make(chan outcome, 1)
	go func() {
		var said outcome
		defer func() { ch <- said }()
		defer core.Recover(c.log, "a client was asked", func(err *core.Error) { said.err = err }, "server", c.name)
		said.result, said.err = c.own.Ask(ctx, method, params)
	}()
	var got outcome
	select {
	case got = <-ch:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	var rpc *jsonrpc.Error
	switch {
	case got.err == nil && json.Valid(got.result):
		return got.result, nil
	case got.err == nil:
		return nil, &jsonrpc.Error{Code: mcp.INTERNAL_ERROR, Message: "the client's answer is not JSON"}
	case errors.As(got.err, &rpc):
		return nil, rpc
	case ctx.Err() != nil:
		return nil, &jsonrpc.Error{Code: mcp.REQUEST_INTERRUPTED, Message: "the client did not answer: " + plain(context.Cause(ctx)).Error()}
	}
	return nil, &jsonrpc.Error{Code: mcp.INTERNAL_ERROR, Message: "the client cannot be asked: " + core.Visible(got.err.Error(), 500, false)}
}

// responseTo is the response to a request with this id.
func responseTo(id, result json.RawMessage, err error) []byte {
	if err == nil {
		return (&jsonrpc.Response{ID: id, Result: result}).Encode()
	}
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		rpc = &jsonrpc.Error{Code: mcp.INTERNAL_ERROR, Message: err.Error()}
	}
	return (&jsonrpc.Response{ID: id, Error: rpc}).Encode()
}

// notify handles what the server says unasked, in the stream of a request or,
// where during is nil, of none. It runs on the reader.
func (c *conn) notify(during *flight, method string, params []byte) {
	switch method {
	case string(mcp.MethodNotificationToolsListChanged):
		c.toolsChanged()
	case "notifications/progress":
		c.progress(params)
		return
	case string(mcp.MethodNotificationCancelled):
		c.takeBack(params)
		return
	case methodMessage:
		if c.log.Enabled(context.Background(), slog.LevelDebug) {
			c.log.Debug("server log", "server", c.name, "data", core.Visible(string(params), 2000, true))
		}
	case string(mcp.MethodNotificationResourcesListChanged), string(mcp.MethodNotificationPromptsListChanged),
		methodResourceNew, "notifications/elicitation/complete":
	default:
		return
	}
	if c.tell != nil {
		c.tell(during, method, params)
	}
}

func (c *conn) toolsChanged() {
	c.mu.Lock()
	c.tools = nil
	c.version++
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // somebody is about to be told
	}
}

func (c *conn) progress(params []byte) {
	var p struct {
		Token   json.RawMessage `json:"progressToken"`
		Done    float64         `json:"progress"`
		Total   float64         `json:"total"`
		Message string          `json:"message"`
	}
	_ = json.Unmarshal(params, &p) // what has another type than it should is left out
	var token string
	_ = json.Unmarshal(p.Token, &token)
	v, ok := c.sinks.Load(token)
	if !ok {
		return
	}
	s := v.(*sink)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.f(p.Message, p.Done, p.Total)
	}
}
