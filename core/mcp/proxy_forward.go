package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// aside answers what mcp-go is not asked, or not alone: what upstream servers
// offer, and what pml keeps of a session itself. ok is false for the rest.
func (e *Edge) aside(ctx context.Context, s *session, m *message, c *call) (answer *jsonrpc.Response, ok bool) {
	if v := m.unknownRevision(); v != "" {
		return unsupported(m.ID, v), true
	}
	q := &proxied{e, m, c}
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodToolsCall:
		if _, own := e.tools[c.name]; own {
			break
		}
		if c.name == "" || len(c.name) > maxName || e.o.Proxy == nil {
			return e.unknownTool(m.ID, c.name), true
		}
		return q.offered(ctx), true
	case mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodPromptsList:
		if e.o.Proxy != nil {
			return q.merged(ctx)
		}
	case mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete:
		if e.o.Proxy != nil && !ownRequest(m) {
			return q.forwarded(ctx)
		}
	case mcp.MethodSetLogLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		if !c.modern {
			return q.kept(ctx, s), true
		}
	default:
	}
	return nil, false
}

// kept answers what a session keeps: the level of its log, its subscriptions.
// Servers behind pml get what is theirs.
func (q *proxied) kept(ctx context.Context, s *session) *jsonrpc.Response {
	done := &jsonrpc.Response{ID: q.m.ID, Result: struct{}{}}
	var bad *jsonrpc.Error
	switch mcp.MCPMethod(q.m.Method) {
	case mcp.MethodSetLogLevel:
		if bad = q.e.setLogLevel(s, q.m); bad == nil {
			if _, _, err := q.forward(ctx); err != nil {
				q.e.o.Log.Info("a server behind pml does not take the level of the log", "why", core.Visible(err.Error(), 300, false))
			}
			return done
		}
	case mcp.MethodResourcesSubscribe:
		if q.m.Params.URI == "" {
			bad = &jsonrpc.Error{Code: mcp.INVALID_PARAMS, Message: "uri is required"}
			break
		}
		if !ownURI(q.m.Params.URI) {
			if answer, ours := q.subscribeBehind(ctx, s); ours {
				return answer
			}
		}
		bad = q.e.subscribe(ctx, s, q.m.Params.URI)
	default:
		if !ownURI(q.m.Params.URI) {
			if answer, ours := q.forwarded(ctx); ours {
				if answer.Code() == 0 {
					s.subs.remove(q.m.Params.URI)
				}
				return answer
			}
		}
		s.subs.remove(q.m.Params.URI)
	}
	if bad != nil {
		return &jsonrpc.Response{ID: q.m.ID, Error: bad}
	}
	return done
}

// subscribeBehind subscribes to a resource of a server; ok is false where no
// server has it. It counts as one of the session's own.
func (q *proxied) subscribeBehind(ctx context.Context, s *session) (answer *jsonrpc.Response, ok bool) {
	fresh, err := s.subs.claim(q.m.Params.URI)
	if err != nil {
		return jsonrpc.Refuse(q.m.ID, tooBusy, err.Error()), true
	}
	answer, ok = q.forwarded(ctx)
	if fresh && (!ok || answer.Code() != 0) {
		s.subs.remove(q.m.Params.URI)
	}
	return answer, ok
}

// ownRequest reports whether a request is about a resource or a prompt of pml.
func ownRequest(m *message) bool {
	if m.Method != string(mcp.MethodCompletionComplete) {
		return ownURI(m.Params.URI) || ownPrompt(string(m.Params.Name))
	}
	var in struct {
		Ref struct {
			URI  string `json:"uri"`
			Name string `json:"name"`
		} `json:"ref"`
	}
	return json.Unmarshal(m.Message.Params, &in) != nil || ownURI(in.Ref.URI) || ownPrompt(in.Ref.Name)
}

func ownPrompt(name string) bool { return name == promptReview || name == promptExplain }

// clientOf is who calls as upstream servers see it, for a request that is no
// call of a tool.
func (q *proxied) clientOf(gw Proxy) *api.Peer {
	if q.c.modern {
		p := newPeer(gw, "alone", abilities{})
		p.begin(&offering{out: q.c.out, logs: q.c.level})
		return &p.seen
	}
	return &q.c.session.peerOf(gw).seen
}

func (q *proxied) forward(ctx context.Context) (result json.RawMessage, ours bool, err error) {
	gw, _, err := q.e.gateway(ctx)
	if gw == nil || err != nil {
		return nil, false, err
	}
	return gw.Forward(ctx, q.clientOf(gw), q.m.Method, q.m.Message.Params)
}

// mayAsk are the requests beside calls of tools in the middle of which a server
// may ask its client.
func mayAsk(method string) bool {
	return method == string(mcp.MethodResourcesRead) || method == string(mcp.MethodPromptsGet)
}

