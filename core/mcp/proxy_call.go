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
	"github.com/casys-ai/pml/core/jsonrpc"
)

// gateway is what upstream servers offer to a caller, nil for nothing.
func (e *Edge) gateway(ctx context.Context) (Proxy, api.Scope, error) {
	if e.o.Proxy == nil {
		return nil, api.Scope{}, nil
	}
	scope, ok := e.scope(ctx)
	if !ok {
		return nil, scope, core.Errorf(core.CodePermissionDenied, "nobody is known to be calling")
	}
	gw, err := e.o.Proxy(scope)
	return gw, scope, err
}

// proxied is a request that servers behind pml answer, or may.
type proxied struct {
	e *Edge
	m *message
	c *call
}

// offered answers a call of a tool that is not pml's own. mcp-go is not asked:
// what a server sends passes as it is.
func (q *proxied) offered(ctx context.Context) *jsonrpc.Response {
	gw, scope, err := q.e.gateway(ctx)
	if gw == nil && err == nil {
		return q.e.unknownTool(q.m.ID, q.c.name)
	}
	q.c.by = scope.By
	q.c.by.Client = q.c.agent
	var result api.OfferedResult
	var input *inputRequired
	switch {
	case err != nil:
	case q.c.modern && len(q.c.state) > 0:
		return q.retried(ctx)
	default:
		result, input, err = q.through(ctx, gw)
	}
	return q.passed(ctx, result, input, err)
}

// through makes a call of an offered tool.
func (q *proxied) through(ctx context.Context, gw Proxy) (api.OfferedResult, *inputRequired, error) {
	oc := api.OfferedCall{Name: q.c.name, Args: q.c.args, Meta: q.m.Params.Meta.passed(), By: q.c.by}
	if q.c.modern && len(q.c.can.servers) > 0 {
		end, input := q.e.held.leased(ctx, gw, q.c, func(ctx context.Context, h *heldCall, p *api.Peer) heldEnd {
			oc := oc
			oc.Peer = p
			if token := q.c.token; len(token) > 0 {
				oc.Progress = func(message string, done, total float64) { passProgress(h.out.Load(), token, message, done, total) }
			}
			result, err := gw.Call(ctx, oc)
			return heldEnd{result: result, ours: true, err: err}
		})
		return end.result, input, end.err
	}
	if len(q.c.token) > 0 {
		oc.Progress = func(message string, done, total float64) { passProgress(q.c.out, q.c.token, message, done, total) }
	}
	if q.c.modern {
		p := newPeer(gw, "alone", abilities{})
		p.begin(&offering{out: q.c.out, logs: q.c.level})
		oc.Peer = &p.seen
		result, err := gw.Call(ctx, oc)
		return result, nil, err
	}
	p := q.c.session.peerOf(gw)
	o := p.offer(ctx, q.c)
	p.begin(o)
	defer p.end(o)
	oc.Peer = &p.seen
	result, err := gw.Call(o.of(ctx), oc)
	return result, nil, err
}

// retried takes up a call of an offered tool that was answered with a question:
// of its server, or about whether it may be made.
func (q *proxied) retried(ctx context.Context) *jsonrpc.Response {
	st, err := q.e.states.unsealed(text(q.c.state))
	if err == nil && st.Held == "" {
		if err = q.e.admitCaller(ctx, q.c); err != nil {
			return q.passed(ctx, api.OfferedResult{}, nil, err)
		}
		value, err := q.e.resume(ctx, q.c)
		return q.decidedOn(value, err)
	}
	if err == nil {
		st, err = q.e.states.admitted(text(q.c.state), q.c.digest(), q.c.session.holder)
	}
	if err != nil {
		if q.c.backend == nil {
			_ = q.e.admitCaller(ctx, q.c) // without one it is in the log only
		}
		_ = q.e.unadmitted(ctx, q.c, err)
		return &jsonrpc.Response{ID: q.m.ID, Error: q.c.refusal}
	}
	end, input := q.e.held.answered(ctx, q.c, st)
	return q.passed(ctx, end.result, input, end.err)
}

// passed is the answer to a call of an offered tool.
func (q *proxied) passed(ctx context.Context, result api.OfferedResult, input *inputRequired, err error) *jsonrpc.Response {
	var said *api.PeerError
	switch {
	case errors.As(err, &said):
		return peerError(q.m.ID, said)
	case core.CodeOf(err) == core.CodeNoSuchTool:
		return jsonrpc.Refuse(q.m.ID, mcp.INVALID_PARAMS, core.Visible(core.AsError(err).Message, 2000, false))
	case err != nil:
		return q.decidedOn(nil, err)
	case input != nil:
		return q.decidedOn(*input, nil)
	case result.Paused == nil:
		return q.result(result.Raw)
	}
	if err = q.e.admitCaller(ctx, q.c); err != nil {
		return q.decidedOn(nil, err)
	}
	started := make(chan core.ID, 1)
	started <- result.Paused.WorkflowID
	stop := q.e.accompany(ctx, q.c, started)
	value, err := paused{e: q.e, c: q.c, p: patience{limit: -1}, done: api.StatusSuccess}.put(ctx, *result.Paused)
	stop()
	return q.decidedOn(value, err)
}

// decidedOn is the answer to a call of an offered tool that was not plainly
// made: the server's result if there is one, else how the run stands.
func (q *proxied) decidedOn(value any, err error) *jsonrpc.Response {
	if q.c.refusal != nil {
		return &jsonrpc.Response{ID: q.m.ID, Error: q.c.refusal}
	}
	if input, ok := value.(inputRequired); ok && err == nil {
		return input.answer(q.m.ID, q.e.info)
	}
	if r, ok := value.(api.Result); ok && err == nil {
		if raw, ok := api.OfferedRaw(r.Result); ok && (r.Status == api.StatusSuccess || r.Status == api.StatusComplete) {
			return q.result(raw)
		}
	}
	var shownAs *mcp.CallToolResult
	if err != nil {
		shownAs, err = failed(err)
	} else {
		shownAs, err = shown(value)
	}
	if err != nil {
		return jsonrpc.Refuse(q.m.ID, mcp.INTERNAL_ERROR, err.Error())
	}
	// What stands here is not of the shape that the tool's schema promises.
	shownAs.StructuredContent, shownAs.IsError = nil, true
	raw, err := encoded(shownAs)
	if err != nil {
		return jsonrpc.Refuse(q.m.ID, mcp.INTERNAL_ERROR, err.Error())
	}
	return q.result(raw)
}

// result is the answer with a server's result.
func (q *proxied) result(raw json.RawMessage) *jsonrpc.Response {
	whole, err := complete(q.c, raw)
	if err != nil {
		return jsonrpc.Refuse(q.m.ID, mcp.INTERNAL_ERROR, err.Error()).With(map[string]any{"error_code": core.CodeOf(err)})
	}
	return &jsonrpc.Response{ID: q.m.ID, Result: whole}
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
func peerError(id json.RawMessage, said *api.PeerError) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: (*jsonrpc.Error)(said)}
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
