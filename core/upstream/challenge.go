package upstream

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/casys-ai/pml/core"
)

const (
	// maxChallenges bounds what is read of a response's WWW-Authenticate: so
	// many bytes of all its values, and so many challenges and parameters.
	maxChallengeBytes = 16 << 10
	maxChallenges     = 32
	maxAuthParams     = 32
)

// challenge is one challenge of a WWW-Authenticate field (RFC 9110, 11.6.1).
// The names of its parameters are in lower case; the first of a name counts.
type challenge struct {
	scheme string // in lower case
	params map[string]string
}

// parseChallenges reads the values of a WWW-Authenticate field. A value that
// is malformed counts up to where it is.
func parseChallenges(values []string) []challenge {
	var all []challenge
	left := maxChallengeBytes
	for _, v := range values {
		if left -= len(v); left < 0 {
			break
		}
		s := authScanner{rest: v}
		all = append(all, s.challenges(maxChallenges-len(all))...)
	}
	return all
}

// authScanner reads one field value from left to right.
type authScanner struct{ rest string }

func (s *authScanner) challenges(most int) []challenge {
	var all []challenge
	for {
		s.skip(" \t,")
		name := s.token()
		if name == "" {
			return all
		}
		if s.next('=') { // a parameter of the challenge before
			value, ok := s.value()
			if !ok || len(all) == 0 {
				return all
			}
			all[len(all)-1].add(name, value)
			continue
		}
		if len(all) >= most {
			return all
		}
		all = append(all, challenge{scheme: strings.ToLower(name), params: map[string]string{}})
		s.token68()
	}
}

func (c challenge) add(name, value string) {
	name = strings.ToLower(name)
	if _, ok := c.params[name]; !ok && len(c.params) < maxAuthParams {
		c.params[name] = value
	}
}

func (s *authScanner) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// next skips blanks, c, and blanks, if they are there.
func (s *authScanner) next(c byte) bool {
	t := strings.TrimLeft(s.rest, " \t")
	if t == "" || t[0] != c {
		return false
	}
	s.rest = strings.TrimLeft(t[1:], " \t")
	return true
}

func (s *authScanner) token() string {
	n := 0
	for n < len(s.rest) && isTokenByte(s.rest[n]) {
		n++
	}
	t := s.rest[:n]
	s.rest = s.rest[n:]
	return t
}

// token68 skips the credentials-like form that a scheme may have instead of
// parameters.
func (s *authScanner) token68() {
	t := strings.TrimLeft(s.rest, " \t")
	n := 0
	for n < len(t) && (isTokenByte(t[n]) || t[n] == '/') {
		n++
	}
	if n == 0 {
		return
	}
	end := strings.TrimLeft(strings.TrimLeft(t[n:], "="), " \t")
	if end == "" || end[0] == ',' {
		s.rest = end
	}
}

// value reads a token or a quoted string; ok is false when there is neither.
func (s *authScanner) value() (v string, ok bool) {
	if s.rest == "" || s.rest[0] != '"' {
		v = s.token()
		return v, v != ""
	}
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; c {
		case '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i < len(s.rest) {
				b.WriteByte(s.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	s.rest = ""
	return "", false
}

func isTokenByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// asksAuth returns what a response asks for when it refuses its request for
// want of authorization: 401, or 403 for want of scope.
func asksAuth(server string, resp *http.Response) *AuthRequired {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return nil
	}
	all := parseChallenges(resp.Header.Values("WWW-Authenticate"))
	best := challenge{}
	for _, c := range all {
		bearer := c.scheme == "bearer" || c.scheme == "dpop"
		if bearer && (best.scheme == "" || best.params["resource_metadata"] == "" && c.params["resource_metadata"] != "") {
			best = c
		}
	}
	if resp.StatusCode == http.StatusForbidden && best.params["error"] != "insufficient_scope" {
		return nil
	}
	return &AuthRequired{Server: server, Metadata: httpURL(best.params["resource_metadata"]), Scope: scopes(best.params["scope"])}
}

// httpURL returns s if it is an absolute address of HTTP.
func httpURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return s
}

// scopes returns s if it is a list of scopes (RFC 6749, 3.3).
func scopes(s string) string {
	for _, c := range []byte(s) {
		if c < 0x20 || c == '"' || c == '\\' || c > 0x7e {
			return ""
		}
	}
	return strings.Join(strings.Fields(s), " ")
}

// refusal is the error of a request that lacks authorization.
func refusal(a *AuthRequired, status int, configured bool) error {
	connect := []string{"pml", "servers", "connect", a.Server}
	switch {
	case configured:
		return core.Errorf(core.CodeAuth, "%w: it refuses the Authorization header of its entry", a)
	case status == http.StatusForbidden && a.Scope != "":
		return core.Errorf(core.CodeAuth, "%w with more rights (%s): connect it again", a, core.Visible(a.Scope, 200, false)).WithNext(connect...)
	case status == http.StatusForbidden:
		return core.Errorf(core.CodeAuth, "%w with more rights: connect it again", a).WithNext(connect...)
	}
	return core.Errorf(core.CodeAuth, "%w: connect it, or set the header that it needs in its entry", a).WithNext(connect...)
}
