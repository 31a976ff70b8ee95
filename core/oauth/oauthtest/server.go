// Package oauthtest runs a protected MCP server and the authorization server
// in front of it, for tests: correct by default, and wrong where a Behaviour
// says so. Both listen on loopback, without TLS.
package oauthtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Behaviour is how the two servers behave. The zero value is a server as the
// MCP specification of 2026-07-28 has it, whose tokens do not expire.
type Behaviour struct {
	// NoMetadata leaves all metadata out; the endpoints are then those of
	// 2025-03-26, at the MCP server's own origin.
	NoMetadata bool
	// NoServerMetadata leaves out that of the authorization server only.
	NoServerMetadata bool
	// OpenID serves the metadata as OpenID Connect does, and nowhere else.
	OpenID bool
	// IssuerPath is the path of the issuer, "/tenant".
	IssuerPath string
	// Resource and Issuer are what the metadata says instead of the truth.
	Resource, Issuer string
	// Endpoint is the token endpoint that the metadata names instead.
	Endpoint string
	// NoS256 leaves PKCE out of the metadata.
	NoS256 bool
	// Redirect is where requests for metadata are sent instead.
	Redirect string
	// NoRegistration leaves the endpoint for registrations out of the metadata.
	NoRegistration bool
	// RefuseRegistration answers registrations with an error.
	RefuseRegistration bool
	// Method is the client authentication that a registration gets, with a
	// secret; empty means none.
	Method string
	// Lifetime is that of access tokens; zero does not say it.
	Lifetime time.Duration
	// NoRefresh gives no refresh token, Rotate a new one with each refresh.
	NoRefresh, Rotate bool
	// AnnounceIss announces and sends iss (RFC 9207); OmitIss announces and
	// does not send it; WrongIss is sent instead, announced or not.
	AnnounceIss, OmitIss bool
	WrongIss             string
	// Deny is a person who does not consent.
	Deny bool
	// Scope is what a request needs: the 401 names it, and a token without it is
	// answered 403.
	Scope string
	// TokenStatus, when not zero, is the status of all answers of the token
	// endpoint, with TokenBody,
	// and a Location of TokenRedirect.
	TokenStatus              int
	TokenBody, TokenRedirect string
}

// Server is the pair of servers.
type Server struct {
	// URL is the MCP endpoint, Issuer the authorization server.
	URL, Issuer string

	origin    string // of URL
	mcp, auth *httptest.Server
	mcpHandle http.Handler

	mu            sync.Mutex
	b             Behaviour
	now           func() time.Time
	clients       map[string]client
	codes         map[string]grant
	access        map[string]grant
	refresh       map[string]grant
	secrets       []string
	refreshes     int
	exchanges     int
	registrations int
	hold          chan struct{}
	held          chan struct{}
	holding       sync.WaitGroup
}

type client struct {
	id, secret, method string
	redirects          []string
}

type grant struct {
	client, redirect, challenge, resource, scope string
	expires                                      time.Time
}

// New starts both servers. now is their clock.
func New(b Behaviour, now func() time.Time) *Server {
	s := &Server{b: b, now: now, clients: map[string]client{}, codes: map[string]grant{}, access: map[string]grant{}, refresh: map[string]grant{}}
	m := server.NewMCPServer("protected", "1")
	m.AddTool(mcp.NewTool("echo"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		raw, err := json.Marshal(r.GetRawArguments())
		return mcp.NewToolResultText(string(raw)), err
	})
	s.mcpHandle = server.NewStreamableHTTPServer(m)
	s.mcp = httptest.NewUnstartedServer(http.HandlerFunc(s.serveMCP))
	s.auth = httptest.NewUnstartedServer(http.HandlerFunc(s.serveAuth))
	s.origin = "http://" + s.mcp.Listener.Addr().String()
	s.URL = s.origin + "/mcp"
	s.Issuer = "http://" + s.auth.Listener.Addr().String() + b.IssuerPath
	if b.NoMetadata {
		s.Issuer = s.origin
	}
	s.mcp.Start()
	s.auth.Start()
	return s
}

