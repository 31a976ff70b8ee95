package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	methodSubscribe   = string(mcp.MethodResourcesSubscribe)
	methodUnsubscribe = string(mcp.MethodResourcesUnsubscribe)
	methodSetLevel    = string(mcp.MethodSetLogLevel)
	methodComplete    = string(mcp.MethodCompletionComplete)
)

// forwarded names for each method that is passed on the capability of the
// server that it needs.
var forwarded = map[string]string{
	string(mcp.MethodResourcesList):          "resources",
	string(mcp.MethodResourcesTemplatesList): "resources",
	string(mcp.MethodResourcesRead):          "resources",
	methodSubscribe:                          "resources",
	methodUnsubscribe:                        "resources",
	string(mcp.MethodPromptsList):            "prompts",
	string(mcp.MethodPromptsGet):             "prompts",
	methodComplete:                           "completions",
	methodSetLevel:                           "logging",
}

// Forward sends a request of a client to a server, starting it when it must, and
// returns the result as the server sent it: resources/*, prompts/*,
// completion/complete and logging/setLevel. An error of the server itself is a
// *jsonrpc.Error, and so is that it lacks the capability, which it is not asked;
// others are as for Call. That a client's roots have changed goes to the
// connection that it has of its own, if that runs, and has no result.
func (m *Manager) Forward(ctx context.Context, l Launch, method string, params json.RawMessage) (json.RawMessage, error) {
	if method == mcp.MethodNotificationRootsListChanged {
		return nil, m.rootsChanged(ctx, l)
	}
	if _, ok := forwarded[method]; !ok {
		return nil, notOffers(method)
	}
	if _, ok := m.local(l); ok {
		return nil, notOffers(method)
	}
	fields, err := paramsOf(params)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		result, sent, err := m.forwardOnce(ctx, l, method, fields)
		if err == nil || sent || try == 1 {
			return result, err
		}
	}
}

func (m *Manager) rootsChanged(ctx context.Context, l Launch) error {
	m.mu.Lock()
	s := m.servers[keyOf(l)]
	var c *conn
	if s != nil && s.conn != nil && s.conn.own != nil && s.conn.declared["roots"] != nil {
		c = s.conn
	}
	m.mu.Unlock()
	if c == nil || c.modern {
		return nil // it will ask when it wants to know
	}
	if err := c.wire.tell(ctx, tells(mcp.MethodNotificationRootsListChanged, nil)); err != nil {
		return core.Errorf(core.CodeServerUnreachable, "server %q was not told that the roots have changed: %s", l.Name, core.Visible(plain(err).Error(), 2000, true))
	}
	return nil
}

func notOffers(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.METHOD_NOT_FOUND, Message: "Method not found: " + core.Visible(method, 100, false)}
}

// paramsOf are the members of params, without what tells of the connection that
// they came over.
func paramsOf(params json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(orNone(params)) > 0 && json.Unmarshal(params, &fields) != nil {
		return nil, &jsonrpc.Error{Code: mcp.INVALID_PARAMS, Message: "the params must be an object"}
	}
	if fields["_meta"] == nil {
		return fields, nil
	}
	meta, err := cleanMeta(fields["_meta"])
	if err != nil {
		return nil, &jsonrpc.Error{Code: mcp.INVALID_PARAMS, Message: "_meta must be an object"}
	}
	if delete(fields, "_meta"); len(meta) > 0 {
		fields["_meta"], err = json.Marshal(meta)
	}
	return fields, err
}

