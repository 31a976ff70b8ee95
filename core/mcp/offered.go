package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// gateway is what upstream servers offer to a caller, nil for nothing.
func (e *Edge) gateway(ctx context.Context) (Gateway, api.Scope, error) {
	if e.o.Gateway == nil {
		return nil, api.Scope{}, nil
	}
	scope, ok := e.scope(ctx)
	if !ok {
		return nil, scope, core.Errorf(core.CodePermissionDenied, "nobody is known to be calling")
	}
	gw, err := e.o.Gateway(scope)
	return gw, scope, err
}

// offered answers a call of a tool that is not pml's own. mcp-go is not asked:
// what a server sends passes as it is.
func (e *Edge) offered(ctx context.Context, m *message, c *call) any {
	gw, scope, err := e.gateway(ctx)
	if gw == nil && err == nil {
		return e.unknownTool(m.ID, c.name)
	}
	c.by = scope.By
	var result api.OfferedResult
	var input *inputRequired
	switch {
	case err != nil:
	case c.modern && len(c.state) > 0:
		return e.retried(ctx, m, c)
	case c.modern && len(c.responses) > 0:
		c.backend, c.by, _ = e.backend(ctx) // without one it is in the log only
		_ = e.unadmitted(ctx, c, core.Errorf(core.CodePermissionDenied, "inputResponses came without the requestState that they answer; nothing was done"))
		return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID, Error: *c.refusal}
	default:
		result, input, err = e.through(ctx, gw, m, c)
	}
	return e.passed(ctx, m, c, result, input, err)
}

// through makes a call of an offered tool.
func (e *Edge) through(ctx context.Context, gw Gateway, m *message, c *call) (api.OfferedResult, *inputRequired, error) {
	oc := api.OfferedCall{Name: c.name, Args: c.args, Meta: m.Params.Meta.passed(), By: c.by}
	if len(c.token) > 0 {
		oc.Progress = func(message string, done, total float64) { passProgress(c.out, c.token, message, done, total) }
	}
	if c.modern {
		if len(c.can.servers) > 0 {
			if p, done := e.peers.lease(gw, c.session.holder, c.can); p != nil {
				oc.Peer = &p.seen
				h, err := e.hold(ctx, c, p, done, oc)
				if err != nil {
					done()
					return api.OfferedResult{}, nil, err
				}
				return e.attend(ctx, c, h)
			}
		}
		p := newPeer(gw, "alone", abilities{})
		p.begin(&offering{out: c.out, logs: c.level})
		oc.Peer = &p.seen
		result, err := gw.Call(ctx, oc)
		return result, nil, err
	}
	p := c.session.peerOf(gw)
	o := &offering{out: c.out, logs: 1} // the level was set at the server
	o.ask = func(asks context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		asks, cancel := context.WithCancel(asks)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return c.session.ask(asks, c.out, method, orNothing(params))
	}
	p.begin(o)
	defer p.end(o)
	oc.Peer = &p.seen
	result, err := gw.Call(ctx, oc)
	return result, nil, err
}

// retried takes up a call of an offered tool that was answered with a question:
// of its server, or about whether it may be made.
func (e *Edge) retried(ctx context.Context, m *message, c *call) any {
	st, err := e.unsealed(text(c.state))
	if err == nil && st.Held == "" {
		if c.backend, c.by, err = e.backend(ctx); err != nil {
			return e.passed(ctx, m, c, api.OfferedResult{}, nil, err)
		}
		value, err := e.resume(ctx, c)
		return e.decidedOn(m, c, value, err)
	}
	if err == nil {
		st, err = e.admitted(text(c.state), c.digest(), c.session.holder)
	}
	if err != nil {
		if c.backend == nil {
			c.backend, c.by, _ = e.backend(ctx) // without one it is in the log only
		}
		_ = e.unadmitted(ctx, c, err)
		return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID, Error: *c.refusal}
	}
	result, input, err := e.answered(ctx, c, st)
	return e.passed(ctx, m, c, result, input, err)
}

// passed is the answer to a call of an offered tool.
func (e *Edge) passed(ctx context.Context, m *message, c *call, result api.OfferedResult, input *inputRequired, err error) any {
	var said *api.PeerError
	switch {
	case errors.As(err, &said):
		return peerError(m.ID, said)
	case core.CodeOf(err) == core.CodeNoSuchTool:
		return refused(m.ID, mcp.INVALID_PARAMS, core.Visible(core.AsError(err).Message, 2000, false))
	case err != nil:
		return e.decidedOn(m, c, nil, err)
	case input != nil:
		return e.decidedOn(m, c, *input, nil)
	case result.Paused == nil:
		return e.result(m, c, result.Raw)
	}
	if c.backend, c.by, err = e.backend(ctx); err != nil {
		return e.decidedOn(m, c, nil, err)
	}
	started := make(chan core.ID, 1)
	started <- result.Paused.WorkflowID
	stop := e.accompany(ctx, c, started)
	value, err := paused{e: e, c: c, p: patience{limit: -1}, done: api.StatusSuccess}.put(ctx, *result.Paused)
	stop()
	return e.decidedOn(m, c, value, err)
}

