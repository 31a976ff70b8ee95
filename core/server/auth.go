package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type scopeKey struct{}

// ScopeFrom says whose request a context belongs to. There is none for the
// paths that anybody may ask for.
func ScopeFrom(ctx context.Context) (api.Scope, bool) {
	scope, ok := ctx.Value(scopeKey{}).(api.Scope)
	return scope, ok
}

type againKey struct{}

// stillMay reports whether a request that lasts would be let in again: its key
// may have been removed since.
func stillMay(ctx context.Context) bool {
	again, ok := ctx.Value(againKey{}).(func() bool)
	return ok && again()
}

// headerPrefix begins the headers by which a caller on the socket speaks for
// itself. Over TCP nothing is believed of them, so they are refused.
const headerPrefix = "Pml-"

// authenticated lets through who may call, and says who it is.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		check := s.keyed
		if listenerOf(r.Context()).socket {
			check = s.local
		}
		scope, p := check(r)
		if p != nil {
			p.write(w)
			return
		}
		ctx := context.WithValue(r.Context(), scopeKey{}, scope)
		ctx = context.WithValue(ctx, againKey{}, func() bool {
			now, p := check(r)
			return p == nil && now == scope
		})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// local is the scope of a request on the socket: its caller is this user.
func (s *Server) local(r *http.Request) (api.Scope, *problem) {
	scope := api.Scope{By: core.Actor{Who: s.o.User, Via: core.ViaHTTP}}
	var faults []core.Fault
	if len(r.Header.Values(api.HeaderWorkspace)) > 1 || len(r.Header.Values(api.HeaderVia)) > 1 {
		faults = append(faults, core.Fault{Message: "a Pml- header is there twice"})
	}
	if dir, err := url.PathUnescape(r.Header.Get(api.HeaderWorkspace)); dir != "" || err != nil {
		if err != nil || !filepath.IsAbs(dir) || len(dir) > 4096 || strings.ContainsRune(dir, 0) {
			faults = append(faults, core.Fault{Message: api.HeaderWorkspace + " must be the absolute path of a folder, percent-encoded"})
		}
		scope.Workspace = filepath.Clean(dir)
	}
	switch via := core.Via(r.Header.Get(api.HeaderVia)); via {
	case "", core.ViaHTTP:
	case core.ViaCLI, core.ViaTUI:
		scope.By.Via = via
	case core.ViaMCP: // an agent's host: never a person, and of its folder only
		scope.By.Via, scope.Confined = via, true
		client, wrong := clientOf(r)
		if scope.By.Client = client; wrong != "" {
			faults = append(faults, core.Fault{Message: wrong + " must be there once, percent-encoded"})
		}
	default:
		faults = append(faults, core.Fault{Message: api.HeaderVia + " must be cli, tui or mcp"})
	}
	if len(faults) > 0 {
		return scope, invalid(faults)
	}
	return scope, nil
}

// agentHeaders are the headers in which an agent's host says what it is.
var agentHeaders = []string{api.HeaderAgent, api.HeaderAgentVersion, api.HeaderAgentTitle}

// clientOf is how an agent's host has introduced itself to the pml that sends a
// request for it; wrong names a header that cannot be read.
func clientOf(r *http.Request) (c core.Client, wrong string) {
	var said [3]string
	for i, name := range agentHeaders {
		text, err := url.PathUnescape(r.Header.Get(name))
		if said[i] = text; err != nil || len(r.Header.Values(name)) > 1 {
			wrong = name
		}
	}
	return core.NewClient(said[0], said[1], said[2]), wrong
}

// keyed is the scope of a request with an API key.
func (s *Server) keyed(r *http.Request) (api.Scope, *problem) {
	by := core.Actor{Via: core.ViaHTTP}
	client, wrong := clientOf(r)
	for name, values := range r.Header {
		if name == api.HeaderVia && len(values) == 1 && values[0] == string(core.ViaMCP) {
			by.Via = core.ViaMCP // who says that it is no person is believed
			continue
		}
		if slices.Contains(agentHeaders, name) && wrong == "" {
			by.Client = client
			continue
		}
		if strings.HasPrefix(name, headerPrefix) {
			return api.Scope{}, invalid([]core.Fault{{Message: "the header " + core.Visible(name, 60, false) + " is for the socket only; leave it out"}})
		}
	}
	token, ok := tokenOf(r)
	if !ok {
		return api.Scope{}, problemOf(core.Errorf(core.CodeAuth, "this server wants an API key: send one as Authorization: Bearer, or as x-api-key"))
	}
	if s.o.Keys == nil {
		return api.Scope{}, problemOf(core.Errorf(core.CodeAuth, "this server has no API keys; call it on its socket"))
	}
	owner, ok, err := s.o.Keys.Owner(token)
	if err != nil {
		return api.Scope{}, s.failure(r.Context(), err)
	}
	if !ok {
		return api.Scope{}, problemOf(core.Errorf(core.CodeAuth, "this server does not know the API key; it may have been removed"))
	}
	by.Who = owner
	return api.Scope{Owner: owner, By: by}, nil
}

// tokenOf is the key of a request; two different ones are none.
func tokenOf(r *http.Request) (string, bool) {
	var tokens []string
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false
		}
		tokens = append(tokens, strings.TrimSpace(token))
	}
	tokens = append(tokens, r.Header.Values("X-Api-Key")...)
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	if len(tokens) != 1 || tokens[0] == "" {
		return "", false
	}
	return tokens[0], true
}

// addressed refuses requests that a web page made a browser send: by a name
// that was made to point here, or from a page that nobody has allowed.
func (s *Server) addressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onSocket := listenerOf(r.Context()).socket
		if !onSocket && !s.knownHost(r.Host) {
			problemOf(core.Errorf(core.CodePermissionDenied, "this server is not known as %s; start it with that name allowed", core.Visible(r.Host, 100, false))).write(w)
			return
		}
		origins := r.Header.Values("Origin")
		if len(origins) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if onSocket || len(origins) > 1 || !slices.Contains(s.o.Origins, origins[0]) && !ownOrigin(r, origins[0]) {
			problemOf(core.Errorf(core.CodePermissionDenied, "pages of %s may not call this server", core.Visible(origins[0], 100, false))).write(w)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate, Mcp-Session-Id")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Api-Key, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownOrigin reports whether a page is of this server itself, as it is addressed
// on its own machine: no other page has that origin.
func ownOrigin(r *http.Request, origin string) bool {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return loopback(nameOf(r.Host)) && strings.EqualFold(origin, scheme+r.Host)
}

func (s *Server) knownHost(host string) bool {
	name := nameOf(host)
	return loopback(name) || slices.ContainsFunc(s.o.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// nameOf is a host without its port.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
