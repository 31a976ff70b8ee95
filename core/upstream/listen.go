package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// listenBackOff is the first wait before a broken stream of notifications is
// opened again, listenBackOffMax the longest.
const (
	listenBackOff    = time.Second
	listenBackOffMax = time.Minute
)

// streamGate decides when the library may open its stream of notifications,
// which it does on its own and again without end.
type streamGate struct {
	ready chan struct{} // closed when the handshake is over
	once  sync.Once
	// wanted and version are set before ready is closed.
	wanted  bool
	version string

	mu    sync.Mutex
	tries int // since something was received
	over  bool
}

func newStreamGate() *streamGate { return &streamGate{ready: make(chan struct{})} }

// open tells the outcome of the handshake: whether the server has said that it
// announces changes, and the revision, which the library may have asked for
// the stream too early to know.
func (g *streamGate) open(wanted bool, version string) {
	g.once.Do(func() {
		g.wanted, g.version = wanted, version
		close(g.ready)
	})
}

// wait blocks until the stream may be opened; false means never.
func (g *streamGate) wait(ctx context.Context) (bool, error) {
	select {
	case <-g.ready:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	g.mu.Lock()
	tries, stop := g.tries, g.over || !g.wanted
	g.tries++
	g.mu.Unlock()
	if stop || tries == 0 {
		return !stop, nil
	}
	return true, pause(ctx, tries-1)
}

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

func (g *streamGate) received() {
	g.mu.Lock()
	g.tries = 0
	g.mu.Unlock()
}

func (g *streamGate) end() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
}

// listen opens the stream of notifications. Where the server has none, or
// refuses it, the library is told that there is none, which ends its attempts.
func (e *endpoint) listen(req *http.Request) (*http.Response, error) {
	may, err := e.stream.wait(req.Context())
	if err != nil {
		return nil, err
	}
	if !may {
		return notOffered(req), nil
	}
	if req.Header.Get(transport.HeaderKeyProtocolVersion) == "" {
		req = req.Clone(req.Context())
		req.Header.Set(transport.HeaderKeyProtocolVersion, e.stream.version)
	}
	resp, err := e.send(req)
	var auth *AuthRequired
	if errors.As(err, &auth) {
		e.stream.end()
		return notOffered(req), nil
	}
	if err != nil {
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK && isEvents(resp):
		resp.Body = e.filtered(req.Context(), &boundedBody{ReadCloser: resp.Body, max: e.max, left: e.max, events: true, received: e.stream.received})
	case code == http.StatusNotFound || code == http.StatusTooManyRequests || code >= 500:
		// The library knows what a forgotten session means; the rest may pass.
	default:
		e.stream.end()
		discard(resp)
		return notOffered(req), nil
	}
	return resp, nil
}

func notOffered(req *http.Request) *http.Response {
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// listensTo is what is asked for of a server of the newest revision.
func listensTo(has mcp.ServerCapabilities) (f mcp.SubscriptionFilter) {
	f.ToolsListChanged = has.Tools != nil && has.Tools.ListChanged
	f.PromptsListChanged = has.Prompts != nil && has.Prompts.ListChanged
	f.ResourcesListChanged = has.Resources != nil && has.Resources.ListChanged
	return f
}

// subscribe asks a server of the newest revision, where nothing is told
// unasked, to tell what changes, for as long as the connection lives.
func (m *Manager) subscribe(c *conn) {
	defer m.wg.Done()
	defer c.survive("a server was listened to")
	defer func() {
		c.mu.Lock()
		c.listening, c.relisten = false, nil
		c.mu.Unlock()
	}()
	for try := 0; ; try++ {
		ctx, cancel := context.WithCancel(c.life)
		c.mu.Lock()
		filter := c.listens
		filter.ResourceSubscriptions = slices.Clone(filter.ResourceSubscriptions)
		c.relisten = cancel
		c.mu.Unlock()
		err := c.client.Listen(ctx, filter)
		again := ctx.Err() != nil && c.life.Err() == nil
		cancel()
		if again {
			try = 0
			continue
		}
		var broken *transport.Error
		var auth *AuthRequired
		if c.life.Err() != nil || errors.As(err, &auth) || err != nil && !errors.As(err, &broken) {
			return // it is over, or the server has refused
		}
		m.log.Debug("the stream of notifications ended", "server", c.name, "err", plain(err))
		if pause(c.life, try) != nil {
			return
		}
	}
}

// watchResource changes what a server of the newest revision tells of.
func (m *Manager) watchResource(c *conn, uri string, on bool) {
	c.mu.Lock()
	has := slices.Contains(c.listens.ResourceSubscriptions, uri)
	if has == on {
		c.mu.Unlock()
		return
	}
	if on {
		c.listens.ResourceSubscriptions = append(c.listens.ResourceSubscriptions, uri)
	} else {
		c.listens.ResourceSubscriptions = slices.DeleteFunc(c.listens.ResourceSubscriptions, func(u string) bool { return u == uri })
	}
	relisten := c.relisten
	c.mu.Unlock()
	if relisten != nil {
		relisten()
	}
	m.startListening(c)
}

// startListening subscribes unless that is under way.
func (m *Manager) startListening(c *conn) {
	c.mu.Lock()
	idle := !c.listening && !c.listens.IsEmpty()
	c.listening = c.listening || idle
	c.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if idle && !m.closed {
		m.wg.Add(1)
		go m.subscribe(c)
	}
}

// calmLog is the log of the library: what it calls an error is often a server
// that lacks an option.
type calmLog struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h calmLog) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler. The attributes are left out: they hold whole
// responses, and addresses with what stands in them.
func (h calmLog) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(r.Time, slog.LevelDebug, r.Message, r.PC))
}
