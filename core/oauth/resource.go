package oauth

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/casys-ai/pml/core"
)

// maxURL bounds the URLs that are taken from others.
const maxURL = 4 << 10

// resource is the URL of an MCP server, in its canonical form.
type resource struct {
	url      *url.URL
	id       string // canonical: RFC 8707
	origin   string
	loopback bool
	key      string // the name of its files
}

// parseServerURL checks the URL of an MCP server and makes it canonical: lower
// case, no default port, no fragment, no path that is only a slash. Tokens go
// over https, or to this machine.
func parseServerURL(raw string) (resource, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || !printable(raw, maxURL) {
		return resource{}, core.Errorf(core.CodeInvalidConfig, "%s is no URL of a server; give one as https://host/path", core.Visible(raw, 200, false))
	}
	u = canonical(u)
	r := resource{url: u, id: u.String(), origin: u.Scheme + "://" + u.Host, loopback: isLoopback(u.Hostname())}
	if u.Scheme != "https" && (u.Scheme != "http" || !r.loopback) {
		return resource{}, core.Errorf(core.CodeInvalidConfig, "%s is not https: OAuth tokens are sent over https only, or to this machine; change the server's url", r.id)
	}
	sum := sha256.Sum256([]byte(r.id))
	r.key = hex.EncodeToString(sum[:])
	return r, nil
}

func canonical(u *url.URL) *url.URL {
	c := *u
	c.Scheme = strings.ToLower(u.Scheme)
	c.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "443" && c.Scheme == "https" || port == "80" && c.Scheme == "http" {
		c.Host = strings.TrimSuffix(c.Host, ":"+port)
	}
	c.Fragment, c.RawFragment = "", ""
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return &c
}

// isPrivate reports whether a host is an address, or has a name, of this machine
// or of a private network.
func isPrivate(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if isLoopback(host) || !strings.Contains(host, ".") && !strings.Contains(host, ":") {
		return true
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".lan", ".intranet", ".home.arpa"} {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	at = at.Unmap()
	shared := netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	return at.IsPrivate() || at.IsLoopback() || at.IsLinkLocalUnicast() || at.IsUnspecified() || at.IsMulticast() || shared.Contains(at)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// covers reports whether a resource identifier that the server named stands
// for the server: the URL itself, or a parent path on the same origin, which
// is what a server of many endpoints names.
func (r resource) covers(id string) bool {
	u, err := url.Parse(id)
	if err != nil || u.User != nil || u.Fragment != "" || !printable(id, maxURL) {
		return false
	}
	u = canonical(u)
	if u.String() == r.id {
		return true
	}
	if u.Scheme+"://"+u.Host != r.origin || u.RawQuery != "" {
		return false
	}
	parent := strings.TrimSuffix(u.EscapedPath(), "/")
	return strings.HasPrefix(r.url.EscapedPath()+"/", parent+"/")
}

// endpoint checks a URL that somebody else named. A server elsewhere cannot
// send pml to the services of this machine or of its network: plain http, and
// loopback at all, only count when the MCP server itself is here, and private
// addresses when it is at one. Names are not looked up for that.
func (r resource) endpoint(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || !printable(raw, maxURL) {
		return false
	}
	local := isLoopback(u.Hostname())
	switch {
	case local && !r.loopback, isPrivate(u.Hostname()) && !isPrivate(r.url.Hostname()):
		return false
	case u.Scheme == "https":
		return true
	}
	return u.Scheme == "http" && local
}

// printable reports whether a text is ASCII without spaces and controls: such
// a text can be put into a header, and shown without hiding anything.
func printable(s string, max int) bool {
	if len(s) == 0 || len(s) > max {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// scopes splits a scope parameter, and leaves out what RFC 6749 does not allow
// in one.
func scopes(lists ...[]string) []string {
	const maxScopes = 100
	var out []string
	seen := map[string]bool{}
	for _, list := range lists {
		for _, s := range list {
			if printable(s, 200) && !strings.ContainsAny(s, `"\`) && !seen[s] && len(out) < maxScopes {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// loopbackAddress is where pml listens for a callback: IPv4 loopback by its number,
// which no name server can send elsewhere (RFC 8252 §7.3, §8.3).
func loopbackAddress(port string) string { return net.JoinHostPort("127.0.0.1", port) }
