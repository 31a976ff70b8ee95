package upstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// tokens is an Authorizer with a list of tokens: Rejected goes on to the next.
type tokens struct {
	mu       sync.Mutex
	left     []string
	rejected []string
	fails    error
}

func (t *tokens) Header(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.left) == 0 {
		return "", t.fails
	}
	return "Bearer " + t.left[0], t.fails
}

func (t *tokens) Rejected(_ context.Context, header string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rejected = append(t.rejected, header)
	if len(t.left) == 0 || header != "Bearer "+t.left[0] {
		return len(t.left) > 0
	}
	t.left = t.left[1:]
	return len(t.left) > 0
}

// guarded is an MCP server that wants the token that want holds.
type guarded struct {
	url     string
	want    atomic.Pointer[string]
	calls   atomic.Int32 // of tools, that were let in
	refused atomic.Int32
	answer  func(w http.ResponseWriter) // of who is not let in
}

const metadata = "https://as.example/.well-known/oauth-protected-resource"

func newGuarded(t *testing.T, token string) *guarded {
	t.Helper()
	g := &guarded{answer: func(w http.ResponseWriter) {
		w.Header().Set("WWW-Authenticate", `Basic realm="a, b", Bearer error="invalid_token", resource_metadata="`+metadata+`", scope="read write"`)
		w.WriteHeader(http.StatusUnauthorized)
	}}
	g.want.Store(&token)
	handler := server.NewStreamableHTTPServer(newMCP(nil, server.WithToolCapabilities(false)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+*g.want.Load() {
			g.refused.Add(1)
			g.answer(w)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"tools/call"`) {
			g.calls.Add(1)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	g.url = srv.URL
	return g
}

func wantAuth(t *testing.T, err error, want upstream.AuthRequired) {
	t.Helper()
	wantCode(t, err, core.CodeAuth, "remote")
	var got *upstream.AuthRequired
	if !errors.As(err, &got) {
		t.Fatalf("not wrapped: %v", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
}

func TestAuth_HeaderIsSentAndRenewed(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "old")
	m := newManager(t, nil)
	l := remote(g.url)
	auth := &tokens{left: []string{"old", "new"}}
	l.Auth = auth
	if got, err := call(t, m, l, "echo", `{"a":1}`); err != nil || got != `{"a":1}` {
		t.Fatalf("%s, %v", got, err)
	}
	renewed := "new" // the server wants another one from now on
	g.want.Store(&renewed)
	if got, err := call(t, m, l, "echo", `{"a":2}`); err != nil || got != `{"a":2}` {
		t.Fatalf("%s, %v", got, err)
	}
	if g.calls.Load() != 2 || len(auth.rejected) != 1 || auth.rejected[0] != "Bearer old" {
		t.Errorf("%d calls, rejected %q", g.calls.Load(), auth.rejected)
	}
}

func TestAuth_RequiredSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	asked := upstream.AuthRequired{Server: "remote", Metadata: metadata, Scope: "read write"}
	t.Run("without credentials", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "x")
		_, err := call(t, newManager(t, nil), remote(g.url), "echo", `{}`)
		wantAuth(t, err, asked)
		if !strings.HasPrefix(err.Error(), "server remote asks for authorization: connect it") ||
			!cmp.Equal(core.AsError(err).Next, []string{"pml", "servers", "connect", "remote"}) {
			t.Errorf("%v; next %q", err, core.AsError(err).Next)
		}
		if n := g.refused.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
	t.Run("is no reason to wait", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "x")
		m := newManager(t, func(o *upstream.Options) { o.Clock = &handClock{now: time.Unix(1, 0)} })
		l := remote(g.url)
		for range 3 {
			_, err := call(t, m, l, "echo", `{}`)
			wantAuth(t, err, asked)
		}
		h, _ := m.Health("remote", l.Workspace)
		if h.State != "failing" || !h.RetryAt.IsZero() || !strings.Contains(h.LastError, "asks for authorization") {
			t.Errorf("%+v", h)
		}
	})
	t.Run("with wrong ones", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "x")
		l := remote(g.url)
		auth := &tokens{left: []string{"a", "b", "c"}}
		l.Auth = auth
		_, err := call(t, newManager(t, nil), l, "echo", `{}`)
		wantAuth(t, err, asked)
		if n := g.refused.Load(); n != 2 || len(auth.rejected) != 1 { // once, and once more
			t.Errorf("asked %d times, rejected %q", n, auth.rejected)
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "a")
		l := remote(g.url)
		l.Auth = &tokens{left: []string{"a"}}
		m := newManager(t, nil)
		if _, err := call(t, m, l, "echo", `{}`); err != nil {
			t.Fatal(err)
		}
		revoked := "b"
		g.want.Store(&revoked)
		_, err := call(t, m, l, "echo", `{}`)
		wantAuth(t, err, asked)
		if h, _ := m.Health("remote", l.Workspace); h.State != "running" || h.Failures != 0 {
			t.Errorf("%+v", h)
		}
	})
}

func TestAuth_ScopeIsMissing(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "x")
	g.answer = func(w http.ResponseWriter) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:write"`)
		w.WriteHeader(http.StatusForbidden)
	}
	l := remote(g.url)
	auth := &tokens{left: []string{"a", "b"}}
	l.Auth = auth
	_, err := call(t, newManager(t, nil), l, "echo", `{}`)
	wantAuth(t, err, upstream.AuthRequired{Server: "remote", Scope: "files:write"})
	if len(auth.rejected) != 0 || !strings.Contains(err.Error(), "more rights (files:write)") {
		t.Errorf("rejected %q: %v", auth.rejected, err)
	}
}

func TestAuth_EntrysOwnHeaderWins(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "static")
	l := remote(g.url)
	auth := &tokens{left: []string{"oauth"}}
	l.Auth, l.Headers = auth, map[string]string{"authorization": "Bearer static"}
	m := newManager(t, nil)
	if _, err := call(t, m, l, "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	other := "other"
	g.want.Store(&other)
	_, err := call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeAuth, "refuses the Authorization header of its entry")
	if len(auth.rejected) != 0 {
		t.Error("the Authorizer was asked")
	}
}

