package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/casys-ai/pml/core"
)

// The ways in which a client proves itself at the token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// registration is pml as one authorization server knows it.
type registration struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"token_endpoint_auth_method"`
	// Redirect is the one callback it was registered with, port and all: many
	// servers compare it exactly.
	Redirect string    `json:"redirect_uri,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // of the secret
	// Given is set for one that was made by hand.
	Given bool `json:"given,omitempty"`
}

// config is the registration as the library takes it.
func (g registration) config(tokenEndpoint string) oauth2.Config {
	style := oauth2.AuthStyleInParams
	secret := g.Secret
	switch g.Method {
	case methodBasic:
		style = oauth2.AuthStyleInHeader
	case methodNone:
		secret = ""
	}
	return oauth2.Config{ClientID: g.ID, ClientSecret: secret, Endpoint: oauth2.Endpoint{TokenURL: tokenEndpoint, AuthStyle: style}}
}

// fits reports whether a kept registration can be used for a flow.
func (g *registration) fits(want []string, now time.Time) bool {
	if g == nil || g.Given || !g.Expires.IsZero() && !now.Before(g.Expires) {
		return false
	}
	return len(g.Scopes) == 0 || includes(g.Scopes, want)
}

// servesFor reports whether a flow that was begun with this registration is the
// one that the server's entry asks for now.
func (g *registration) servesFor(s Server) bool {
	if s.ClientID == "" {
		return !g.Given
	}
	return s.ClientID == g.ID && s.ClientSecret == g.Secret && (s.RedirectPort == 0 || strconv.Itoa(s.RedirectPort) == portOf(g.Redirect))
}

// includes reports whether all of some scopes are among others.
func includes(all, some []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}

