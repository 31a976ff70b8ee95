package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func copyBounded(w io.Writer, r io.Reader) (int64, error) {
	return io.Copy(w, io.LimitReader(r, 1<<20))
}

// serveAuth is the authorization server.
func (s *Server) serveAuth(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b := s.b
	s.mu.Unlock()
	path := r.URL.Path
	if !b.NoMetadata {
		path = strings.TrimPrefix(path, b.IssuerPath)
	}
	switch path {
	case "/authorize":
		s.authorize(w, r, b)
	case "/token":
		s.token(w, r, b)
	case "/register":
		s.register(w, r, b)
	default:
		s.serveIssuer(w, r, b)
	}
}

// serveIssuer is the metadata, at the one place of the kind that is served.
func (s *Server) serveIssuer(w http.ResponseWriter, r *http.Request, b Behaviour) {
	place := "/.well-known/oauth-authorization-server" + b.IssuerPath
	if b.OpenID {
		place = b.IssuerPath + "/.well-known/openid-configuration"
	}
	if b.NoMetadata || b.NoServerMetadata || r.URL.Path != place {
		http.NotFound(w, r)
		return
	}
	doc := map[string]any{
		"issuer": s.Issuer, "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token",
		"registration_endpoint": s.Issuer + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": b.AnnounceIss || b.OmitIss,
	}
	if b.Issuer != "" {
		doc["issuer"] = b.Issuer
	}
	if b.Endpoint != "" {
		doc["token_endpoint"] = b.Endpoint
	}
	if b.NoS256 {
		delete(doc, "code_challenge_methods_supported")
	}
	if b.NoRegistration {
		delete(doc, "registration_endpoint")
	}
	if b.Method != "" {
		doc["token_endpoint_auth_methods_supported"] = []string{b.Method}
	}
	reply(w, http.StatusOK, doc)
}

// register is RFC 7591.
func (s *Server) register(w http.ResponseWriter, r *http.Request, b Behaviour) {
	var req struct {
		RedirectURIs    []string `json:"redirect_uris"`
		Method          string   `json:"token_endpoint_auth_method"`
		ApplicationType string   `json:"application_type"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&req)
	want := b.Method
	if want == "" {
		want = "none"
	}
	if b.RefuseRegistration || err != nil || r.Method != http.MethodPost || req.Method != want || req.ApplicationType != "native" || len(req.RedirectURIs) != 1 {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata", "error_description": "no\x1b[31m programs"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registrations++
	c := client{id: s.secret("client")[:20], method: want, redirects: req.RedirectURIs}
	s.secrets = s.secrets[:len(s.secrets)-1] // an id is no secret
	doc := map[string]any{"client_id": c.id, "redirect_uris": c.redirects, "token_endpoint_auth_method": want}
	if b.Method != "" {
		c.secret = s.secret("secret")
		doc["client_secret"], doc["client_secret_expires_at"] = c.secret, 0
	}
	s.clients[c.id] = c
	reply(w, http.StatusCreated, doc)
}

// authorize is a consent page that consents by itself. What a browser may not
// be redirected for is answered with a page, as RFC 6749 §4.1.2.1 says.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, b Behaviour) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clients[q.Get("client_id")]
	back, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case !ok:
		http.Error(w, "this client is not known", http.StatusBadRequest)
		return
	case err != nil || len(c.redirects) > 0 && !slices.Contains(c.redirects, q.Get("redirect_uri")):
		http.Error(w, "this callback is not registered", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.resource():
		http.Error(w, "a parameter is missing", http.StatusBadRequest)
		return
	}
	v := url.Values{"state": {q.Get("state")}}
	if b.Deny {
		v.Set("error", "access_denied")
		v.Set("error_description", "<b>no</b>")
	} else {
		code := s.secret("code")
		s.codes[code] = grant{client: c.id, redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), resource: q.Get("resource"), scope: q.Get("scope")}
		v.Set("code", code)
	}
	switch {
	case b.WrongIss != "":
		v.Set("iss", b.WrongIss)
	case b.AnnounceIss:
		v.Set("iss", s.Issuer)
	}
	back.RawQuery = v.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *Server) resource() string {
	if s.b.Resource != "" {
		return s.b.Resource
	}
	return s.URL
}

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request, b Behaviour) {
	s.mu.Lock()
	hold, held := s.hold, s.held
	s.mu.Unlock()
	if hold != nil {
		s.holding.Add(1)
		defer s.holding.Done()
		held <- struct{}{}
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refresh := r.FormValue("grant_type") == "refresh_token"
	if refresh {
		s.refreshes++
	} else {
		s.exchanges++
	}
	if b.TokenStatus != 0 {
		w.Header().Set("Content-Type", "application/json")
		if b.TokenRedirect != "" {
			w.Header().Set("Location", b.TokenRedirect)
		}
		w.WriteHeader(b.TokenStatus)
		_, _ = io.WriteString(w, b.TokenBody) // a client that left
		return
	}
	c, ok := s.authenticate(r)
	if !ok {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	from, key := s.codes, r.FormValue("code")
	if refresh {
		from, key = s.refresh, r.FormValue("refresh_token")
	}
	g, ok := from[key]
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	proved := refresh || base64.RawURLEncoding.EncodeToString(sum[:]) == g.challenge && r.FormValue("redirect_uri") == g.redirect
	if !ok || !proved || g.client != c.id || r.FormValue("resource") != g.resource {
		// A server that sends the secret back is the worst that can be.
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "not good: " + key})
		return
	}
	s.issue(w, g, key, refresh, b)
}

// issue gives tokens out; s.mu is held.
func (s *Server) issue(w http.ResponseWriter, g grant, key string, refresh bool, b Behaviour) {
	doc := map[string]any{"token_type": "Bearer", "scope": g.scope}
	delete(s.codes, key)
	if b.Lifetime > 0 {
		g.expires = s.now().Add(b.Lifetime)
		doc["expires_in"] = int(b.Lifetime.Seconds())
	}
	access := s.secret("access")
	s.access[access] = g
	doc["access_token"] = access
	if !b.NoRefresh && (!refresh || b.Rotate) {
		if refresh {
			delete(s.refresh, key)
		}
		next := s.secret("refresh")
		s.refresh[next] = g
		doc["refresh_token"] = next
	}
	reply(w, http.StatusOK, doc)
}

// authenticate checks who asks, in the way that was registered; s.mu is held.
func (s *Server) authenticate(r *http.Request) (client, bool) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	c, ok := s.clients[id]
	return c, ok && secret == c.secret && basic == (c.method == "client_secret_basic")
}
