package upstream

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/casys-ai/pml/core/jsonrpc"
)

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
	openPipe(c, &afterwards{asked, src}, &notice{asked: asked}, max, func([]byte) {})
	defer func() { _ = c.wire.close() }()
	a, err := c.send(ctx, Request{Tool: "t", Args: json.RawMessage("{}"), Progress: func(string, float64, float64) {}}, nil)
	return a.raw, err
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

// Listen opens the stream of notifications as long as the server has one.
func Listen(ctx context.Context, l Launch) error {
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	e, err := newEndpoint(l, own, Limits{}.withDefaults())
	if err != nil {
		return err
	}
	t := &httpTransport{conn: &conn{life: ctx, log: slog.New(slog.DiscardHandler)}, end: e, url: l.URL}
	t.speak("2025-06-18")
	t.listen(func() {})
	return nil
}

// ReadEvents returns what is heard in a stream of events, and the response that it
// was for.
func ReadEvents(src io.Reader) (heard []string, answer string) {
	s := eventStream{answers: true, heard: func(m jsonrpc.Message) { heard = append(heard, string(m.Text)) }}
	if m, _ := s.read(io.NopCloser(src)); m != nil {
		answer = string(m.Text)
	}
	return heard, answer
}
