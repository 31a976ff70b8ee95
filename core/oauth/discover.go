package oauth

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// resourceMetadata is what a protected resource says of itself (RFC 9728).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

// serverMetadata is what an authorization server says of itself (RFC 8414,
// OpenID Connect Discovery).
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	ResponseTypes         []string `json:"response_types_supported"`
	ScopesSupported       []string `json:"scopes_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssInResponse         bool     `json:"authorization_response_iss_parameter_supported"`

	guessed bool // nobody said all this: the endpoints of 2025-03-26
}

// target is all that a flow needs to know of the other side.
type target struct {
	server   serverMetadata
	resource string // the resource parameter
	scopes   []string
}

// discover finds the authorization server of a resource. prefer is the issuer
// that is known already: it is taken when the resource still names it.
func (c *Client) discover(ctx context.Context, s Server, r resource, prefer string) (target, error) {
	meta, err := c.resourceMetadata(ctx, s, r)
	if err != nil {
		return target{}, err
	}
	t := target{resource: r.id}
	if meta == nil {
		t.server, err = c.legacyServer(ctx, s, r)
		t.scopes = scopes(strings.Fields(s.Scope))
		return t, err
	}
	issuer := meta.AuthorizationServers[0]
	if slices.Contains(meta.AuthorizationServers, prefer) {
		issuer = prefer
	}
	server, err := c.serverMetadata(ctx, s, r, issuer)
	if err != nil {
		return target{}, err
	}
	if server == nil {
		return target{}, refused(s, "its authorization server %s publishes no metadata", issuer)
	}
	t.server, t.resource = *server, meta.Resource
	if t.scopes = scopes(strings.Fields(s.Scope)); len(t.scopes) == 0 {
		t.scopes = scopes(meta.ScopesSupported)
	}
	return t, nil
}

// resourceMetadata fetches what the server says of itself: where its 401 said,
// then at the well-known places. It is nil when there is nothing, as before
// 2025-06-18.
func (c *Client) resourceMetadata(ctx context.Context, s Server, r resource) (*resourceMetadata, error) {
	places, err := resourcePlaces(s, r)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		data, err := c.get(ctx, place)
		if err != nil {
			return nil, err
		}
		if data != nil {
			return parseResource(s, r, data)
		}
	}
	return nil, nil
}

func resourcePlaces(s Server, r resource) ([]string, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	var places []string
	if s.Metadata != "" {
		if !r.endpoint(s.Metadata) {
			return nil, refused(s, "its resource metadata is at %s, where pml does not look", core.Visible(s.Metadata, 200, false))
		}
		places = append(places, s.Metadata)
	}
	if path := r.url.EscapedPath(); path != "" {
		at := r.origin + wellKnown + path
		if r.url.RawQuery != "" {
			at += "?" + r.url.RawQuery
		}
		places = append(places, at)
	}
	return append(places, r.origin+wellKnown), nil
}

// parseResource checks a resource's metadata: it must speak of this server
// (RFC 9728 §3.3), or somebody else's consent page would be shown for it.
func parseResource(s Server, r resource, data []byte) (*resourceMetadata, error) {
	var m resourceMetadata
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, refused(s, "its resource metadata is not valid JSON")
	}
	if !r.covers(m.Resource) {
		return nil, refused(s, "its resource metadata speaks of %q and not of %s", core.Visible(m.Resource, 200, false), r.id)
	}
	if len(m.AuthorizationServers) == 0 {
		return nil, refused(s, "its resource metadata names no authorization server")
	}
	for _, issuer := range m.AuthorizationServers {
		if !r.endpoint(issuer) {
			return nil, refused(s, "its authorization server %q is not at an https URL", core.Visible(issuer, 200, false))
		}
	}
	return &m, nil
}

// serverMetadata fetches what an authorization server says of itself; nil when
// it says nothing.
func (c *Client) serverMetadata(ctx context.Context, s Server, r resource, issuer string) (*serverMetadata, error) {
	for _, place := range issuerPlaces(issuer) {
		data, err := c.get(ctx, place)
		if err != nil {
			return nil, err
		}
		if data != nil {
			return parseIssuer(s, r, issuer, data)
		}
	}
	return nil, nil
}

// issuerPlaces is the order of the MCP specification, then the place that some
// servers use against RFC 8414.
func issuerPlaces(issuer string) []string {
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{origin + oauth, origin + openid}
	}
	return []string{origin + oauth + path, origin + openid + path, origin + path + openid, origin + path + oauth}
}

// parseIssuer checks an authorization server's metadata. One that does not say
// that it does PKCE with S256 is refused, as the specification says.
func parseIssuer(s Server, r resource, issuer string, data []byte) (*serverMetadata, error) {
	var m serverMetadata
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, refused(s, "the metadata of its authorization server %s is not valid JSON", issuer)
	}
	// An issuer without a path and one whose path is "/" are the same URI.
	if m.Issuer != issuer && (strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/") || hasPath(issuer)) {
		return nil, refused(s, "the metadata of its authorization server %s speaks of another one, %q", issuer, core.Visible(m.Issuer, 200, false))
	}
	for what, at := range map[string]string{"authorization": m.AuthorizationEndpoint, "token": m.TokenEndpoint, "registration": m.RegistrationEndpoint} {
		if at == "" && what == "registration" {
			continue
		}
		if !r.endpoint(at) {
			return nil, refused(s, "the %s endpoint of %s is at %q, which is no https URL", what, issuer, core.Visible(at, 200, false))
		}
	}
	if !slices.Contains(m.ChallengeMethods, "S256") {
		return nil, refused(s, "its authorization server %s does not say that it supports PKCE with S256", issuer)
	}
	if len(m.ResponseTypes) > 0 && !slices.Contains(m.ResponseTypes, "code") {
		return nil, refused(s, "its authorization server %s does not give authorization codes", issuer)
	}
	return &m, nil
}

func hasPath(issuer string) bool {
	u, err := url.Parse(issuer)
	return err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != ""
}

// legacyServer finds the authorization server of a server without resource
// metadata: it is the server's own origin, with metadata or at the endpoints
// that the revision of 2025-03-26 has by default.
func (c *Client) legacyServer(ctx context.Context, s Server, r resource) (serverMetadata, error) {
	found, err := c.serverMetadata(ctx, s, r, r.origin)
	if err != nil {
		return serverMetadata{}, err
	}
	if found != nil {
		return *found, nil
	}
	return serverMetadata{
		Issuer:                r.origin,
		AuthorizationEndpoint: r.origin + "/authorize",
		TokenEndpoint:         r.origin + "/token",
		RegistrationEndpoint:  r.origin + "/register",
		guessed:               true,
	}, nil
}

// refused is an error of a server that cannot be connected as it is.
func refused(s Server, format string, args ...any) *core.Error {
	e := core.Errorf(core.CodeAuth, format, args...)
	return core.Errorf(core.CodeAuth, "cannot connect server %q: %s; tell whoever runs it, or give it an Authorization header in its \"headers\"",
		core.Visible(s.Name, 100, false), e.Message)
}
