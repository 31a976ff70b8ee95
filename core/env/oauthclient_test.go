package env_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// A client that was registered by hand: its secret is a key, its id is not.
func TestOAuthClient(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {"code": {"url": "https://mcp.example.com", "oauth":
		{"client_id": "Iv1.8a61f9b3", "client_secret": "${CODE_SECRET}", "scopes": ["repo", "read:org"], "redirect_port": 8976}}}}`)
	before := resolve(t, b)
	equal(t, []string{"CODE_SECRET"}, before.Missing)
	b.write(".env", "CODE_SECRET=s3cret-0123456789\n")
	got := resolve(t, b)
	equal(t, &core.OAuthClient{ClientID: "Iv1.8a61f9b3", ClientSecret: "s3cret-0123456789", Scopes: []string{"repo", "read:org"}, RedirectPort: 8976}, got.OAuth)
	if got.Digest == before.Digest || len(got.Missing) > 0 {
		t.Errorf("digests %s and %s, missing %q", before.Digest, got.Digest, got.Missing)
	}
	secret := b.load().Secrets()
	equal(t, "s3cret-0123456789", secret["CODE_SECRET"])
	for name, value := range secret {
		if value == "Iv1.8a61f9b3" {
			t.Errorf("the client id, which stands in every address to sign in at, is redacted as %s", name)
		}
	}
}

func resolve(t *testing.T, b *box) env.Resolved {
	t.Helper()
	r, err := b.load().Resolve("code")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOAuthClient_Faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"command": "x", "oauth": {"client_id": "a"}`:                                               `/mcpServers/a/oauth: goes with a url: a server that is a command is not connected with OAuth`,
		`"url": "https://x", "oauth": {}`:                                                           `/mcpServers/a/oauth: needs the client_id that the authorization server has given out; without oauth pml registers itself`,
		`"url": "https://x", "oauth": {"client_id": "${ID}"}`:                                       `/mcpServers/a/oauth/client_id: is public and stands here as it was given out: ${VAR} is not expanded`,
		`"url": "https://x", "headers": {"authorization": "Bearer x"}, "oauth": {"client_id": "a"}`: `/mcpServers/a/oauth: stands beside an Authorization header; one of them is too many`,
		`"url": "https://x", "oauth": {"client_id": "a", "redirect_port": 70000}`:                   `/mcpServers/a/oauth/redirect_port: must be a whole number from 1 to 65535`,
		`"url": "https://x", "oauth": {"client_id": "a", "scopes": ["a b"]}`:                        `/mcpServers/a/oauth/scopes: "a b" cannot be a scope: it is one word of printable ASCII characters, without quotes`,
	} {
		b := newBox(t)
		b.write(".pml.json", `{"mcpServers": {"a": {`+text+`}}}`)
		got := b.faults()
		if len(got) != 1 || len(got[0]) < len(want) || got[0][len(got[0])-len(want):] != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
