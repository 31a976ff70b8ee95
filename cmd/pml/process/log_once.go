package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
)

// maxSaid bounds what is remembered of a log; after that it is said again.
const maxSaid = 1000

// once passes each warning on the first time that it is said in the same words,
// and after leave none: what goes wrong because pml ends is no warning. Errors
// always pass.
type once struct {
	slog.Handler
	said   *said
	prefix string // what WithAttrs and WithGroup have added
}

type said struct {
	leaving atomic.Bool
	mu      sync.Mutex
	texts   map[string]bool
}

func newOnce(h slog.Handler) *once {
	return &once{Handler: h, said: &said{texts: map[string]bool{}}}
}

// leave ends the warnings.
func (o *once) leave() { o.said.leaving.Store(true) }

// Handle implements slog.Handler.
func (o *once) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && (o.said.leaving.Load() || !o.said.first(o.prefix+text(r))) {
		return nil
	}
	return o.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (o *once) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &once{o.Handler.WithAttrs(attrs), o.said, o.prefix + fmt.Sprint(attrs)}
}

// WithGroup implements slog.Handler.
func (o *once) WithGroup(name string) slog.Handler {
	return &once{o.Handler.WithGroup(name), o.said, o.prefix + name + "."}
}

// text is what a record says, without its time.
func text(r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%q", a.Key, a.Value.String())
		return true
	})
	return b.String()
}

// first reports whether something is said for the first time.
func (s *said) first(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts[text] {
		return false
	}
	if len(s.texts) >= maxSaid {
		clear(s.texts)
	}
	s.texts[text] = true
	return true
}

// offering is the gateway of one client. It logs, once, which names collide: the
// client is not told why a tool is missing.
type offering struct {
	*proxy.Proxy
	log *slog.Logger
}

// Offer implements mcp.Proxy.
func (o *offering) Offer(ctx context.Context, peer *api.Peer) (api.Offer, error) {
	offer, err := o.Proxy.Offer(ctx, peer)
	for _, p := range offer.Problems {
		if p.Path == "expose" { // why servers are missing is logged where it is found out
			o.log.Warn("not offered", "problem", core.Visible(p.Message, 500, false))
		}
	}
	return offer, err
}

// heard calls a function at the end of a reader.
type heard struct {
	io.Reader
	ended func()
}

// Read implements io.Reader.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err != nil {
		h.ended()
	}
	return n, err
}
