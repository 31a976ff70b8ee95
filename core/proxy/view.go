package proxy

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The notifications of lists that have changed.
const (
	toolsChanged     = "notifications/tools/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
)

// view is what clients see that have declared the same.
type view struct {
	g    *Proxy
	ctx  context.Context // ends when the client has left
	stop context.CancelFunc

	routes *routes

	mu        sync.Mutex
	peer      *api.Peer // guarded by the Proxy's lock, read with client
	exploring map[string]*exploration
	watchers  map[int]func(string)
	watching  int
	told      *api.Offer // what was offered last; nil: nothing yet
	tools     map[string]string
}

// exploration is what a server was found to have.
type exploration struct {
	done  chan struct{}
	found api.Exposed // once done is closed
	stale bool        // it is to be found out anew
	ready bool        // it was begun again already, or need not be
}

func (v *view) client() *api.Peer {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	return v.peer
}

// offer says what there is. What is remembered is offered at once, while the
// servers are started; for one of which nothing is known it waits a while.
func (v *view) offer(ctx context.Context) (api.Offer, error) {
	servers, err := v.servers(ctx, v.g.o.Wait)
	if err != nil {
		return api.Offer{}, err
	}
	return v.tell(servers, false), nil
}

// servers is what is known of all of them. Those of which nothing is remembered are waited for, within a limit.
func (v *view) servers(ctx context.Context, limit time.Duration) ([]api.Exposed, error) {
	servers, err := v.g.o.Half.Exposed(ctx, v.client())
	if err != nil {
		return nil, err
	}
	var wait []*exploration
	for _, s := range servers {
		if e := v.explore(s); !s.Known {
			wait = append(wait, e)
		}
	}
	if len(wait) == 0 {
		return v.withProblems(servers), nil
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for _, e := range wait {
		select {
		case <-e.done:
			continue
		case <-late.C:
		case <-ctx.Done():
			return nil, core.Errorf(core.CodeCancelled, "stopped before every server had answered: %w", context.Cause(ctx))
		case <-v.ctx.Done():
		}
		break
	}
	if servers, err = v.g.o.Half.Exposed(ctx, v.client()); err != nil {
		return nil, err
	}
	return v.withProblems(servers), nil
}

// withProblems adds why servers could not be reached.
func (v *view) withProblems(servers []api.Exposed) []api.Exposed {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, s := range servers {
		e := v.exploring[s.Name]
		if e == nil || !e.over() {
			continue
		}
		for _, p := range e.found.Problems {
			if !slices.Contains(s.Problems, p) {
				servers[i].Problems = append(servers[i].Problems, p)
			}
		}
		servers[i].Live = e.found.Live
	}
	return servers
}

func (e *exploration) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// explore begins to find out what a server has, unless that was begun before.
// Where something is remembered, whoever wants the list has it first.
func (v *view) explore(s api.Exposed) *exploration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.exploring[s.Name]; e != nil {
		return e
	}
	e := &exploration{done: make(chan struct{})}
	v.exploring[s.Name] = e
	after := time.Duration(0)
	if s.Known {
		after = v.g.o.After
	}
	v.begin(s.Name, e, after)
	return e
}

// begin finds out in the background, after a while, what a server has. v.mu is
// held.
func (v *view) begin(server string, e *exploration, after time.Duration) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	peer := v.peer
	if v.g.life.Err() != nil {
		close(e.done)
		return
	}
	v.g.wg.Go(func() {
		defer core.Recover(v.g.o.Log, "it was told what a server has", nil, "server", server)
		v.rest(after)
		found, err := v.found(peer, server)
		if err != nil {
			found = api.Exposed{Name: server, Problems: []core.Fault{{Path: server, Message: core.AsError(err).Message}}}
		}
		for _, p := range found.Problems {
			v.g.o.Log.Warn("not offered", "server", server, "problem", core.Visible(p.Message, 500, false))
		}
		v.mu.Lock()
		e.found = found
		close(e.done)
		again := e.stale
		v.mu.Unlock()
		v.refresh(v.ctx)
		if again {
			v.again(server)
		}
	})
}

// found is what a server has. What panics has found nothing, and says so.
func (v *view) found(peer *api.Peer, server string) (found api.Exposed, err error) {
	defer core.Recover(v.g.o.Log, "it was found out what a server has", func(e *core.Error) { err = e }, "server", server)
	return v.g.o.Half.Explore(v.ctx, peer, server)
}

func (v *view) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-v.ctx.Done():
	}
}

// again finds out anew what a server has; while that is going on, after it.
func (v *view) again(server string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.exploring[server]
	switch {
	case e == nil: // nobody has asked for it yet
	case !e.over():
		e.stale = true
	default:
		fresh := &exploration{done: make(chan struct{}), ready: true}
		v.exploring[server] = fresh
		v.begin(server, fresh, 0)
	}
}