// forwardAsking is forward for a request in the middle of which the server may ask.
func (q *proxied) forwardAsking(ctx context.Context) (end heldEnd, input *inputRequired) {
	gw, _, err := q.e.gateway(ctx)
	if gw == nil || err != nil {
		return heldEnd{err: err}, nil
	}
	if !q.c.modern {
		p := q.c.session.peerOf(gw)
		o := p.offer(ctx, q.c)
		p.begin(o)
		defer p.end(o)
		raw, ours, err := gw.Forward(o.of(ctx), &p.seen, q.m.Method, q.m.Message.Params)
		return heldEnd{result: api.OfferedResult{Raw: raw}, ours: ours, err: err}, nil
	}
	params, err := q.c.pass(q.m)
	if err != nil {
		return heldEnd{ours: true, err: err}, nil
	}
	if len(q.c.state) > 0 {
		st, err := q.e.states.admitted(text(q.c.state), q.c.digest(), q.c.session.holder)
		if err == nil && st.Held == "" {
			err = core.Errorf(core.CodePermissionDenied, "the requestState is not that of such a request; nothing was done")
		}
		if err != nil {
			_ = q.e.admitCaller(ctx, q.c) // without one it is in the log only
			_ = q.e.unadmitted(ctx, q.c, err)
			return heldEnd{ours: true}, nil
		}
		return q.e.held.answered(ctx, q.c, st)
	}
	work := func(ctx context.Context, p *api.Peer) heldEnd {
		raw, ours, err := gw.Forward(ctx, p, q.m.Method, params)
		return heldEnd{result: api.OfferedResult{Raw: raw}, ours: ours, err: err}
	}
	if len(q.c.can.servers) == 0 {
		return work(ctx, q.clientOf(gw)), nil
	}
	return q.e.held.leased(ctx, gw, q.c, func(ctx context.Context, _ *heldCall, p *api.Peer) heldEnd { return work(ctx, p) })
}

// pass notes a request that is passed on and returns its params as the server gets
// them.
func (c *call) pass(m *message) (json.RawMessage, error) {
	var params map[string]json.RawMessage
	if err := json.Unmarshal(m.Message.Params, &params); err != nil || params == nil {
		return nil, &api.PeerError{Code: mcp.INVALID_PARAMS, Message: "the params must be an object"}
	}
	for _, name := range []string{"_meta", "inputResponses", "requestState"} {
		delete(params, name)
	}
	var err error
	c.method = m.Method
	if c.passed, err = json.Marshal(params); err != nil {
		return nil, err
	}
	if meta := m.Params.Meta.passed(); len(meta) > 0 {
		params["_meta"] = meta
	}
	return json.Marshal(params)
}

// forwarded answers a request with what the server says that it is about; ok is
// false where it is about none.
func (q *proxied) forwarded(ctx context.Context) (answer *jsonrpc.Response, ok bool) {
	var result json.RawMessage
	var ours bool
	var err error
	if mayAsk(q.m.Method) {
		end, input := q.forwardAsking(ctx)
		if input != nil {
			return q.decidedOn(*input, nil), true
		}
		if q.c.refusal != nil {
			return &jsonrpc.Response{ID: q.m.ID, Error: q.c.refusal}, true
		}
		result, ours, err = end.result.Raw, end.ours, end.err
	} else {
		result, ours, err = q.forward(ctx)
	}
	var said *api.PeerError
	switch {
	case errors.As(err, &said):
		return peerError(q.m.ID, said), true
	case err != nil:
		return jsonrpc.Refuse(q.m.ID, mcp.INTERNAL_ERROR, core.Visible(err.Error(), 2000, true)).With(map[string]any{"error_code": core.CodeOf(err)}), true
	case !ours:
		return nil, false
	}
	return q.result(result), true
}

// lists are the fields of the results of lists.
var lists = map[mcp.MCPMethod]string{
	mcp.MethodToolsList: "tools", mcp.MethodResourcesList: "resources",
	mcp.MethodResourcesTemplatesList: "resourceTemplates", mcp.MethodPromptsList: "prompts",
}

// merged answers a list: pml's own first, then what servers offer. What cannot
// be listed does not keep the rest from being seen.
func (q *proxied) merged(ctx context.Context) (answer *jsonrpc.Response, ok bool) {
	field := lists[mcp.MCPMethod(q.m.Method)]
	more, next, err := q.others(ctx, field)
	var said *api.PeerError
	paged := len(q.m.Params.Cursor) > 0 && !bytes.Equal(q.m.Params.Cursor, core.Null)
	switch {
	case errors.As(err, &said) && paged:
		return peerError(q.m.ID, said), true
	case err != nil:
		q.e.o.Log.Warn("what servers offer cannot be listed", "method", q.m.Method, "why", core.Visible(err.Error(), 300, false))
	}
	own := ofLibrary(q.e.protocol.HandleMessage(ctx, q.m.request(unpaged(q.m))), q.m)
	if own.Code() != 0 {
		return own, true
	}
	raw, err := json.Marshal(own.Result)
	var all map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	var list []json.RawMessage
	if err == nil && !paged {
		err = json.Unmarshal(all[field], &list)
	}
	if err != nil {
		return jsonrpc.Refuse(q.m.ID, mcp.INTERNAL_ERROR, "the list cannot be encoded"), true
	}
	all[field] = joined(append(list, more...))
	delete(all, "nextCursor")
	if len(next) > 0 {
		all["nextCursor"] = next
	}
	return &jsonrpc.Response{ID: q.m.ID, Result: inOneObject(all, field)}, true
}

