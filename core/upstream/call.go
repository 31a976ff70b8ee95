package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// Call calls a tool, starting its server when it must, and returns the value
// of its result. It returns as soon as ctx ends, having told the server.
//
// Errors: core.CodeToolFailed (the tool said so: its text), CodeToolTimeout,
// CodeServerUnreachable (it did not start, or stopped during the call: then
// the call may have had its effect), CodeCancelled (wraps the context's
// cause), CodeResultTooLarge, CodeInvalidArguments, CodeNoSuchTool, CodeAuth.
// One of a call of which nothing was written to its server says so (NotMade).
// A JSON-RPC error of the server itself is wrapped as a *jsonrpc.Error; beside the
// error of a tool that failed the Response has its Raw result.
// A call is never sent twice, and never to another edition than it names; only
// one that asks for input is sent again with it, when there is a Peer to ask.
func (m *Manager) Call(ctx context.Context, req Request) (Response, error) {
	args, err := objectArgs(req.Args)
	if err != nil {
		return Response{}, err
	}
	req.Args = args
	meta, err := cleanMeta(req.Meta)
	if err != nil {
		return Response{}, err
	}
	if req.Timeout == 0 {
		req.Timeout = m.limits.Call
	}
	if local, ok := m.local(req.Launch); ok {
		return m.callLocal(ctx, local, req)
	}
	for try := 0; ; try++ {
		resp, sent, err := m.callOnce(ctx, req, meta)
		if err == nil || sent || try == 1 {
			return resp, err
		}
	}
}

// objectArgs checks that arguments are an object; none are an empty one.
func objectArgs(args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 {
		return json.RawMessage("{}"), nil
	}
	if args[0] != '{' || !json.Valid(args) {
		return nil, core.Errorf(core.CodeInvalidArguments, "the arguments of a tool must be one JSON object, not %s", core.Visible(string(args), 60, false))
	}
	return args, nil
}

// mayBeSent asks whether the call is to be sent after all.
func (r *Request) mayBeSent(ctx context.Context) error {
	if r.Before == nil {
		return nil
	}
	if err := r.Before(ctx); err != nil {
		return core.AsError(err).WithNotMade()
	}
	return nil
}

// callOnce makes the call on the connection that lives now. sent is false when
// the connection turned out to be gone before anything was sent.
func (m *Manager) callOnce(ctx context.Context, req Request, meta map[string]json.RawMessage) (resp Response, sent bool, err error) {
	s, c, err := m.acquire(ctx, req.Launch, req.Edition)
	if err != nil {
		return Response{}, true, core.AsError(err).WithNotMade()
	}
	defer m.release(s)
	name := req.Launch.Name + ":" + req.Tool
	leave, ok := m.place(ctx, s, req.Launch, req.Queued)
	if !ok {
		return Response{}, true, cancelled(ctx, "the call of "+name).WithNotMade()
	}
	defer leave()
	callCtx, quiet, stop := bounded(ctx, req.Timeout, req.Total, req.Alive)
	defer stop()
	callCtx, done := c.fly(callCtx, quiet, req.Owner, req.Launch.Peer)
	defer done()
	if told := req.Progress; told != nil {
		req.Progress = func(message string, done, total float64) {
			quiet.sign()
			told(message, done, total)
		}
	}
	a, err := c.send(callCtx, req, meta)
	if a.held != nil {
		return Response{}, true, a.held
	}
	if a.raw != nil {
		m.answered(s)
		if len(a.raw) > req.Launch.resultBytes(m.limits) {
			return Response{}, true, tooLarge(name, req.Launch.resultBytes(m.limits))
		}
		value, err := NormalizeResult(a.raw)
		if err != nil {
			// Some servers answer an unknown tool with a failed result.
			if unknown := noSuchTool(c.name, req.Tool, c.cachedTools()); unknown != nil {
				err = core.Errorf(core.CodeNoSuchTool, "%s; it said: %s", unknown, err)
			}
		}
		return Response{Value: value, Raw: a.raw}, true, err
	}
	if a.rpc != nil {
		m.answered(s)
		return Response{}, true, m.refused(callCtx, c, req, a.rpc)
	}
	if a.unsent && callCtx.Err() == nil {
		err = c.broken(a, err, "calling "+req.Tool)
		c.lose(endedItself)
		return Response{}, false, core.AsError(err).WithNotMade()
	}
	failure := m.unanswered(ctx, callCtx, c, req, a, err)
	if a.notMade() {
		failure = core.AsError(failure).WithNotMade()
	}
	if c.proc == nil && core.CodeOf(failure) == core.CodeServerUnreachable && m.alone(s) {
		m.abandon(s, c, failure) // nobody else is harmed
	}
	return Response{}, true, failure
}

func tooLarge(tool string, limit int) error {
	return core.Errorf(core.CodeResultTooLarge, "the result of %s is longer than %d bytes: ask for less, or raise limits.result_bytes", tool, limit)
}

// refused maps a JSON-RPC error, and wraps it.
func (m *Manager) refused(ctx context.Context, c *conn, req Request, e *jsonrpc.Error) error {
	name := req.Launch.Name + ":" + req.Tool
	if e.Code == jsonrpc.CodeOverlong { // ours
		return tooLarge(name, req.Launch.resultBytes(m.limits))
	}
	return as(m.worded(ctx, c, req, e), e)
}

