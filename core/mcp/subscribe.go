package mcp

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// maxSubscriptions bounds how many resources a session watches.
const maxSubscriptions = 100

// subscriptions are the resources that a session watches. They are watched
// while somebody listens, which over HTTP may be not yet.
type subscriptions struct {
	mu    sync.Mutex
	stops map[string]context.CancelFunc // nil values: not watched at present
	start func(uri string) context.CancelFunc
}

var errSubscriptions = errors.New("too many subscriptions in this session; end some first")

// add subscribes to a resource; again changes nothing.
func (s *subscriptions) add(uri string) error {
	_, err := s.claim(uri)
	return err
}

// claim is add, and reports whether that is new.
func (s *subscriptions) claim(uri string) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.stops[uri]; ok {
		return false, nil
	}
	if len(s.stops) >= maxSubscriptions {
		return false, errSubscriptions
	}
	if s.stops == nil {
		s.stops = map[string]context.CancelFunc{}
	}
	s.stops[uri] = nil
	if s.start != nil {
		s.stops[uri] = s.start(uri)
	}
	return true, nil
}

// remove ends the watching of a resource.
func (s *subscriptions) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.stops[uri]; stop != nil {
		stop()
	}
	delete(s.stops, uri)
}

// listen watches all that is subscribed to, now and from now on, until mute.
func (s *subscriptions) listen(start func(uri string) context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = start
	for uri := range s.stops {
		s.stops[uri] = start(uri)
	}
}

func (s *subscriptions) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = nil
	for uri, stop := range s.stops {
		if stop != nil {
			stop()
		}
		s.stops[uri] = nil
	}
}

// SubscribeToResourceErr implements server.SessionWithResourceSubscriptionsErr.
func (s *session) SubscribeToResourceErr(uri string) error { return s.subs.add(uri) }

// SubscribeToResource implements server.SessionWithResourceSubscriptions.
func (s *session) SubscribeToResource(uri string) { _ = s.subs.add(uri) }

// UnsubscribeFromResource implements server.SessionWithResourceSubscriptions.
func (s *session) UnsubscribeFromResource(uri string) { s.subs.remove(uri) }

// SubscribedResources implements server.SessionWithResourceSubscriptions.
func (s *session) SubscribedResources() []string {
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	var out []string
	for uri := range s.subs.stops {
		out = append(out, uri)
	}
	slices.Sort(out)
	return out
}

// IsSubscribedToResource implements server.SessionWithResourceSubscriptions.
func (s *session) IsSubscribedToResource(uri string) bool {
	return slices.Contains(s.SubscribedResources(), uri)
}

// SetSubscriptionFilter implements server.SessionWithSubscriptionFilter: which
// lists a client of a modern revision has subscribed to.
func (s *session) SetSubscriptionFilter(filter mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = filter
}

// SubscriptionFilter implements server.SessionWithSubscriptionFilter.
func (s *session) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter, !s.filter.IsEmpty()
}

var (
	_ server.SessionWithResourceSubscriptionsErr = (*session)(nil)
	_ server.SessionWithSubscriptionFilter       = (*session)(nil)
)

// ownURI reports whether a resource is pml's own.
func ownURI(uri string) bool { return strings.HasPrefix(uri, "pml://") }

// watch tells a client when a resource has changed, until it is stopped.
func (e *Edge) watch(ctx context.Context, uri string, notify func(method string, params any)) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	if !ownURI(uri) {
		return cancel // its server tells
	}
	w := &watcher{uri: uri, clock: e.o.Clock, since: e.o.Clock.Now(), moved: make(chan struct{}, 1)}
	e.beside("a resource was watched", func() {
		var err error
		if w.b, _, err = e.backend(ctx); err != nil {
			return
		}
		e.beside("a resource was watched", func() { w.events(ctx) })
		w.run(ctx, func() {
			notify(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
		})
	})
	return cancel
}

// watcher watches one resource.
type watcher struct {
	b     Backend
	uri   string
	clock core.Clock
	since time.Time // what was before is no news
	moves atomic.Int64
	moved chan struct{}
}