// refresh tells who watches what has changed in what is known.
func (v *view) refresh(ctx context.Context) {
	servers, err := v.g.o.Half.Exposed(ctx, v.client())
	if err != nil {
		return // it is said to who asks
	}
	for _, s := range servers {
		if e := v.explore(s); !s.Known && s.Ready && v.waited(e) {
			v.again(s.Name)
		}
	}
	v.tell(v.withProblems(servers), true)
}

// tell makes the offer that is in force, and says to who watches what is other
// than it was; only if something was offered before.
func (v *view) tell(servers []api.Exposed, only bool) api.Offer {
	offer := api.Merge(servers)
	if offer.Search {
		offer.Tools = append(slices.Clone(searchTools), offer.Tools...)
	}
	v.mu.Lock()
	before := v.told
	if only && before == nil {
		v.mu.Unlock()
		return offer
	}
	v.told = &offer
	v.tools = make(map[string]string, len(offer.Tools)+len(offer.Found))
	for _, t := range offer.Tools {
		v.tools[t.Name] = t.Tool
	}
	for _, t := range offer.Found {
		v.tools[t.Tool] = t.Tool
	}
	var watchers []func(string)
	for _, f := range v.watchers {
		watchers = append(watchers, f)
	}
	v.mu.Unlock()
	if before == nil {
		return offer
	}
	for _, method := range changes(*before, offer) {
		if method != toolsChanged {
			v.routes.forget()
		}
		for _, f := range watchers {
			f(method)
		}
	}
	return offer
}

// changes are the lists in which two offers differ.
func changes(a, b api.Offer) []string {
	var out []string
	if !slices.EqualFunc(a.Tools, b.Tools, func(x, y api.OfferedTool) bool {
		return x.Name == y.Name && x.Tool == y.Tool && bytes.Equal(x.Definition, y.Definition)
	}) {
		out = append(out, toolsChanged)
	}
	if a.Resources != b.Resources {
		out = append(out, resourcesChanged)
	}
	if a.Prompts != b.Prompts {
		out = append(out, promptsChanged)
	}
	return out
}

// waited reports, once, that a server which could not be reached waited for
// something.
func (v *view) waited(e *exploration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.ready || !e.over() || e.found.Live {
		return false
	}
	e.ready = true
	return true
}

// watch calls f with changes until the returned function is called.
func (v *view) watch(f func(string)) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watching++
	n := v.watching
	v.watchers[n] = f
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.watchers, n)
	}
}

// callWait is how long a call waits for servers that have not listed their tools yet. That is as long as a server may
// take to start: unlike a list, which hosts wait for before they begin, a call can wait.
const callWait = 30 * time.Second

// tool is the tool that has a name. That there is none is said only where all
// servers have listed theirs.
func (v *view) tool(ctx context.Context, name string) (string, error) {
	v.mu.Lock()
	tool, ok := v.tools[name]
	v.mu.Unlock()
	if ok {
		return tool, nil
	}
	servers, err := v.servers(ctx, max(v.g.o.Wait, callWait))
	if err != nil {
		return "", err
	}
	offer := v.tell(servers, false)
	names := make([]string, 0, len(offer.Tools)+len(offer.Found))
	for _, t := range offer.Tools {
		if t.Name == name && t.Tool != "" {
			return t.Tool, nil
		}
		names = append(names, t.Name)
	}
	for _, t := range offer.Found {
		if t.Tool == name {
			return t.Tool, nil
		}
		names = append(names, t.Tool)
	}
	if unlisted, next := v.unlisted(servers); unlisted != "" {
		return "", core.Errorf(core.CodeServerUnreachable, "it is not known whether there is a tool %s, since not all servers have listed theirs: %s. Nothing was called; %s",
			core.Visible(name, 120, false), unlisted, next).WithNotMade()
	}
	return "", core.Errorf(core.CodeNoSuchTool, "there is no tool %s%s", core.Visible(name, 120, false), core.Suggest(name, names))
}

// unlisted names the servers whose tools are not known, and why, and says what to do
// then: calling again helps where a server has only not answered yet.
func (v *view) unlisted(servers []api.Exposed) (names, next string) {
	var said []string
	next = "when that is mended, call it again"
	for _, s := range servers {
		switch {
		case s.Known:
		case len(s.Problems) > 0:
			said = append(said, s.Name+" ("+core.Visible(s.Problems[0].Message, 300, false)+")")
		default:
			said = append(said, s.Name+" (it has not answered yet)")
			next = "call it again"
		}
	}
	return strings.Join(said, ", "), next
}