func TestAuth_AuthorizerFails(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "x")
	l := remote(g.url)
	l.Auth = &tokens{fails: core.Errorf(core.CodeServerUnreachable, "the authorization server does not answer")}
	_, err := call(t, newManager(t, nil), l, "echo", `{}`)
	wantError(t, err, core.CodeServerUnreachable, "the authorization server does not answer")
	if n := g.refused.Load(); n != 0 {
		t.Errorf("%d requests without a header", n)
	}
}

// A token goes to the server of the entry, wherever that points.
func TestAuth_TokenNeverGoesElsewhere(t *testing.T) {
	t.Parallel()
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	t.Cleanup(other.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(other.URL, code))
		t.Cleanup(srv.Close)
		l := remote(srv.URL)
		l.Auth = &tokens{left: []string{"secret"}}
		_, err := call(t, newManager(t, nil), l, "echo", `{}`)
		wantCode(t, err, core.CodeServerUnreachable, "a redirect to another host is not followed")
		if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	if leaked.Load() != 0 {
		t.Error("the other host was asked")
	}
}

func TestChallenges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		values []string
		want   upstream.AuthRequired
	}{
		"none":                  {},
		"bare":                  {values: []string{"Bearer"}},
		"token values":          {values: []string{"bearer scope=read,resource_metadata=x"}, want: upstream.AuthRequired{Scope: "read"}},
		"quoted pairs":          {values: []string{`Bearer scope="a\b" , Resource_Metadata = "` + metadata + `"`}, want: upstream.AuthRequired{Scope: "ab", Metadata: metadata}},
		"second challenge":      {values: []string{`Negotiate a1b2==, Bearer scope="r"`}, want: upstream.AuthRequired{Scope: "r"}},
		"second field":          {values: []string{`Basic realm="x"`, `Bearer scope="r"`}, want: upstream.AuthRequired{Scope: "r"}},
		"one with the metadata": {values: []string{`Bearer scope="r"`, `Bearer resource_metadata="` + metadata + `", scope="s"`}, want: upstream.AuthRequired{Scope: "s", Metadata: metadata}},
		"inside a string":       {values: []string{`Basic realm="Bearer scope=\"evil\""`}},
		"first of a name":       {values: []string{`Bearer scope="r", scope="evil"`}, want: upstream.AuthRequired{Scope: "r"}},
		"no end":                {values: []string{`Bearer scope="r", resource_metadata="https://x`}, want: upstream.AuthRequired{Scope: "r"}},
		"not an address":        {values: []string{`Bearer resource_metadata="javascript:alert(1)"`}},
		"address with a name":   {values: []string{`Bearer resource_metadata="https://me:pw@as.example/x"`}},
		"escapes in the scope":  {values: []string{"Bearer scope=\"a\x1b[31m\""}},
		"too long":              {values: []string{`Bearer scope="` + strings.Repeat("a", 20<<10) + `"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Server = "s"
			if diff := cmp.Diff(tt.want, upstream.Challenge("s", tt.values)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzChallenges(f *testing.F) {
	f.Add(`Basic realm="a, b", Bearer error="invalid_token", scope="read write"`, `Negotiate a==`)
	f.Add(`Bearer resource_metadata=`, `a=b, "`)
	f.Fuzz(func(t *testing.T, a, b string) {
		got := upstream.Challenge("s", []string{a, b})
		if got.Scope != core.Visible(got.Scope, 0, false) || strings.Contains(got.Scope, "  ") {
			t.Errorf("scope %q", got.Scope)
		}
		if got.Metadata != "" && !strings.HasPrefix(strings.ToLower(got.Metadata), "http") {
			t.Errorf("metadata %q", got.Metadata)
		}
		for _, part := range []string{got.Scope, got.Metadata} {
			if len(part) > len(a)+len(b) {
				t.Errorf("%q is longer than what was said", part)
			}
		}
	})
}
