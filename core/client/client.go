// Package client is a pml server seen from another process: the mirror of
// core/server, with the methods of core/service's Service. Streams of events come
// back after a lost connection, without a gap and without a repetition.
//
// A request that cannot reach the server fails at once. One that loses its
// server in the middle waits for it to come back, where sending it again cannot
// do anything twice; otherwise the error says that nobody knows.
package client

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Options say which server, and who asks. One of Socket and URL is needed, and
// Clock.
type Options struct {
	// Socket is the path of a unix socket, URL an http or https address.
	Socket string
	URL    string
	// APIKey is sent to a URL only. It is never logged and in no error.
	APIKey string
	// Workspace is the folder that requests are about, and Via how they came in
	// (cli, tui or mcp); a server takes them on its socket only.
	Workspace string
	Via       core.Via
	Version   string
	// Checked leaves out the first look at the server's version, where the
	// caller has had it.
	Checked bool
	// Redial finds the socket of a server that is not there any more: another
	// one may have taken its place, or with start is started. An empty socket:
	// there is none. Nil: the server is waited for where it was.
	Redial func(ctx context.Context, start bool) (socket string, err error)
	// Passive has Redial start a server for what decides or runs something only:
	// reading finds the one that is there.
	Passive bool
	// Link is called when the stream of all events breaks off (err says why), and
	// when it is there, again and again. May be nil.
	Link func(live bool, err error)
	// Warn is called once while pml waits for a server that is away. May be nil.
	Warn   func(string)
	Clock  core.Clock
	Logger *slog.Logger
	// Dial opens connections, Rand spreads retries and NewKey makes idempotency
	// keys; nil for the usual ones.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Rand   func() float64
	NewKey func() string
	Limits Limits
}

// Limits bound requests. A zero field is the default.
type Limits struct {
	Timeout time.Duration // for an answer, on top of what the caller waits for; 30 s
	// Chunk is the longest single wait that is asked of the server: hosts and
	// proxies cut longer ones; 25 s.
	Chunk time.Duration
	// Away is how long a server that was there may be gone before a wait fails; 2 min.
	Away   time.Duration
	Silent time.Duration // a stream without a heartbeat is taken for dead; 45 s
	Body   int64         // of an answer, in bytes; 128 MiB
	Frame  int           // of a stream, in bytes; 32 MiB
}

func (l Limits) withDefaults() Limits {
	set(&l.Timeout, 30*time.Second)
	set(&l.Chunk, 25*time.Second)
	set(&l.Away, 2*time.Minute)
	set(&l.Silent, 45*time.Second)
	set(&l.Body, 128<<20)
	set(&l.Frame, 32<<20)
	return l
}

func set[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// Client asks one server. It is safe for concurrent use, and connects when it
// is first used.
type Client struct{ *connection }

// connection is the way to a server: where it is, whether it is one that this pml
// understands, and how a request is sent, repeated and answered.
type connection struct {
	o    Options
	base *url.URL
	// name is the server in messages: its socket, or its URL.
	name string
	http *http.Client

	known known

	mu      sync.Mutex
	checked bool
	socket  string // where the server is now; name is where it was at first
	told    sync.Once
}

// What a server does for runs, a Client does.
var (
	_ api.Runs      = (*Client)(nil)
	_ api.Workflows = (*Client)(nil)
	_ api.Details   = (*Client)(nil)
	_ api.Traces    = (*Client)(nil)
	_ api.Approvals = (*Client)(nil)
	_ api.Catalog   = (*Client)(nil)
	_ api.Audit     = (*Client)(nil)
)

// New returns a client. It fails when the server's address makes no sense, with
// core.CodeInvalidConfig.
func New(o Options) (*Client, error) {
	o.Limits = o.Limits.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = mathrand.Float64
	}
	if o.NewKey == nil {
		o.NewKey = rand.Text
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	if path, ok := strings.CutPrefix(o.URL, "unix:"); ok && o.Socket == "" {
		o.Socket, o.URL = "/"+strings.TrimLeft(path, "/"), ""
	}
	o.APIKey = strings.TrimSpace(o.APIKey)
	c := &connection{o: o, checked: o.Checked, socket: o.Socket}
	if err := c.address(); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: c.dial, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	if o.Socket == "" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		// Another address would get the key.
		return http.ErrUseLastResponse
	}}
	return &Client{c}, nil
}

// address checks where the server is said to be.
func (c *connection) address() error {
	if c.o.Socket != "" {
		if !filepath.IsAbs(c.o.Socket) {
			return core.Errorf(core.CodeInvalidConfig, "the socket %s is not an absolute path", core.Visible(c.o.Socket, 200, false))
		}
		c.base, c.name = &url.URL{Scheme: "http", Host: "pml"}, core.Visible(c.o.Socket, 200, false)
		return nil
	}
	u, err := url.Parse(c.o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return core.Errorf(core.CodeInvalidConfig, "the address of the server is not a URL like https://pml.example.com; correct --server, PML_SERVER or server.url")
	}
	if !carried(c.o.APIKey) {
		return core.Errorf(core.CodeInvalidConfig, "the API key has a line break or another control character in it; correct PML_API_KEY")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return core.Errorf(core.CodeInvalidConfig, "the URL of the server has more than a host and a path; a key belongs in PML_API_KEY")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	c.base, c.name = u, core.Visible(u.String(), 200, false)
	if u.Scheme == "http" && c.o.APIKey != "" && !loopback(u.Hostname()) {
		c.o.Logger.Warn("the API key is sent without encryption", "server", c.name)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.o.Socket != "" {
		c.mu.Lock()
		network, address = "unix", c.socket
		c.mu.Unlock()
	}
	return c.o.Dial(ctx, network, address)
}

// Name is the server as messages call it: its socket, or its URL.
func (c *connection) Name() string { return c.name }

// Close gives up the connections that nobody uses.
func (c *connection) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
