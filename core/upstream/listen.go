package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// listenBackOff is the first wait before a broken stream of notifications is
// opened again, listenBackOffMax the longest.
const (
	listenBackOff    = time.Second
	listenBackOffMax = time.Minute
)

// listenWait is how long a connection of one client waits for its stream of
// notifications before it is used. Some servers send their headers only with the
// first event.
const listenWait = 2 * time.Second

// pause waits before the next attempt of several.
func pause(ctx context.Context, tries int) error {
	t := time.NewTimer(min(listenBackOffMax, listenBackOff<<min(tries, 10)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginListening opens the stream of notifications. A connection of one client
// does not go on before the stream is there, or is refused, for at most
// listenWait: what a server asks outside of the stream of a call it sends here,
// and servers lose what they send while nobody listens.
func (t *httpTransport) beginListening(ctx context.Context) {
	opened, open := context.WithCancel(ctx)
	defer open()
	t.conn.beside(func() { t.listen(open) })
	if t.conn.own == nil {
		return
	}
	waited := time.NewTimer(listenWait)
	defer waited.Stop()
	select {
	case <-opened.Done():
	case <-waited.C:
	case <-t.conn.life.Done():
	}
}

// listen keeps the stream of notifications open, for as long as the connection
// lives and unless the server has none, or refuses it. It calls opened when that
// is decided for the first time, and maybe again.
func (t *httpTransport) listen(opened func()) {
	c := t.conn
	defer opened()
	defer c.survive("a server was listened to")
	for tries := 0; ; tries++ {
		received := func() { tries = -1 }
		again, err := t.listenOnce(opened, received)
		opened()
		if !again || c.life.Err() != nil {
			return
		}
		c.log.Debug("the stream of notifications ended", "server", c.name, "err", plain(err))
		if pause(c.life, max(tries, 0)) != nil {
			return
		}
	}
}

// listenOnce reads the stream of notifications until it ends; again reports
// whether that may pass. It calls opened once the server has answered.
func (t *httpTransport) listenOnce(opened, received func()) (again bool, err error) {
	req, err := t.request(t.conn.life, http.MethodGet, nil)
	if err != nil {
		return false, err
	}
	resp, err := t.end.do(req, nil) //nolint:bodyclose // its body is closed, bounded
	if err != nil {
		var auth *AuthRequired
		return !errors.As(err, &auth), err
	}
	opened()
	body := t.end.body(resp, nil, received)
	defer func() { _ = body.Close() }()
	if resp.StatusCode != http.StatusOK || !isEvents(resp) {
		return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500, nil
	}
	s := eventStream{
		heard:  func(m jsonrpc.Message) { t.conn.heard(t.conn.life, m, t.queue) },
		reopen: t.end.reopening(req, resp, nil, received),
	}
	_, err = s.read(body)
	return true, err
}

// listensTo is what is asked for of a server of the newest revision.
func listensTo(has mcp.ServerCapabilities) (f mcp.SubscriptionFilter) {
	f.ToolsListChanged = has.Tools != nil && has.Tools.ListChanged
	f.PromptsListChanged = has.Prompts != nil && has.Prompts.ListChanged
	f.ResourcesListChanged = has.Resources != nil && has.Resources.ListChanged
	return f
}

// news is the stream in which a server of the newest revision, where nothing is
// told unasked, tells what changes. There is one for as long as the connection
// lives, opened anew where something else is wanted.
type news struct {
	conn *conn

	mu       sync.Mutex
	wanted   mcp.SubscriptionFilter
	open     bool
	relisten context.CancelFunc // ends the stream that asks for less
}

// want changes which notifications the client wants.
func (n *news) want(filter mcp.SubscriptionFilter) {
	n.mu.Lock()
	n.wanted = filter
	n.mu.Unlock()
	n.start()
}

// watch subscribes to a resource, or ends that.
func (n *news) watch(uri string, on bool) {
	n.mu.Lock()
	filter := n.wanted
	if slices.Contains(filter.ResourceSubscriptions, uri) == on {
		n.mu.Unlock()
		return
	}
	filter.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(filter.ResourceSubscriptions), func(u string) bool { return u == uri })
	if on {
		filter.ResourceSubscriptions = append(filter.ResourceSubscriptions, uri)
	}
	n.wanted = filter
	relisten := n.relisten
	n.mu.Unlock()
	if relisten != nil {
		relisten()
	}
	n.start()
}

// start opens the stream unless it is open, or nothing is wanted.
func (n *news) start() {
	n.mu.Lock()
	idle := !n.open && !n.wanted.IsEmpty()
	n.open = n.open || idle
	n.mu.Unlock()
	if idle {
		n.conn.beside(n.listen)
	}
}

// listen keeps the stream open.
func (n *news) listen() {
	c := n.conn
	defer c.survive("a server was listened to")
	defer func() {
		n.mu.Lock()
		n.open, n.relisten = false, nil
		n.mu.Unlock()
	}()
	for try := 0; ; try++ {
		ctx, cancel := context.WithCancel(c.life)
		n.mu.Lock()
		filter := n.wanted
		n.relisten = cancel
		n.mu.Unlock()
		refused, err := c.listenTo(ctx, filter)
		again := ctx.Err() != nil && c.life.Err() == nil
		cancel()
		if again {
			try = 0
			continue
		}
		var auth *AuthRequired
		if c.life.Err() != nil || refused || errors.As(err, &auth) {
			return
		}
		c.log.Debug("the stream of notifications ended", "server", c.name, "err", plain(err))
		if pause(c.life, try) != nil {
			return
		}
	}
}

// listenTo keeps one stream of what changes open until it ends. refused reports
// that the server has answered that it has none.
func (c *conn) listenTo(ctx context.Context, filter mcp.SubscriptionFilter) (refused bool, err error) {
	text, err := json.Marshal(filter)
	if err != nil {
		return true, err
	}
	a, err := c.request(ctx, string(mcp.MethodSubscriptionsListen), map[string]json.RawMessage{"notifications": text})
	return a.rpc != nil, err
}
