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
)

// aside answers what mcp-go is not asked, or not alone: what upstream servers
// offer, and what pml keeps of a session itself. ok is false for the rest.
func (e *Edge) aside(ctx context.Context, s *session, m *message, c *call) (answer any, ok bool) {
	if v := m.unknownRevision(); v != "" {
		return unsupported(m.ID, v), true
	}
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodToolsCall:
		if _, own := e.tools[c.name]; own {
			break
		}
		if c.name == "" || len(c.name) > maxName || e.o.Gateway == nil {
			return e.unknownTool(m.ID, c.name), true
		}
		return e.offered(ctx, m, c), true
	case mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodPromptsList:
		if e.o.Gateway != nil {
			return e.merged(ctx, m, c)
		}
	case mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete:
		if e.o.Gateway != nil && !ownRequest(m) {
			return e.forwarded(ctx, m, c)
		}
	case mcp.MethodSetLogLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		if !c.modern {
			return e.kept(ctx, s, m, c), true
		}
	default:
	}
	return nil, false
}

// emptyResult is a result that says nothing but that it was done.
type emptyResult struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  struct{}        `json:"result"`
}

// kept answers what a session keeps: the level of its log, its subscriptions.
// Servers behind pml hear of what is theirs.
func (e *Edge) kept(ctx context.Context, s *session, m *message, c *call) any {
	done := &emptyResult{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID}
	var bad *replyError
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodSetLogLevel:
		if bad = e.setLogLevel(s, m); bad == nil {
			if _, _, err := e.forward(ctx, m, c); err != nil {
				e.o.Log.Info("a server behind pml does not take the level of the log", "why", core.Visible(err.Error(), 300, false))
			}
			return done
		}
	case mcp.MethodResourcesSubscribe:
		if m.Params.URI == "" {
			bad = &replyError{Code: mcp.INVALID_PARAMS, Message: "uri is required"}
			break
		}
		if !ownURI(m.Params.URI) {
			if answer, ours := e.subscribeBehind(ctx, s, m, c); ours {
				return answer
			}
		}
		bad = e.subscribe(ctx, s, m.Params.URI)
	default:
		if !ownURI(m.Params.URI) {
			if answer, ours := e.forwarded(ctx, m, c); ours {
				if codeOf(answer) == 0 {
					s.subs.remove(m.Params.URI)
				}
				return answer
			}
		}
		s.subs.remove(m.Params.URI)
	}
	if bad != nil {
		return &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: m.ID, Error: *bad}
	}
	return done
}

// subscribeBehind subscribes to a resource of a server; ok is false where no
// server has it. It counts as one of the session's own.
func (e *Edge) subscribeBehind(ctx context.Context, s *session, m *message, c *call) (answer any, ok bool) {
	fresh, err := s.subs.claim(m.Params.URI)
	if err != nil {
		return refused(m.ID, tooBusy, err.Error()), true
	}
	answer, ok = e.forwarded(ctx, m, c)
	if fresh && (!ok || codeOf(answer) != 0) {
		s.subs.remove(m.Params.URI)
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
	return json.Unmarshal(m.given(), &in) != nil || ownURI(in.Ref.URI) || ownPrompt(in.Ref.Name)
}

func ownPrompt(name string) bool { return name == promptReview || name == promptExplain }

// clientOf is who calls as upstream servers see it, for a request that is no
// call of a tool.
func (e *Edge) clientOf(gw Gateway, c *call) *api.Peer {
	if c.modern {
		p := newPeer(gw, "alone", abilities{})
		p.begin(&offering{out: c.out, logs: c.level})
		return &p.seen
	}
	return &c.session.peerOf(gw).seen
}

func (e *Edge) forward(ctx context.Context, m *message, c *call) (result json.RawMessage, ours bool, err error) {
	gw, _, err := e.gateway(ctx)
	if gw == nil || err != nil {
		return nil, false, err
	}
	return gw.Forward(ctx, e.clientOf(gw, c), m.Method, m.given())
}

// forwarded answers a request with what the server says that it is about; ok is
// false where it is about none.
func (e *Edge) forwarded(ctx context.Context, m *message, c *call) (answer any, ok bool) {
	result, ours, err := e.forward(ctx, m, c)
	var said *api.PeerError
	switch {
	case errors.As(err, &said):
		return peerError(m.ID, said), true
	case err != nil:
		r := refused(m.ID, mcp.INTERNAL_ERROR, core.Visible(err.Error(), 2000, true))
		r.Error.Data = map[string]any{"error_code": core.CodeOf(err)}
		return r, true
	case !ours:
		return nil, false
	}
	return e.result(m, c, result), true
}

// lists are the fields of the results of lists.
var lists = map[mcp.MCPMethod]string{
	mcp.MethodToolsList: "tools", mcp.MethodResourcesList: "resources",
	mcp.MethodResourcesTemplatesList: "resourceTemplates", mcp.MethodPromptsList: "prompts",
}

// merged answers a list: pml's own first, then what servers offer. What cannot
// be listed does not keep the rest from being seen.
func (e *Edge) merged(ctx context.Context, m *message, c *call) (answer any, ok bool) {
	field := lists[mcp.MCPMethod(m.Method)]
	more, next, err := e.others(ctx, m, c, field)
	var said *api.PeerError
	paged := len(m.Params.Cursor) > 0 && !bytes.Equal(m.Params.Cursor, core.Null)
	switch {
	case errors.As(err, &said) && paged:
		return peerError(m.ID, said), true
	case err != nil:
		e.o.Log.Warn("what servers offer cannot be listed", "method", m.Method, "why", core.Visible(err.Error(), 300, false))
	}
	own, isResult := withID(e.protocol.HandleMessage(ctx, unpaged(m)), m.ID).(mcp.JSONRPCResponse)
	if !isResult {
		return nil, false // mcp-go says what is wrong
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
		return refused(m.ID, mcp.INTERNAL_ERROR, "the list cannot be encoded"), true
	}
	all[field] = joined(append(list, more...))
	delete(all, "nextCursor")
	if len(next) > 0 {
		all["nextCursor"] = next
	}
	return &rawAnswer{id: m.ID, result: inOneObject(all, field)}, true
}

// unpaged is a request for a list without its cursor, which is that of servers.
func unpaged(m *message) json.RawMessage {
	if len(m.Params.Cursor) == 0 {
		return m.raw
	}
	var whole, params map[string]json.RawMessage
	if json.Unmarshal(m.raw, &whole) != nil || json.Unmarshal(whole["params"], &params) != nil {
		return m.raw
	}
	delete(params, "cursor")
	whole["params"], _ = json.Marshal(params) // parts of valid JSON
	raw, _ := json.Marshal(whole)
	return raw
}

// others are the entries of a list that servers offer.
func (e *Edge) others(ctx context.Context, m *message, c *call, field string) (list []json.RawMessage, next json.RawMessage, err error) {
	if field == "tools" {
		gw, _, err := e.gateway(ctx)
		if gw == nil || err != nil {
			return nil, nil, err
		}
		offer, err := gw.Offer(ctx, e.clientOf(gw, c))
		for _, t := range offer.Tools {
			list = append(list, t.Definition)
		}
		return list, nil, err
	}
	raw, ours, err := e.forward(ctx, m, c)
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

// attendListener lets a request that listens hear of what it has asked for.
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