// worded says what a JSON-RPC error means.
func (m *Manager) worded(ctx context.Context, c *conn, req Request, e *jsonrpc.Error) error {
	name := req.Launch.Name + ":" + req.Tool
	if e.Code == mcp.INVALID_PARAMS || e.Code == mcp.METHOD_NOT_FOUND {
		if err := m.unknownTool(ctx, c, req); err != nil {
			return err
		}
	}
	code := core.CodeToolFailed
	if e.Code == mcp.INVALID_PARAMS {
		code = core.CodeInvalidArguments
	}
	return core.Errorf(code, "%s: %s", name, cut(e.Message))
}

// unknownTool returns an error when the server does not list the tool.
func (m *Manager) unknownTool(ctx context.Context, c *conn, req Request) error {
	tools, err := c.listTools(ctx, m.limits.Call)
	if err != nil {
		return nil // the server's own words are better than this failure
	}
	return noSuchTool(req.Launch.Name, req.Tool, tools.tools)
}

// noSuchTool returns an error unless the tool is in the list. An empty list
// says nothing.
func noSuchTool(server, tool string, tools []core.Tool) error {
	if len(tools) == 0 {
		return nil
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		if t.Name == tool {
			return nil
		}
		names[i] = t.Name
	}
	return core.Errorf(core.CodeNoSuchTool, "server %q has no tool %q%s", server, tool, core.Suggest(tool, names))
}

// unanswered says why no answer came: the caller gave up, time ran out, or the
// connection broke.
func (m *Manager) unanswered(ctx, callCtx context.Context, c *conn, req Request, a *answer, err error) error {
	name := req.Launch.Name + ":" + req.Tool
	switch {
	case m.stopping():
		return errStopping(c.name)
	case ctx.Err() != nil:
		return cancelled(ctx, "the call of "+name)
	case a.tooLong:
		return tooLarge(name, req.Launch.resultBytes(m.limits))
	case callCtx.Err() != nil:
		return timedOut(callCtx, name, req)
	case inputFailed(err) != nil:
		return core.Errorf(core.CodeToolFailed, "%s asks for input: %w", name, inputFailed(err))
	case wantedInput(err):
		return core.Errorf(core.CodeToolFailed, "%s asks for input, which a tool called by a run cannot get: %w", name, err)
	}
	return c.broken(a, err, "calling "+req.Tool)
}

func timedOut(ctx context.Context, name string, req Request) error {
	if errors.Is(context.Cause(ctx), errTotal) {
		return core.Errorf(core.CodeToolTimeout, "%s took longer than %s in all (limits.call_total); it was told to stop, and may have had its effect", name, req.Total)
	}
	return core.Errorf(core.CodeToolTimeout, "%s did not answer within %s, nor tell of progress (limits.call_timeout); it was told to stop, and may have had its effect", name, req.Timeout)
}

// local is a server inside this binary.
type local struct{ LocalServer }

func (m *Manager) local(l Launch) (local, bool) {
	if l.Command != "" || l.URL != "" {
		return local{}, false
	}
	s, ok := m.opts.Local[l.Name]
	return local{s}, ok
}

// tools names the server in each tool, whatever the server says.
func (l local) tools(name string) []core.Tool {
	tools := append([]core.Tool{}, l.Tools()...)
	for i := range tools {
		tools[i].Server = name
	}
	return tools
}

func (m *Manager) callLocal(ctx context.Context, l local, req Request) (Response, error) {
	name := req.Launch.Name + ":" + req.Tool
	if m.stopping() {
		return Response{}, errStopping(req.Launch.Name).WithNotMade()
	}
	if err := noSuchTool(req.Launch.Name, req.Tool, l.Tools()); err != nil {
		return Response{}, err
	}
	callCtx, _, stop := bounded(ctx, req.Timeout, req.Total, nil)
	defer stop()
	if err := req.mayBeSent(callCtx); err != nil {
		return Response{}, err
	}
	value, err := l.LocalServer.Call(callCtx, req.Launch.Workspace, req.Tool, req.Args)
	var coded *core.Error
	switch {
	case err == nil && len(value) > req.Launch.resultBytes(m.limits):
		return Response{}, tooLarge(name, req.Launch.resultBytes(m.limits))
	case err == nil:
		return Response{Value: value, Raw: value}, nil
	case ctx.Err() != nil:
		return Response{}, cancelled(ctx, "the call of "+name)
	case callCtx.Err() != nil:
		return Response{}, timedOut(callCtx, name, req)
	case errors.As(err, &coded):
		return Response{}, coded
	}
	return Response{}, core.Errorf(core.CodeToolFailed, "%s: %w", name, err)
}

// wantedInput reports whether a call ended because there is nobody to ask.
func wantedInput(err error) bool { return errors.Is(err, errNobodyToAsk) }

// cut bounds a server's text for an error message.
func cut(s string) string {
	const most = 16 << 10
	if len(s) <= most {
		return s
	}
	return s[:most] + fmt.Sprintf("… (%d more bytes)", len(s)-most)
}
