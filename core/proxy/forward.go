package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The bounds of lists that are put together.
const (
	maxPages  = 100      // of one server's list
	maxListed = 4 << 20  // bytes of one server's list
	maxMerged = 16 << 20 // bytes of the lists of all servers
	itemBytes = 64       // that an item takes, less its text
)

// Forward answers a request about resources, prompts, completions and the level
// of logs out of what servers answer.
func (g *Proxy) Forward(ctx context.Context, peer *api.Peer, method string, params json.RawMessage) (json.RawMessage, bool, error) {
	v := g.viewOf(peer)
	servers, err := v.servers(ctx, v.g.o.Wait)
	if err != nil {
		return nil, false, err
	}
	f := &forward{ctx: ctx, v: v, peer: g.seen(peer), servers: servers, method: method, params: params}
	switch method {
	case "resources/list":
		return f.list("resources", has(servers, func(s api.Exposed) bool { return s.Resources }))
	case "resources/templates/list":
		return f.list("resourceTemplates", has(servers, func(s api.Exposed) bool { return s.Resources }))
	case "prompts/list":
		return f.list("prompts", has(servers, func(s api.Exposed) bool { return s.Prompts }))
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return f.to(f.resource(f.text("uri")))
	case "prompts/get":
		return f.to(f.prompt(f.text("name")))
	case "completion/complete":
		return f.complete()
	case "logging/setLevel":
		return f.all(has(servers, func(s api.Exposed) bool { return s.Logging }))
	}
	return nil, false, nil
}

func has(servers []api.Exposed, what func(api.Exposed) bool) []string {
	var out []string
	for _, s := range servers {
		if what(s) {
			out = append(out, s.Name)
		}
	}
	return out
}

// forward is one request on its way.
type forward struct {
	ctx     context.Context
	v       *view
	peer    *api.Peer
	servers []api.Exposed
	method  string
	params  json.RawMessage
}

func (f *forward) send(server, method string, params json.RawMessage) (json.RawMessage, error) {
	return f.v.g.o.Half.ForwardExposed(f.ctx, f.peer, server, method, params)
}

// text is a parameter that is a string.
func (f *forward) text(name string) string {
	var p map[string]json.RawMessage
	var s string
	if json.Unmarshal(f.params, &p) != nil || json.Unmarshal(p[name], &s) != nil {
		return ""
	}
	return s
}

// to sends the request to one server; "" is none.
func (f *forward) to(server string) (json.RawMessage, bool, error) {
	if server == "" {
		return nil, false, nil
	}
	raw, err := f.send(server, f.method, f.params)
	return raw, true, err
}

// all sends the request to several servers. One that refuses does not keep the
// others from having it.
func (f *forward) all(servers []string) (json.RawMessage, bool, error) {
	if len(servers) == 0 {
		return nil, false, nil
	}
	var first error
	for _, s := range servers {
		if _, err := f.send(s, f.method, f.params); err != nil && first == nil {
			first = err
		}
	}
	if len(servers) > 1 {
		first = nil
	}
	return json.RawMessage("{}"), true, first
}

// list is a list of all servers. That of a single one passes as it is, page by
// page; several are put together, all pages of each.
func (f *forward) list(field string, servers []string) (json.RawMessage, bool, error) {
	switch len(servers) {
	case 0:
		return nil, false, nil
	case 1:
		raw, err := f.send(servers[0], f.method, f.params)
		if err == nil {
			f.learn(field, servers[0], itemsOf(raw, field))
		}
		return raw, true, err
	}
	items, err := f.everything(f.method, field, servers)
	if err != nil {
		return nil, true, err
	}
	raw, err := json.Marshal(map[string]any{field: items})
	if err != nil {
		return nil, true, core.Errorf(core.CodeInternal, "cannot encode a list: %w", err)
	}
	return raw, true, nil
}

// everything lists all that servers have of something, in their order. One that
// fails is left out, unless all do. Prompts of one name are left out, too.
func (f *forward) everything(method, field string, servers []string) ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	var failed error
	ok, left := false, maxMerged
	by := map[string][]string{}
	var from []string
	for _, s := range servers {
		most := min(left, maxListed)
		items, read, err := f.pages(s, method, field, most)
		if err != nil {
			failed = err
			f.v.g.o.Log.Warn("a server did not list what it has", "server", s, "list", field, "error", core.AsError(err))
			continue
		}
		ok = true
		if left -= min(read, most); read > most {
			f.v.g.o.Log.Warn("a server lists more than is passed on", "server", s, "list", field, "bytes", most)
		}
		f.learn(field, s, items)
		for _, item := range items {
			name := keyOf(field, item)
			by[name] = append(by[name], s)
			from = append(from, s)
			out = append(out, item)
		}
	}
	if !ok {
		return nil, failed
	}
	if field != "prompts" {
		return out, nil
	}
	kept := []json.RawMessage{}
	for i, item := range out {
		if name := keyOf(field, item); len(by[name]) > 1 {
			f.v.routes.nobodys(name)
			f.v.g.o.Log.Warn("not offered: prompts of several servers have one name", "prompt", core.Visible(name, 120, false), "server", from[i])
			continue
		}
		kept = append(kept, item)
	}
	return kept, nil
}

