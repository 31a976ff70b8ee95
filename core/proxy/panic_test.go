package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// words is a log that is safe for concurrent use.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// brittle is a half that panics when one of its servers is explored.
type brittle struct {
	*half
	at string
}

func (b *brittle) Explore(ctx context.Context, peer *api.Peer, server string) (api.Exposed, error) {
	if server == b.at {
		panic("a secret")
	}
	return b.half.Explore(ctx, peer, server)
}

// Of a server with which pml panics nothing is offered, and it is said why; the
// others are offered. So are those of a client that panics when it is told.
func TestPanic(t *testing.T) {
	t.Parallel()
	h, log := newHalf(server("a", "one"), server("b", "two")), &words{}
	g := proxy.New(proxy.Options{Half: &brittle{h, "b"}, Log: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(g.Close)
	o, err := g.Offer(t.Context(), nil)
	if err != nil || names(o) != "one" || len(o.Problems) != 1 || o.Problems[0].Path != "b" || !strings.Contains(o.Problems[0].Message, "inside pml") || strings.Contains(o.Problems[0].Message, "secret") {
		t.Fatalf("%q, %v, %v", names(o), o.Problems, err)
	}
	if text := log.String(); !strings.Contains(text, "panic_test.go") {
		t.Errorf("the log has no stack:\n%s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	told, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // mostly it is told by another goroutine
		_ = g.Changed(ctx, nil, func(string) {
			defer once.Do(func() { close(told) })
			panic("the client")
		})
	}()
	for n, watching := 0, false; !watching; n++ { // until it is told of something
		h.set(server("a", "one", fmt.Sprint("new", n)))
		h.watch("a")
		select {
		case <-told:
			watching = true
		default:
		}
	}
	cancel()
	<-ended
	if o, err := g.Offer(t.Context(), nil); err != nil || !strings.HasPrefix(names(o), "one new") {
		t.Errorf("%q, %v", names(o), err)
	}
}
