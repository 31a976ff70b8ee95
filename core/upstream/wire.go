package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// wire is the way to a server.
type wire interface {
	// trip sends a request and returns the response to it. What else is known of
	// how that went it notes in the answer.
	trip(ctx context.Context, req request, a *answer) (*jsonrpc.Message, error)
	// tell sends a message that is not answered.
	tell(ctx context.Context, message any) error
	// speak sets the revision that goes with all that is sent.
	speak(version string)
	close() error
}

// request is a request to a server; over HTTP the header goes with it.
type request struct {
	jsonrpc.Request
	header http.Header
	// before is asked by the wire when nothing is left to do but to write: its error
	// keeps the request from being sent. nil: nobody is asked.
	before func() error
}

// mayGo asks whether the request is to be written, which the answer keeps.
func (r *request) mayGo(a *answer) error {
	if r.before == nil {
		return nil
	}
	a.held = r.before()
	return a.held
}

// newRequest is a request with an id that no other of the connection has.
func (c *conn) newRequest(method string, params any) request {
	return request{Request: jsonrpc.Request{Version: jsonrpc.Version, ID: c.nextID(), Method: method, Params: params}}
}

func (c *conn) nextID() json.RawMessage { return strconv.AppendInt(nil, c.ids.Add(1), 10) }

// starts reports whether a request begins a connection.
func (r request) starts() bool {
	return r.Method == string(mcp.MethodInitialize) || r.Method == string(mcp.MethodServerDiscover)
}

// tells is a message to a server that is not answered.
func tells(method string, params any) jsonrpc.Request {
	return jsonrpc.Request{Version: jsonrpc.Version, Method: method, Params: params}
}

// takesBack tells a server that nobody waits for its response any more.
func takesBack(req request) jsonrpc.Request {
	return tells(string(mcp.MethodNotificationCancelled), map[string]any{"requestId": req.ID, "reason": "the caller has given up"})
}

// mismatch returns an error unless m is a response to the request.
func mismatch(req request, m *jsonrpc.Message) error {
	switch {
	case m.Failed() && !m.IsRequest():
		return nil // it could not read the request's id
	case !m.Failed() && m.Result == nil:
		return &answerError{text: "it answers with neither a result nor an error"}
	case !jsonrpc.SameID(m.ID, req.ID):
		return &answerError{text: "it answers to another request than the one it was sent"}
	}
	return nil
}

// library is what mcp-go's client has of a connection: it agrees on a revision
// over it, and sends nothing else.
type library struct{ c *conn }

var _ transport.HTTPConnection = library{}

// Start implements transport.Interface.
func (library) Start(context.Context) error { return nil }

// Close implements transport.Interface: the connection is closed by itself.
func (library) Close() error { return nil }

// GetSessionId implements transport.Interface.
func (library) GetSessionId() string { return "" }

// SetNotificationHandler implements transport.Interface: the connection handles
// them.
func (library) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// SetProtocolVersion implements transport.HTTPConnection.
func (l library) SetProtocolVersion(version string) { l.c.wire.speak(version) }

// SendRequest implements transport.Interface. The request gets another id: each
// client of mcp-go numbers its own anew.
func (l library) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	own := l.c.newRequest(req.Method, req.Params)
	own.header = req.Header
	m, err := l.c.exchange(ctx, own, &answer{})
	if err != nil {
		return nil, err
	}
	resp := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: req.ID, Result: m.Result}
	if e := m.Err(); e != nil {
		resp.Error = &mcp.JSONRPCErrorDetails{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			resp.Error.Data = e.Data
		}
	}
	return resp, nil
}

// SendNotification implements transport.Interface.
func (l library) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	return l.c.wire.tell(ctx, n)
}