// events signals moved for each event that may have changed the resource.
func (w *watcher) events(ctx context.Context) {
	move := func(ev core.Event) error {
		if ev.At.Before(w.since) {
			return ctx.Err()
		}
		w.moves.Add(1)
		select {
		case w.moved <- struct{}{}:
		default:
		}
		return ctx.Err()
	}
	if w.uri == uriApprovals {
		_ = w.b.Events(ctx, "", api.Since{}, true, func(ev core.Event) error {
			if ev.ApprovalID == "" && ev.Type != core.EventReplanned && ev.Type != core.EventWorkflowAbort {
				return ctx.Err()
			}
			return move(ev)
		})
		return
	}
	id, _, err := w.b.Resolve(ctx, strings.TrimPrefix(w.uri, uriRuns))
	if err == nil {
		_ = w.b.Events(ctx, id, api.Since{}, true, move)
	}
}

// run looks after every signal, at most once in tellEvery, and tells if what it
// sees is not what it has seen before.
func (w *watcher) run(ctx context.Context, tell func()) {
	seen, expires := w.look(ctx)
	for {
		var expiry <-chan time.Time
		if expires > 0 {
			expiry = time.After(expires)
		}
		select {
		case <-ctx.Done():
			return
		case <-expiry:
		case <-w.moved:
		}
		var now string
		if now, expires = w.look(ctx); now != seen && ctx.Err() == nil {
			seen = now
			tell()
		}
		select { // what happens meanwhile is one change
		case <-ctx.Done():
			return
		case <-time.After(tellEvery):
		}
	}
}

// look is what stands for the state of the resource, and how long until time
// alone changes it; 0: never. A run, which may be large, is not read: whatever
// happens in it has changed it.
func (w *watcher) look(ctx context.Context) (seen string, expires time.Duration) {
	if w.uri != uriApprovals {
		return strconv.FormatInt(w.moves.Load(), 10), 0
	}
	list, err := w.b.Approvals(ctx, false)
	if err != nil {
		return "", 0
	}
	now := w.clock.Now()
	var b strings.Builder
	for _, a := range list {
		b.WriteString(string(a.ID) + string(a.StateAt(now)) + " ")
		if a.ExpiresAt == nil {
			continue
		}
		if left := a.ExpiresAt.Sub(now); left > 0 && (expires == 0 || left < expires) {
			expires = left
		}
	}
	return b.String(), expires
}

// subscribe is resources/subscribe of the revisions with sessions, for pml's own
// resources.
func (e *Edge) subscribe(ctx context.Context, s *session, uri string) *jsonrpc.Error {
	if uri != uriApprovals {
		text, ok := strings.CutPrefix(uri, uriRuns)
		if !ok {
			return (&jsonrpc.Error{Code: mcp.RESOURCE_NOT_FOUND, Message: "there is no such resource"}).With(map[string]any{"uri": uri})
		}
		b, _, err := e.backend(ctx)
		if err == nil {
			_, _, err = b.Resolve(ctx, text)
		}
		if err != nil {
			return (&jsonrpc.Error{Code: mcp.RESOURCE_NOT_FOUND, Message: err.Error()}).With(map[string]any{"uri": uri, "error_code": core.CodeOf(err)})
		}
	}
	if err := s.subs.add(uri); err != nil {
		return &jsonrpc.Error{Code: tooBusy, Message: err.Error()}
	}
	return nil
}

// serveMain sends a session what belongs to no call, on a stream of its own,
// until the context ends: resources that it watches, and lists that change. ok
// is false when it has such a stream already.
func (e *Edge) serveMain(ctx context.Context, s *session, out *stream) (stop func(), ok bool) {
	if !s.attach(out) {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	s.subs.listen(func(uri string) context.CancelFunc { return e.watch(ctx, uri, out.notify) })
	e.beside("changes of lists were told", func() { e.listChanges(ctx, s, out.notify) })
	return func() {
		cancel()
		s.subs.mute()
		s.detach()
		out.abandon()
	}, true
}