// registerRequest and registerResponse are those of RFC 7591.
type registerRequest struct {
	Name            string   `json:"client_name"`
	ApplicationType string   `json:"application_type"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	Scope           string   `json:"scope,omitempty"`
}

type registerResponse struct {
	ID            string   `json:"client_id"`
	Secret        string   `json:"client_secret"`
	SecretExpires int64    `json:"client_secret_expires_at"`
	Method        string   `json:"token_endpoint_auth_method"`
	RedirectURIs  []string `json:"redirect_uris"`
	Error         string   `json:"error"`
	Description   string   `json:"error_description"`
}

// given is a registration that was made by hand.
func given(s Server, m serverMetadata) *registration {
	g := &registration{ID: s.ClientID, Secret: s.ClientSecret, Method: methodNone, Given: true}
	if g.Secret != "" {
		g.Method = secretMethod(m)
	}
	return g
}

// renew takes the secret that the entry has now for a client that was
// registered by hand: secrets are replaced while tokens live on.
func (g *registration) renew(s Server) {
	if g == nil || !g.Given || g.ID != s.ClientID || g.Secret == s.ClientSecret {
		return
	}
	g.Secret = s.ClientSecret
	switch {
	case g.Secret == "":
		g.Method = methodNone
	case g.Method == methodNone:
		g.Method = methodBasic
	}
}

// secretMethod is how a secret is sent when nobody said: as the header, unless
// the server takes the parameter only.
func secretMethod(m serverMetadata) string {
	if slices.Contains(m.AuthMethods, methodPost) && !slices.Contains(m.AuthMethods, methodBasic) {
		return methodPost
	}
	return methodBasic
}

// register makes pml known to an authorization server. Killed before the
// answer is kept, the server has one registration more that nobody uses.
func (c *Client) register(ctx context.Context, s Server, t target, redirect string) (*registration, error) {
	m := t.server
	if m.RegistrationEndpoint == "" {
		return nil, core.Errorf(core.CodeAuth, "cannot connect server %q: its authorization server %s does not let programs register themselves; register pml there by hand, "+
			"with the callback %s (or 127.0.0.1 and a port of your choice), and put what it gives you into the server's entry: "+
			`"oauth": {"client_id": "…", "client_secret": "${…}", "redirect_port": …}`, core.Visible(s.Name, 100, false), m.Issuer, redirectURI("PORT")).
			WithNext("pml", "servers", "add", "--help") // where the flags are that write it
	}
	method := methodNone
	if len(m.AuthMethods) > 0 && !slices.Contains(m.AuthMethods, methodNone) {
		method = secretMethod(m)
	}
	status, body, err := c.post(ctx, m.RegistrationEndpoint, registerRequest{
		Name: "pml", ApplicationType: "native", RedirectURIs: []string{redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		Method: method, Scope: strings.Join(t.scopes, " "),
	})
	if err != nil {
		return nil, err
	}
	var resp registerResponse
	parsed := json.Unmarshal(body, &resp) == nil
	switch {
	case status >= 500:
		return nil, core.Errorf(core.CodeServerUnreachable, "%s answered with status %d; try again later", m.RegistrationEndpoint, status)
	case status != 200 && status != 201 && m.guessed:
		return nil, refused(s, "it says nothing of OAuth: there is no metadata, and %s answered with status %d", m.RegistrationEndpoint, status)
	case status != 200 && status != 201:
		return nil, refused(s, "its authorization server %s refused to register pml (status %d)%s", m.Issuer, status,
			because(resp.Error, resp.Description, resp.Secret))
	case !parsed:
		return nil, refused(s, "the registration's answer of %s is not valid JSON", m.Issuer)
	}
	return resp.registration(s, t, redirect, method)
}

// registration checks what the server has made of the request.
func (r registerResponse) registration(s Server, t target, redirect, asked string) (*registration, error) {
	g := &registration{ID: r.ID, Secret: r.Secret, Method: r.Method, Redirect: redirect, Scopes: t.scopes}
	if r.SecretExpires > 0 && r.Secret != "" {
		g.Expires = time.Unix(r.SecretExpires, 0).UTC()
	}
	switch {
	case g.Method != "":
	case g.Secret != "":
		g.Method = secretMethod(t.server)
	default:
		g.Method = asked
	}
	switch {
	case !printable(g.ID, maxURL) || g.Secret != "" && !printable(g.Secret, maxURL):
		return nil, refused(s, "its authorization server %s gave no usable client id", t.server.Issuer)
	case len(r.RedirectURIs) > 0 && !slices.Contains(r.RedirectURIs, redirect):
		return nil, refused(s, "its authorization server %s registered another callback than %s", t.server.Issuer, redirect)
	case g.Method != methodNone && (g.Method != methodBasic && g.Method != methodPost || g.Secret == ""):
		return nil, refused(s, "its authorization server %s asks for client authentication by %q", t.server.Issuer, core.Visible(g.Method, 50, false))
	}
	return g, nil
}

// forgotten asks the token endpoint whether it still knows a registration. A
// server that has forgotten it would only tell the person, on a page in the
// browser, and no callback would come. Any answer but invalid_client counts as
// known.
func (c *Client) forgotten(ctx context.Context, g registration, t target) bool {
	conf := g.config(t.server.TokenEndpoint)
	conf.RedirectURL = g.Redirect
	_, err := conf.Exchange(c.withHTTP(ctx), "pml-asks-whether-it-is-known",
		oauth2.VerifierOption(strings.Repeat("0", 43)), oauth2.SetAuthURLParam("resource", t.resource))
	var re *oauth2.RetrieveError
	return errors.As(err, &re) && re.ErrorCode == "invalid_client"
}

// explain says what to do about a failed token request. Where the server refuses a
// client that a person registered by hand, connecting again cannot help: explain names
// the settings to correct.
func (g *registration) explain(f tokenFailure) *core.Error {
	if !g.Given || f.code != "invalid_client" && f.code != "unauthorized_client" {
		return f.err
	}
	return core.Errorf(core.CodeAuth, "the authorization server does not accept the client that was registered by hand (%s): correct client_id or client_secret under \"oauth\" in the server's entry, or the variable that holds the secret, then connect the server again", f.code)
}