// Close stops both servers.
func (s *Server) Close() {
	s.mcp.CloseClientConnections()
	s.mcp.Close()
	s.auth.CloseClientConnections()
	s.auth.Close()
}

// Set changes the behaviour.
func (s *Server) Set(change func(*Behaviour)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.b)
}

// Revoke makes all tokens invalid; RevokeAccess leaves refresh tokens.
func (s *Server) Revoke() {
	s.RevokeAccess()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh = map[string]grant{}
}

// RevokeAccess makes all access tokens invalid.
func (s *Server) RevokeAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.access = map[string]grant{}
}

// ForgetClients drops all registrations.
func (s *Server) ForgetClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = map[string]client{}
}

// AddClient registers a client by hand; a secret may be empty.
func (s *Server) AddClient(id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := client{id: id, secret: secret, method: "none"}
	if secret != "" {
		c.method = "client_secret_basic"
	}
	s.clients[id] = c
}

// Counts returns how often clients have registered and refreshed.
func (s *Server) Counts() (registrations, refreshes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registrations, s.refreshes
}

// Exchanges returns how often somebody has tried to redeem a code.
func (s *Server) Exchanges() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exchanges
}

// Secrets returns every token, code and secret that was ever given out.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// HoldTokens makes token requests wait until release is called; held gets one
// value for each that waits. release returns when they have been answered.
func (s *Server) HoldTokens() (held <-chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold, s.held = make(chan struct{}), make(chan struct{}, 100)
	h := s.hold
	return s.held, sync.OnceFunc(func() {
		close(h)
		s.holding.Wait()
	})
}

// secret makes a value that no test's output may contain; s.mu is held.
func (s *Server) secret(kind string) string {
	v := kind + "-" + rand.Text()
	s.secrets = append(s.secrets, v)
	return v
}

// serveMCP is the protected server.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b := s.b
	s.mu.Unlock()
	switch {
	case b.NoMetadata && slices.Contains([]string{"/authorize", "/token", "/register"}, r.URL.Path):
		s.serveAuth(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		s.serveResource(w, r, b)
		return
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
		return
	}
	status := s.check(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), b)
	if status == http.StatusOK {
		s.mcpHandle.ServeHTTP(w, r)
		return
	}
	challenge := "Bearer realm=\"test\""
	if !b.NoMetadata {
		challenge += fmt.Sprintf(", resource_metadata=%q", s.origin+"/.well-known/oauth-protected-resource/mcp")
	}
	if b.Scope != "" {
		challenge += fmt.Sprintf(", scope=%q", b.Scope)
	}
	if status == http.StatusForbidden {
		challenge += `, error="insufficient_scope"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}

// check says what a request with a token is answered.
func (s *Server) check(token string, b Behaviour) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.access[token]
	if !ok || !g.expires.IsZero() && !s.now().Before(g.expires) {
		return http.StatusUnauthorized
	}
	for scope := range strings.FieldsSeq(b.Scope) {
		if !slices.Contains(strings.Fields(g.scope), scope) {
			return http.StatusForbidden
		}
	}
	return http.StatusOK
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, b Behaviour) {
	switch {
	case b.NoMetadata:
		http.NotFound(w, r)
	case b.Redirect != "":
		http.Redirect(w, r, b.Redirect, http.StatusFound)
	default:
		resource := s.URL
		if b.Resource != "" {
			resource = b.Resource
		}
		reply(w, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": []string{s.Issuer}})
	}
}

func reply(w http.ResponseWriter, status int, doc map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // a client that left
}

// Browse opens a URL as a browser does for a person who consents, follows the
// redirects to the callback and returns its status and page.
func Browse(ctx context.Context, url string) (status int, page string, err error) {
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var b strings.Builder
	_, err = copyBounded(&b, resp.Body)
	return resp.StatusCode, b.String(), err
}