// pages are the items of a server's list, as many as there are in so many bytes
// of its answers. read is how much it answered; more than that is more than most.
func (f *forward) pages(server, method, field string, most int) (items []json.RawMessage, read int, err error) {
	params, seen := json.RawMessage("{}"), map[string]bool{}
	for range maxPages {
		raw, err := f.send(server, method, params)
		if err != nil {
			return nil, 0, err
		}
		page, left := itemsOf(raw, field), most-read
		if read += len(raw) + itemBytes*len(page); read > most {
			return append(items, within(page, left)...), read, nil
		}
		items = append(items, page...)
		var next struct {
			Cursor string `json:"nextCursor"`
		}
		if json.Unmarshal(raw, &next) != nil || next.Cursor == "" || seen[next.Cursor] {
			break
		}
		seen[next.Cursor] = true
		if params, err = json.Marshal(map[string]string{"cursor": next.Cursor}); err != nil {
			return nil, 0, core.Errorf(core.CodeInternal, "cannot encode a cursor: %w", err)
		}
	}
	return items, read, nil
}

// within are the first items, as many as fit into so many bytes.
func within(items []json.RawMessage, bytes int) []json.RawMessage {
	for i, item := range items {
		if bytes -= len(item) + itemBytes; bytes < 0 {
			return items[:i]
		}
	}
	return items
}

func itemsOf(raw json.RawMessage, field string) []json.RawMessage {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(raw, &page) != nil || json.Unmarshal(page[field], &items) != nil {
		return nil
	}
	return items
}

// keyOf is by what an item of a list is asked for.
func keyOf(field string, item json.RawMessage) string {
	var it struct{ Name, URI, URITemplate string }
	if json.Unmarshal(item, &it) != nil {
		return ""
	}
	switch field {
	case "resources":
		return it.URI
	case "resourceTemplates":
		return it.URITemplate
	}
	return it.Name
}

// learn notes which server has what.
func (f *forward) learn(field, server string, items []json.RawMessage) {
	if !f.v.routes.learn(field, server, items) {
		f.v.g.o.Log.Warn("not all that a server lists can be asked for", "server", server, "list", field)
	}
}

// resource is the server that a URI, or the text of a template, belongs to.
func (f *forward) resource(uri string) string {
	servers := has(f.servers, func(s api.Exposed) bool { return s.Resources })
	if len(servers) < 2 {
		return strings.Join(servers, "")
	}
	r := f.v.routes
	if s := r.ofResource(uri); s != "" {
		return s
	}
	if !r.isFull() {
		_, err := f.everything("resources/list", "resources", servers)
		_, err2 := f.everything("resources/templates/list", "resourceTemplates", servers)
		r.setFull(err == nil && err2 == nil)
	}
	return r.ofResource(uri)
}

// prompt is the server that a prompt belongs to.
func (f *forward) prompt(name string) string {
	servers := has(f.servers, func(s api.Exposed) bool { return s.Prompts })
	if len(servers) < 2 {
		return strings.Join(servers, "")
	}
	r := f.v.routes
	r.mu.Lock()
	named := r.named
	r.mu.Unlock()
	if !named { // all of them: another server may have the name, too
		_, err := f.everything("prompts/list", "prompts", servers)
		r.mu.Lock()
		r.named = err == nil
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.prompts[name]; s != none {
		return s
	}
	return ""
}

// complete sends a request for completions to the server that has what it is
// about.
func (f *forward) complete() (json.RawMessage, bool, error) {
	var p struct {
		Ref struct{ Type, Name, URI string } `json:"ref"`
	}
	if json.Unmarshal(f.params, &p) != nil {
		return nil, false, nil
	}
	server := ""
	switch p.Ref.Type {
	case "ref/prompt":
		server = f.prompt(p.Ref.Name)
	case "ref/resource":
		server = f.resource(p.Ref.URI)
	}
	if i := slices.IndexFunc(f.servers, func(s api.Exposed) bool { return s.Name == server }); i < 0 || !f.servers[i].Completions {
		return nil, false, nil
	}
	return f.to(server)
}