// unpaged are the params of a list without the cursor, which is that of servers.
func unpaged(m *message) json.RawMessage {
	var params map[string]json.RawMessage
	if len(m.Params.Cursor) == 0 || json.Unmarshal(m.Message.Params, &params) != nil {
		return m.Message.Params
	}
	delete(params, "cursor")
	raw, _ := json.Marshal(params) // parts of valid JSON
	return raw
}

// others are the entries of a list that servers offer.
func (q *proxied) others(ctx context.Context, field string) (list []json.RawMessage, next json.RawMessage, err error) {
	if field == "tools" {
		gw, _, err := q.e.gateway(ctx)
		if gw == nil || err != nil {
			return nil, nil, err
		}
		offer, err := gw.Offer(ctx, q.clientOf(gw))
		for _, t := range offer.Tools {
			list = append(list, t.Definition)
		}
		return list, nil, err
	}
	raw, ours, err := q.forward(ctx)
	if err != nil || !ours {
		return nil, nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, nil, core.Errorf(core.CodeServerUnreachable, "a list of servers is no object: %w", err)
	}
	if len(all[field]) > 0 {
		if err := json.Unmarshal(all[field], &list); err != nil {
			return nil, nil, core.Errorf(core.CodeServerUnreachable, "%s of servers is no list: %w", field, err)
		}
	}
	return list, all["nextCursor"], nil
}

// joined is a JSON list of values as they are.
func joined(list []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, raw := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw...)
	}
	return append(b, ']')
}

// inOneObject is an object with the list first, its values as they are.
func inOneObject(all map[string]json.RawMessage, first string) json.RawMessage {
	b := []byte("{" + strconv.Quote(first) + ":")
	b = append(b, all[first]...)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key == first {
			continue
		}
		b = append(b, ","+strconv.Quote(key)+":"...)
		b = append(b, all[key]...)
	}
	return append(b, '}')
}

// listChanges tells a session which lists have changed, until the context ends.
func (e *Edge) listChanges(ctx context.Context, s *session, notify func(method string, params any)) {
	gw, _, err := e.gateway(ctx)
	if gw == nil || err != nil {
		return
	}
	select {
	case <-s.shook: // what it can be asked is known
	case <-ctx.Done():
		return
	}
	_ = gw.Changed(ctx, &s.peerOf(gw).seen, func(method string) { notify(method, nil) })
}

// listeners numbers the streams that listen, each of which is a peer.
var listeners atomic.Int64

// attendListener sends a request that listens the notifications that it has asked for.
func (e *Edge) attendListener(ctx context.Context, s *session, notify func(method string, params any)) (stop func()) {
	gw, _, err := e.gateway(ctx)
	var p *peer
	if gw != nil && err == nil {
		p = newPeer(gw, "listen-"+strconv.FormatInt(listeners.Add(1), 10), abilities{})
		p.notify = func(method string, params json.RawMessage) {
			var in struct {
				URI string `json:"uri"`
			}
			if method == mcp.MethodNotificationResourceUpdated && json.Unmarshal(params, &in) == nil && s.IsSubscribedToResource(in.URI) {
				notify(method, map[string]any{"uri": in.URI})
			}
		}
		e.beside("changes of lists were told", func() {
			_ = gw.Changed(ctx, &p.seen, func(method string) {
				if filter, _ := s.SubscriptionFilter(); wants(filter, method) {
					notify(method, map[string]any{})
				}
			})
		})
	}
	s.subs.listen(func(uri string) context.CancelFunc {
		if ownURI(uri) || p == nil {
			return e.watch(ctx, uri, notify)
		}
		raw, _ := json.Marshal(map[string]string{"uri": uri}) // a string
		e.beside("a server was subscribed to", func() { _, _, _ = gw.Forward(ctx, &p.seen, string(mcp.MethodResourcesSubscribe), raw) })
		return func() {}
	})
	return func() {
		s.subs.mute()
		if p != nil {
			e.beside("it was told that a client has gone", func() { gw.Gone(p.seen.ID) })
		}
	}
}

// wants reports whether a list is one of those that are listened to.
func wants(f mcp.SubscriptionFilter, method string) bool {
	switch method {
	case mcp.MethodNotificationToolsListChanged:
		return f.ToolsListChanged
	case mcp.MethodNotificationPromptsListChanged:
		return f.PromptsListChanged
	case mcp.MethodNotificationResourcesListChanged:
		return f.ResourcesListChanged
	}
	return strings.HasPrefix(method, "notifications/resources/") && f.ResourcesListChanged
}
