package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

// Options are what a Server needs. Half and Clock are required.
type Options struct {
	Half  Half
	Clock core.Clock
	// Keys are who may call over TCP; nil: nobody.
	Keys *Keys
	// Logger gets what callers are not told; nil: nothing is logged.
	Logger *slog.Logger
	// Version is said in the OpenAPI document.
	Version string
	// Status says which server this is; its Protocol and Readers are filled in
	// here. Nil: only those are known.
	Status func(ctx context.Context) api.ServerStatus
	// User is who calls on the socket: the user whose file it is.
	User string
	// MCP is mounted at /mcp and Metrics at /metrics; nil: no such path. Both
	// come behind the same checks as the rest; ScopeFrom says who calls.
	MCP     http.Handler
	Metrics http.Handler
	// MetricsKeys are the names of keys that may read Metrics over TCP: they are
	// of everybody's runs.
	MetricsKeys []string
	// Backup writes a backup of all that the store keeps, for the socket only; nil: no
	// such path. What ends before its end is no backup: that shows when it is read.
	Backup func(ctx context.Context, w io.Writer) error
	// Hosts are names beside those of the loopback by which this server may be
	// addressed over TCP, without port. Origins are web pages that may call it,
	// such as https://example.com.
	Hosts   []string
	Origins []string
	// Visitors are the browsers that may see the pages; nil: there are no pages.
	Visitors *Visitors
	// Own gives the part of this machine's own half that a scope may use: what commands
	// and agents' hosts run without a server. A paired device sees it beside Half; nil:
	// it does not.
	Own Half
	// Faces are files of programs that ask people as this one does, beside its own: pml, where the server is one that pml has
	// become. Whoever can write them can answer for people.
	Faces []string
	// PlainPages shows the pages to browsers on other machines without TLS, too.
	PlainPages bool
	// Lag is called with the time from an event to its delivery. May be nil.
	Lag    func(time.Duration)
	Limits Limits
}

// Limits bound what callers may use. A zero field has its default.
type Limits struct {
	Body          int64         // bytes of a request; 10 MiB
	Rate          float64       // requests per second and key; 100
	Burst         int           // 200
	Readers       int           // of events at once; 1000
	OwnerReaders  int           // of one key; 250
	Waiting       int           // requests on the socket that wait for a run, at once; 1000
	OwnerWaiting  int           // of one key; 100
	Ring          int           // newest events kept for readers; 65536
	RingBytes     int           // 64 MiB
	Heartbeat     time.Duration // 15 s
	WriteTimeout  time.Duration // for one write to a reader of events; 15 s
	HeaderTimeout time.Duration // for the head of a request; 10 s
	BodyTimeout   time.Duration // for its body; 30 s
	Grace         time.Duration // for requests under way when the server stops; 5 s
}

func (l Limits) withDefaults() Limits {
	def(&l.Body, 10<<20)
	def(&l.Rate, 100)
	def(&l.Burst, 200)
	def(&l.Readers, 1000)
	def(&l.OwnerReaders, 250)
	def(&l.Waiting, 1000)
	def(&l.OwnerWaiting, 100)
	def(&l.Ring, 1<<16)
	def(&l.RingBytes, 64<<20)
	def(&l.Heartbeat, 15*time.Second)
	def(&l.WriteTimeout, 15*time.Second)
	def(&l.HeaderTimeout, 10*time.Second)
	def(&l.BodyTimeout, 30*time.Second)
	def(&l.Grace, 5*time.Second)
	return l
}

func def[T int | int64 | float64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// Server answers HTTP. One may serve several listeners.
type Server struct {
	o       Options
	log     *slog.Logger
	routes  *routes
	api     huma.API
	handler http.Handler
	web     *web
	hub     *hub
	readers places
	waiting places // requests that wait for runs; others are answered beside them
	limiter limiter
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	o.Limits = o.Limits.withDefaults()
	s := &Server{o: o, log: o.Logger, routes: &routes{mux: http.NewServeMux()}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.hub = newHub(s)
	s.readers = places{total: o.Limits.Readers, each: o.Limits.OwnerReaders}
	s.waiting = places{each: o.Limits.OwnerWaiting, local: o.Limits.Waiting}
	s.limiter = limiter{rate: o.Limits.Rate, burst: o.Limits.Burst}
	s.api = newAPI(s)
	s.web = newWeb(s)
	s.handler = s.guarded()
	return s
}

// Handler is the whole interface. Without Serve a request counts as one over
// TCP: it needs a key.
func (s *Server) Handler() http.Handler { return s.handler }

// Close ends every stream of events and what feeds them.
func (s *Server) Close() {
	s.cancel()
	s.wg.Wait()
}

// listener is where a request came in.
type listener struct {
	socket   bool
	faces    []string // Options.Faces
	stopping <-chan struct{}
}

type listenerKey struct{}

func listenerOf(ctx context.Context) listener {
	l, _ := ctx.Value(listenerKey{}).(listener)
	return l
}

// Serve answers on a listener until the context ends. Then it accepts nothing
// more, ends the streams, and waits for the other requests as long as
// Limits.Grace; what is under way goes on behind those that it cuts off. A
// unix socket's callers are this user, others need a key.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	at := listener{socket: ln.Addr().Network() == "unix", faces: s.o.Faces, stopping: ctx.Done()}
	base, cut := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), listenerKey{}, at))
	defer cut()
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.o.Limits.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, conn)
		},
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return core.Errorf(core.CodeServerUnreachable, "the server stopped answering on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), s.o.Limits.Grace)
	defer stop()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests that did not end in time were cut off", "address", ln.Addr().String())
		cut()
		err = srv.Close()
	}
	if served := <-done; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return core.Errorf(core.CodeInternal, "closing %s: %w", ln.Addr(), err)
	}
	return nil
}

// stopping is closed when the listener of a request, or the server, stops.
func (s *Server) stopping(ctx context.Context) <-chan struct{} { return listenerOf(ctx).stopping }

// leaving reports whether the listener of a request, or the server, stops.
func (s *Server) leaving(ctx context.Context) bool {
	select {
	case <-s.stopping(ctx):
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}