// forwardOnce makes the request on the connection that lives now. sent is false
// when the connection turned out to be gone before anything was sent.
func (m *Manager) forwardOnce(ctx context.Context, l Launch, method string, fields map[string]json.RawMessage) (result json.RawMessage, sent bool, err error) {
	s, c, err := m.acquire(ctx, l, 0)
	if err != nil {
		return nil, true, err
	}
	defer m.release(s)
	if !c.capabilities.serve(method) {
		return nil, true, notOffers(method)
	}
	leave, ok := m.place(ctx, s, l, nil)
	if !ok {
		return nil, true, cancelled(ctx, method+" of "+l.Name)
	}
	defer leave()
	if m.answersHere(s, c, l, method, fields) {
		return json.RawMessage("{}"), true, nil
	}
	callCtx, quiet, stop := bounded(ctx, m.limits.Call, 0, nil)
	defer stop()
	callCtx, done := c.fly(callCtx, quiet, ownerOf(l), l.Peer)
	defer done()
	a, err := c.request(callCtx, method, fields)
	name := l.Name + ":" + method
	switch {
	case a.rpc != nil && a.rpc.Code == jsonrpc.CodeOverlong, len(a.raw) > l.resultBytes(m.limits):
		m.answered(s)
		return nil, true, tooLarge(name, l.resultBytes(m.limits))
	case a.rpc != nil:
		m.answered(s)
		return nil, true, a.rpc
	case a.raw != nil && wantsInput(a.raw):
		return nil, true, core.Errorf(core.CodeToolFailed, "%s asks for input, and nobody can be asked", name)
	case a.raw != nil:
		m.answered(s)
		m.subscribed(s, l, method, fields)
		return a.raw, true, nil
	case a.unsent && callCtx.Err() == nil:
		err = c.broken(a, err, "answering "+method)
		c.lose(endedItself)
		return nil, false, err
	}
	return nil, true, m.unanswered(ctx, callCtx, c, Request{Launch: l, Tool: method, Timeout: m.limits.Call}, a, err)
}

// serve reports whether the server has what a method is about. Before the
// revision 2025-03-26 completions were not declared.
func (c Capabilities) serve(method string) bool {
	switch method {
	case methodComplete:
		return c.has["completions"] != nil || c.Protocol == mcp.ProtocolVersion20241105
	case methodSubscribe, methodUnsubscribe:
		return c.flag("resources", "subscribe")
	}
	return c.has[forwarded[method]] != nil
}

// request sends a request of a client, or of pml itself.
func (c *conn) request(ctx context.Context, method string, fields map[string]json.RawMessage) (*answer, error) {
	req := c.newRequest(method, nil)
	if c.modern || fields["_meta"] != nil {
		var err error
		if fields, err = c.withMeta(fields); err != nil {
			return &answer{}, err
		}
	}
	if c.modern {
		text, err := json.Marshal(fields)
		if err != nil {
			return &answer{}, err
		}
		req.header = http.Header{}
		for name, value := range mcp.StandardHeaders(c.protocol, mcp.MCPMethod(method), text) {
			req.header.Set(name, value)
		}
	}
	if len(fields) > 0 {
		req.Params = fields
	}
	return c.sendOwn(ctx, req)
}

// withMeta is a request with the _meta that the server's revision has, see callMeta.
func (c *conn) withMeta(fields map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	var given map[string]json.RawMessage
	if raw := fields["_meta"]; raw != nil {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, err
		}
	}
	meta, err := c.callMeta(given, "")
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	if delete(out, "_meta"); len(meta) > 0 {
		out["_meta"] = meta
	}
	return out, err
}

// cleanMeta is the _meta of a client's request without what tells of its own
// connection to pml. The level of the log that the request wants stays: callMeta.
func cleanMeta[M ~[]byte](meta M) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if len(orNone(json.RawMessage(meta))) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(meta, &fields); err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "the _meta of a call must be one JSON object: %w", err)
	}
	for _, name := range []string{
		"progressToken", mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeySubscriptionID,
	} {
		delete(fields, name)
	}
	return fields, nil
}

// inputFailed is why the input that a server asked for could not be had.
func inputFailed(err error) error {
	if failed, ok := errors.AsType[*inputError](err); ok {
		return failed.err
	}
	return nil
}
