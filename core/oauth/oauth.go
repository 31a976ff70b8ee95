// Package oauth connects pml to MCP servers that are protected by OAuth 2.1:
// it finds the authorization server, registers pml there, takes the person's
// consent through a callback on loopback, and keeps and refreshes tokens.
//
// Facts are from the MCP authorization specification (2025-06-18 and later)
// and from RFC 9728, 8414, 7591, 7636, 8252, 8707 and 9207.
package oauth

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/casys-ai/pml/core"
)

// Options are what a Client is made of. Dir and Clock are needed.
type Options struct {
	// Dir is where credentials are kept, $PML_HOME/credentials: 0700, its files
	// 0600.
	Dir   string
	Clock core.Clock
	// HTTP is used for all requests; nil means one with sane time-outs. Its
	// redirect policy and cookies are not used.
	HTTP *http.Client
	// Rand is where state and verifier come from; nil means crypto/rand.
	Rand   io.Reader
	Logger *slog.Logger
	// Ticks makes the ticks on which a flow looks what other processes have
	// done; nil means time.NewTicker.
	Ticks func(every time.Duration) (ticks <-chan time.Time, stop func())
}

// Client connects servers and keeps their tokens. It is safe for concurrent
// use, and by several processes.
type Client struct {
	o      Options
	http   *http.Client
	flight singleflight.Group // refreshes, by server and stale token

	mu     sync.Mutex               // guards what follows
	listed time.Time                // when the folder had changed that was read last; zero: read it
	seen   map[string]string        // by value: the name of every secret that this process has met
	failed map[string]failedRefresh // by server: the last refresh after a rejection, if it failed
	files  map[string]keptFile      // by server: see kept
}

// Server is an MCP server as OAuth sees it: a protected resource.
type Server struct {
	Name string // for messages
	URL  string // the MCP endpoint; tokens are bound to it
	// Metadata and Scope are what the server's 401 named (resource_metadata and
	// scope of WWW-Authenticate); empty means they are looked up.
	Metadata, Scope string
	// ClientID is set when pml was registered by hand at the authorization
	// server; ClientSecret may then be set too. Empty means that pml registers
	// itself.
	ClientID, ClientSecret string
	// Scopes are asked for instead of those that the server's metadata lists;
	// what its 401 named (Scope) is asked for, too.
	Scopes []string
	// RedirectPort is the port of the callback that was registered by hand; 0
	// means any free one.
	RedirectPort int
}

// New returns a client. It touches neither disk nor network yet.
func New(o Options) *Client {
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ticks == nil {
		o.Ticks = func(every time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(every)
			return t.C, t.Stop
		}
	}
	return &Client{o: o, http: newHTTP(o.HTTP), seen: map[string]string{}, failed: map[string]failedRefresh{}, files: map[string]keptFile{}}
}

// Connected reports whether there are credentials for a server that can be
// used or refreshed. With a Scope, they must be for that, too: a server that
// wants more than was consented to is not connected.
func (c *Client) Connected(s Server) bool {
	r, err := parseServerURL(s.URL)
	if err != nil {
		return false
	}
	cred, err := c.load(r)
	return err == nil && cred.usable() && cred.covers(s.Scope) && (cred.RefreshToken != "" || !cred.expired(c.o.Clock.Now()))
}

// Disconnect forgets a server's credentials: tokens, registration and a flow
// that was begun. What is not there is no error.
func (c *Client) Disconnect(s Server) error {
	r, err := parseServerURL(s.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	return c.locked(ctx, r, func() error {
		// The flow first: killed in between, nothing connects the server again.
		if err := c.remove(c.flowFile(r)); err != nil {
			return err
		}
		return c.remove(c.credentialsFile(r))
	})
}
