package oauth_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"HTTPS://Mcp.Example.com:443/":       "https://mcp.example.com",
		"https://mcp.example.com/a/#x":       "https://mcp.example.com/a/",
		"https://mcp.example.com:8443/A?b=c": "https://mcp.example.com:8443/A?b=c",
		"http://127.0.0.1:80/mcp":            "http://127.0.0.1/mcp",
		"http://[::1]:9/mcp":                 "http://[::1]:9/mcp",
		"http://localhost:9":                 "http://localhost:9",
		"http://example.com/":                "",
		"https://user:pw@example.com/":       "",
		"ftp://localhost/":                   "",
		"example.com":                        "",
		"https://exämple.com/":               "",
		"https://example.com/a b":            "",
		"":                                   "",
	} {
		if got, err := oauth.Canonical(raw); err == nil && got != want || err != nil && want != "" {
			t.Errorf("%s: %q %v, want %q", raw, got, err, want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	const server = "https://a.example/v1/mcp"
	for id, want := range map[string]bool{
		server: true, "https://A.example:443/v1/mcp": true, "https://a.example": true, "https://a.example/": true, "https://a.example/v1": true, "https://a.example/v1/": true,
		"https://a.example/v": false, "https://a.example/v1/mcp/x": false, "https://b.example/v1/mcp": false, "http://a.example/v1/mcp": false,
		"https://a.example:444": false, "https://a.example?x": false, "https://x@a.example": false, "": false, "a.example": false,
	} {
		if got := oauth.Covers(server, id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	resource, issuer, err := oauth.Places(oauth.Server{URL: "https://a.example/t/mcp", Metadata: "https://b.example/meta"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"https://b.example/meta", "https://a.example/.well-known/oauth-protected-resource/t/mcp", "https://a.example/.well-known/oauth-protected-resource",
	}, resource); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"https://a.example/.well-known/oauth-authorization-server/t/mcp", "https://a.example/.well-known/openid-configuration/t/mcp",
		"https://a.example/t/mcp/.well-known/openid-configuration", "https://a.example/t/mcp/.well-known/oauth-authorization-server",
	}, issuer); diff != "" {
		t.Error(diff)
	}
	// A server elsewhere cannot send pml to the services of this machine.
	for _, metadata := range []string{"http://127.0.0.1:8080/admin", "https://localhost/admin", "http://b.example/meta", "file:///etc/passwd",
		"https://10.0.0.7/meta", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data", "https://[fd00::1]/", "https://100.64.0.1/", "https://router/", "https://db.internal/", "https://[::ffff:10.0.0.1]/"} {
		if _, _, err := oauth.Places(oauth.Server{URL: "https://a.example/mcp", Metadata: metadata}); core.CodeOf(err) != core.CodeAuth {
			t.Errorf("%s: %v", metadata, err)
		}
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    any
		want time.Duration
	}{
		{3600.0, time.Hour}, {int64(60), time.Minute}, {"60", time.Minute}, {-1.0, 0}, {nil, 0}, {"soon", 0}, {true, 0},
		{1e300, 10 * 365 * 24 * time.Hour}, {"99999999999", 0},
	} {
		got := oauth.Lifetime(tt.v)
		if max(got, 0) != tt.want {
			t.Errorf("%v: %v, want %v", tt.v, got, tt.want)
		}
	}
}

const (
	fuzzServer = "https://mcp.example/mcp"
	fuzzIssuer = "https://as.example/t"
)

// Whatever metadata says, pml is sent over https and to no service of its own
// machine.
func remote(t *testing.T, raw string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" {
		t.Errorf("accepted %q", raw)
	}
	if core.Visible(raw, 0, false) != raw || strings.ContainsAny(raw, " \n") {
		t.Errorf("cannot be shown: %q", raw)
	}
}

func FuzzResource(f *testing.F) {
	f.Add([]byte(`{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"]}`))
	f.Add([]byte(`{"resource":"https://mcp.example","authorization_servers":["http://127.0.0.1"]}`))
	f.Add([]byte(`{"resource":"https://mcp.example/mcp/../x","authorization_servers":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		issuers, err := oauth.ParseResource(fuzzServer, data)
		if err != nil {
			if core.CodeOf(err) != core.CodeAuth {
				t.Error(err)
			}
			return
		}
		if len(issuers) == 0 {
			t.Error("no issuer")
		}
		for _, issuer := range issuers {
			remote(t, issuer)
		}
	})
}

func FuzzIssuer(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://as.example/t","authorization_endpoint":"https://as.example/a","token_endpoint":"https://as.example/b","code_challenge_methods_supported":["S256"]}`))
	f.Add([]byte(`{"issuer":"https://as.example/t/","authorization_endpoint":"javascript:1","token_endpoint":"https://x@y","code_challenge_methods_supported":["plain"]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		endpoints, err := oauth.ParseIssuer(fuzzServer, fuzzIssuer, data)
		if err != nil {
			if core.CodeOf(err) != core.CodeAuth {
				t.Error(err)
			}
			return
		}
		var doc struct {
			Issuer  string   `json:"issuer"`
			Methods []string `json:"code_challenge_methods_supported"`
		}
		if json.Unmarshal(data, &doc) != nil || doc.Issuer != fuzzIssuer || !strings.Contains(strings.Join(doc.Methods, " "), "S256") {
			t.Errorf("accepted %s", data)
		}
		remote(t, endpoints[0])
		remote(t, endpoints[1])
		if endpoints[2] != "" {
			remote(t, endpoints[2])
		}
	})
}

func FuzzAnswer(f *testing.F) {
	const state = "s-1234"
	for _, q := range []string{"code=c&state=s-1234", "code=c&state=s-1234&iss=https://as.example/t", "error=access_denied&state=s-1234", "state=s-1234&state=s-1234&code=c", "code=c&code=d&state=s-1234", "%zz", "code=c;state=s-1234"} {
		f.Add(q, true)
		f.Add(q, false)
	}
	f.Fuzz(func(t *testing.T, query string, required bool) {
		code, mine, err := oauth.Answer(state, fuzzIssuer, required, query)
		v, perr := url.ParseQuery(query)
		if mine && (perr != nil || len(v["state"]) != 1 || v.Get("state") != state) {
			t.Errorf("took %q", query)
		}
		if (err != nil || code != "") && !mine || mine && (err == nil) != (code != "") {
			t.Errorf("%q: %q %v %v", query, code, mine, err)
		}
		if code != "" && (v.Has("error") || len(v["code"]) != 1 || v.Has("iss") && v.Get("iss") != fuzzIssuer || required && !v.Has("iss")) {
			t.Errorf("accepted %q", query)
		}
		if err != nil && core.Visible(err.Error(), 0, false) != err.Error() {
			t.Errorf("cannot be shown: %q", err)
		}
	})
}
