package upstream

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/client"
)

// FilterLines returns the messages that the reader of a server's output finds,
// one a line.
func FilterLines(src io.Reader, max int, noise func([]byte)) ([]byte, error) {
	var out []byte
	newLineReader(src, max, noise, func(w wire) { out = append(append(out, w.text...), '\n') }).run(nil)
	return out, nil
}

// Challenge is what a 401 with these values of WWW-Authenticate asks for.
func Challenge(server string, values []string) AuthRequired {
	return *asksAuth(server, &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": values}})
}

// Converse makes one call, whose id is 1, to a server that writes src as soon
// as it has been asked, and then ends. It returns the raw result.
func Converse(ctx context.Context, src io.Reader, max int) (json.RawMessage, error) {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &conn{name: "fuzz", lost: make(chan struct{}), life: life, cancel: cancel, changed: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
	asked := make(chan struct{})
	t := newPipe(c, &afterwards{asked, src}, &notice{asked: asked}, max, func([]byte) {})
	c.client = client.NewClient(t, client.WithSession(), client.WithLegacyProtocolOnly()) //nolint:staticcheck // as dialStdio does
	defer func() { _ = c.client.Close() }()
	if err := c.client.Start(life); err != nil {
		return nil, err
	}
	ctx, a := withAnswer(ctx)
	if err := c.send(ctx, Request{Tool: "t", Args: json.RawMessage("{}"), Progress: func(string, float64, float64) {}}, nil); err != nil {
		return nil, err
	}
	return a.raw, nil
}

// afterwards reads nothing before it may.
type afterwards struct {
	may <-chan struct{}
	io.Reader
}

func (a *afterwards) Read(p []byte) (int, error) {
	<-a.may
	return a.Reader.Read(p)
}

// notice tells of the first write.
type notice struct {
	asked chan struct{}
	once  sync.Once
}

func (n *notice) Write(p []byte) (int, error) {
	n.once.Do(func() { close(n.asked) })
	return len(p), nil
}

func (n *notice) Close() error { return nil }

// OpenStreams opens the stream of notifications several times, as the library
// would, and returns the statuses that it sees.
func OpenStreams(ctx context.Context, l Launch, times int) ([]int, error) {
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	e, err := newEndpoint(l, own, Limits{}.withDefaults())
	if err != nil {
		return nil, err
	}
	e.stream.open(true, "2025-06-18")
	var statuses []int
	for range times {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := e.client().Do(req)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
	return statuses, nil
}

// FilterEvents returns what is passed on of a stream of events, and the
// messages that were heard.
func FilterEvents(src io.Reader) (passed string, heard []string, err error) {
	out, err := io.ReadAll(newEventFilter(io.NopCloser(src), func(w wire) { heard = append(heard, string(w.text)) }))
	return string(out), heard, err
}