// decidedOn is the answer to a call of an offered tool that was not plainly
// made: the server's result if there is one, else how the run stands.
func (e *Edge) decidedOn(m *message, c *call, value any, err error) any {
	if c.refusal != nil {
		return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID, Error: *c.refusal}
	}
	if input, ok := value.(inputRequired); ok && err == nil {
		answer, err := input.answer(m.ID, e.info)
		if err != nil {
			return refused(m.ID, mcp.INTERNAL_ERROR, err.Error())
		}
		return answer
	}
	if r, ok := value.(api.Result); ok && err == nil {
		if raw, ok := api.OfferedRaw(r.Result); ok && (r.Status == api.StatusSuccess || r.Status == api.StatusComplete) {
			return e.result(m, c, raw)
		}
	}
	var shownAs *mcp.CallToolResult
	if err != nil {
		shownAs, err = failed(err)
	} else {
		shownAs, err = shown(value)
	}
	if err != nil {
		return refused(m.ID, mcp.INTERNAL_ERROR, err.Error())
	}
	// What stands here is not of the shape that the tool's schema promises.
	shownAs.StructuredContent, shownAs.IsError = nil, true
	raw, err := encoded(shownAs)
	if err != nil {
		return refused(m.ID, mcp.INTERNAL_ERROR, err.Error())
	}
	return e.result(m, c, raw)
}

// result is the answer with a server's result.
func (e *Edge) result(m *message, c *call, raw json.RawMessage) any {
	whole, err := complete(c, raw)
	if err != nil {
		r := refused(m.ID, mcp.INTERNAL_ERROR, err.Error())
		r.Error.Data = map[string]any{"error_code": core.CodeOf(err)}
		return r
	}
	return &rawAnswer{id: m.ID, result: whole}
}

// complete is a server's result for a client: one of a revision without sessions
// gets the type of the result, where the server has not said it. What is no
// complete result does not pass: only pml asks a client for input, for what it
// has declared.
func complete(c *call, raw json.RawMessage) (json.RawMessage, error) {
	body, ok := bytes.CutPrefix(bytes.TrimSpace(raw), []byte("{"))
	if !c.modern || !ok {
		return raw, nil
	}
	typed, err := saysComplete(raw)
	if err != nil || typed {
		return raw, err
	}
	head := `{"resultType":"complete"`
	if body = bytes.TrimLeft(body, " \t\r\n"); len(body) > 0 && body[0] != '}' {
		head += ","
	}
	return append([]byte(head), body...), nil
}

// saysComplete reports whether an object says that it is a complete result. One
// that says something else, or can be read in more than one way, is an error.
func saysComplete(raw json.RawMessage) (bool, error) {
	const member = "resultType"
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, err := dec.Token() // {
	said := false
	for err == nil && dec.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = dec.Token(); err == nil {
			err = dec.Decode(&value)
		}
		key, _ := name.(string)
		if err != nil || !strings.EqualFold(key, member) {
			continue
		}
		var kind string
		if said || key != member || json.Unmarshal(value, &kind) != nil || kind != "complete" {
			return false, core.Errorf(core.CodeServerUnreachable, "the server's result is not one that is complete, so it was not passed on")
		}
		said = true
	}
	if err != nil {
		return false, core.Errorf(core.CodeServerUnreachable, "the server's result cannot be read: %w", err)
	}
	return said, nil
}

// peerError is an error of a server as it was sent.
func peerError(id json.RawMessage, said *api.PeerError) *reply {
	r := &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: replyError{Code: said.Code, Message: said.Message}}
	if len(said.Data) > 0 {
		r.Error.Data = said.Data
	}
	return r
}

// passProgress passes on what a server says of its progress.
func passProgress(out *stream, token json.RawMessage, message string, done, total float64) {
	if out == nil {
		return
	}
	out.notify(string(mcp.MethodNotificationProgress), passedProgress{Token: token, Progress: done, Total: total, Message: message})
}

type passedProgress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    float64         `json:"total,omitempty"`
	Message  string          `json:"message,omitempty"`
}
