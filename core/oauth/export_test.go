package oauth

import (
	"net/url"
	"time"
)

// ParseResource checks resource metadata of the server at a URL.
func ParseResource(server string, data []byte) (issuers []string, err error) {
	r, err := parseServerURL(server)
	if err != nil {
		return nil, err
	}
	m, err := parseResource(Server{Name: "s"}, r, data)
	if err != nil {
		return nil, err
	}
	return m.AuthorizationServers, nil
}

// ParseIssuer checks an authorization server's metadata and returns its
// endpoints.
func ParseIssuer(server, issuer string, data []byte) (endpoints []string, err error) {
	r, err := parseServerURL(server)
	if err != nil {
		return nil, err
	}
	m, err := parseIssuer(Server{Name: "s"}, r, issuer, data)
	if err != nil {
		return nil, err
	}
	return []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint}, nil
}

// Answer reads the query of a callback.
func Answer(state, issuer string, issRequired bool, query string) (code string, mine bool, err error) {
	p := pending{State: state, Issuer: issuer, IssRequired: issRequired}
	return p.answer(query)
}

// Canonical returns the canonical form of a server's URL.
func Canonical(raw string) (string, error) {
	r, err := parseServerURL(raw)
	return r.id, err
}

// Covers reports whether a resource identifier stands for a server.
func Covers(server, id string) bool {
	r, err := parseServerURL(server)
	return err == nil && r.covers(id)
}

// Lifetime reads expires_in.
func Lifetime(v any) time.Duration { return lifetime(v) }

// Places are where metadata is looked for.
func Places(s Server) (resource, issuer []string, err error) {
	r, err := parseServerURL(s.URL)
	if err != nil {
		return nil, nil, err
	}
	resource, err = resourcePlaces(s, r)
	return resource, issuerPlaces(s.URL), err
}

// CallbackOf returns the callback that a flow's URL names, and its state.
func CallbackOf(flow string) (callback *url.URL, state string) {
	u, err := url.Parse(flow)
	if err != nil {
		return nil, ""
	}
	callback, err = url.Parse(u.Query().Get("redirect_uri"))
	if err != nil {
		return nil, ""
	}
	return callback, u.Query().Get("state")
}
