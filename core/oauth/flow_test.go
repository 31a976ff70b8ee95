package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
	"github.com/casys-ai/pml/core/upstream"
)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// A server answers 401, a person consents, the call succeeds: also after the
// access token was revoked, and not after everything was.
func TestFlow_EndToEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Scope: "files:read", AnnounceIss: true, Rotate: true})
	c := h.client()
	m := upstream.New(upstream.Options{Clock: wallClock{}})
	t.Cleanup(func() { m.Close() })
	err := h.call(m, h.server(), c)
	var need *upstream.AuthRequired
	if !errors.As(err, &need) || core.CodeOf(err) != core.CodeAuth {
		t.Fatalf("not asked for authorization: %v", err)
	}
	s := h.server()
	s.Metadata, s.Scope = need.Metadata, need.Scope
	f, err := c.Begin(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if f.Issuer != h.as.Issuer || strings.Join(f.Scopes, " ") != "files:read" || c.Connected(s) {
		t.Errorf("flow %s %v, connected %v", f.Issuer, f.Scopes, c.Connected(s))
	}
	h.browse(f.URL)
	if err := h.wait(f); err != nil || !c.Connected(s) {
		t.Fatalf("%v, connected %v", err, c.Connected(s))
	}
	if err := h.call(m, s, c); err != nil {
		t.Fatal(err)
	}
	h.as.RevokeAccess()
	if err := h.call(m, s, c); err != nil {
		t.Errorf("after the access token was revoked: %v", err)
	}
	h.as.Revoke()
	h.wantCode(h.call(m, s, c), core.CodeAuth)
	if c.Connected(s) || h.header(c) != "" {
		t.Error("counts as connected after everything was revoked")
	}
	h.connect(c)
	if err := h.call(m, s, c); err != nil {
		t.Error(err)
	}
	if n, _ := h.as.Counts(); n != 1 {
		t.Errorf("%d registrations, want the first one used again", n)
	}
}

// A server that wants more than was consented to is connected anew, with what
// was consented to as well.
func TestFlow_InsufficientScope(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	m := upstream.New(upstream.Options{Clock: wallClock{}})
	t.Cleanup(func() { m.Close() })
	if err := h.call(m, h.server(), c); err != nil {
		t.Fatal(err)
	}
	h.as.Set(func(b *oauthtest.Behaviour) { b.Scope = "files:write" })
	err := h.call(m, h.server(), c)
	var need *upstream.AuthRequired
	if !errors.As(err, &need) || need.Scope != "files:write" {
		t.Fatalf("%v %+v", err, need)
	}
	s := h.server()
	s.Scope = need.Scope
	if !c.Connected(h.server()) || c.Connected(s) {
		t.Error("connected with a scope that nobody consented to, or not at all")
	}
	f, err := c.Begin(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	h.browse(f.URL)
	if err := h.wait(f); err != nil || !c.Connected(s) {
		t.Fatal(err)
	}
	if err := h.call(m, s, c); err != nil {
		t.Error(err)
	}
}

func TestFlow_Servers(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]oauthtest.Behaviour{
		"NoMetadata":       {NoMetadata: true},
		"OpenID":           {OpenID: true},
		"IssuerWithPath":   {IssuerPath: "/tenant"},
		"OpenIDWithPath":   {IssuerPath: "/tenant", OpenID: true},
		"SecretInHeader":   {Method: "client_secret_basic"},
		"SecretInBody":     {Method: "client_secret_post"},
		"IssAnnounced":     {AnnounceIss: true},
		"NoRefreshToken":   {NoRefresh: true},
		"LifetimeAndScope": {Lifetime: time.Hour, Scope: "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, b)
			c := h.client()
			h.connect(c)
			if header := h.header(c); !strings.HasPrefix(header, "Bearer access-") {
				t.Errorf("header %q", header)
			}
			if !b.NoRefresh {
				if !c.Authorizer(h.server()).Rejected(context.Background(), h.header(c)) {
					t.Error("the token is not refreshed")
				}
			}
		})
	}
}

// What is wrong with a server is found before a person sees a URL, and nobody
// is registered there.
func TestFlow_RefusedServers(t *testing.T) {
	t.Parallel()
	elsewhere := newHarness(t, oauthtest.Behaviour{}).as
	for name, tt := range map[string]struct {
		b     oauthtest.Behaviour
		code  core.Code
		words string
	}{
		"NoS256":           {oauthtest.Behaviour{NoS256: true}, core.CodeAuth, "PKCE"},
		"OtherIssuer":      {oauthtest.Behaviour{Issuer: "https://evil.example"}, core.CodeAuth, "evil.example"},
		"OtherResource":    {oauthtest.Behaviour{Resource: "https://evil.example/mcp"}, core.CodeAuth, "evil.example"},
		"PlainEndpoint":    {oauthtest.Behaviour{Endpoint: "http://evil.example/token"}, core.CodeAuth, "evil.example"},
		"ScriptEndpoint":   {oauthtest.Behaviour{Endpoint: "javascript:alert(1)"}, core.CodeAuth, "token endpoint"},
		"Redirect":         {oauthtest.Behaviour{Redirect: elsewhere.Issuer + "/.well-known/oauth-authorization-server"}, core.CodeServerUnreachable, "redirect"},
		"NoServerMetadata": {oauthtest.Behaviour{NoServerMetadata: true}, core.CodeAuth, "publishes no metadata"},
		"Registration":     {oauthtest.Behaviour{RefuseRegistration: true}, core.CodeAuth, `invalid_client_metadata: no\x1b[31m programs`},
		"NoOAuth":          {oauthtest.Behaviour{NoMetadata: true, RefuseRegistration: true}, core.CodeAuth, "says nothing of OAuth"},
		"Method":           {oauthtest.Behaviour{Method: "private_key_jwt"}, core.CodeAuth, "client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, tt.b)
			_, err := h.client().Begin(context.Background(), h.server())
			h.wantCode(err, tt.code, tt.words)
			if n, _ := h.as.Counts(); n != 0 {
				t.Errorf("%d registrations", n)
			}
		})
	}
}

func TestFlow_Unreachable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	h.as.Close()
	_, err := h.client().Begin(context.Background(), h.server())
	h.wantCode(err, core.CodeServerUnreachable)
	_, err = h.client().Begin(context.Background(), oauth.Server{Name: "x", URL: "http://example.com/mcp"})
	h.wantCode(err, core.CodeInvalidConfig, "not https")
}

func TestFlow_Denied(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Deny: true})
	c := h.client()
	f, other := h.begin(c), h.begin(h.client())
	_, page := h.browse(f.URL)
	if !strings.Contains(page, "did not consent") || strings.Contains(page, "<b>") {
		t.Errorf("page %s", page)
	}
	h.wantCode(h.wait(f), core.CodeDenied, "access_denied")
	h.wantCode(h.wait(other), core.CodeDenied)
	if again := h.begin(c); again.URL == f.URL {
		t.Error("a flow that was denied is taken up again")
	}
}

// An answer from another issuer than the one that was asked is no answer, and
// no code is sent anywhere.
func TestFlow_MixUp(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]oauthtest.Behaviour{
		"Wrong":            {WrongIss: "https://evil.example"},
		"WrongAndDenied":   {WrongIss: "https://evil.example", Deny: true},
		"MissingAnnounced": {OmitIss: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, b)
			c := h.client()
			f := h.begin(c)
			_, page := h.browse(f.URL)
			h.wantCode(h.wait(f), core.CodeAuth)
			if c.Connected(h.server()) || strings.Contains(page, "connected to") || strings.Contains(page, "access_denied") {
				t.Errorf("page %s", page)
			}
			if n := h.as.Exchanges(); n != 0 {
				t.Errorf("%d codes were sent", n)
			}
		})
	}
}

// Strangers' requests change nothing: the flow goes on and can be completed.
func TestFlow_Strangers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	f := h.begin(h.client())
	callback, state := oauth.CallbackOf(f.URL)
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for name, tt := range map[string]struct {
		method, path, host string
		status             int
	}{
		"NoState":     {"GET", "/callback?code=x", "", 400},
		"WrongState":  {"GET", "/callback?code=x&state=" + strings.Repeat("A", len(state)), "", 400},
		"StateTwice":  {"GET", "/callback?code=x&state=" + state + "&state=" + state, "", 400},
		"OtherHost":   {"GET", "/callback?code=x&state=" + state, "evil.example", 400},
		"Name":        {"GET", "/callback?code=x&state=" + state, "localhost:" + callback.Port(), 400},
		"OtherPath":   {"GET", "/callback/?code=x&state=" + state, "", 404},
		"EscapedPath": {"GET", "/%63allback?code=x&state=" + state, "", 404},
		"Post":        {"POST", "/callback?code=x&state=" + state, "", 405},
		"Head":        {"HEAD", "/callback?code=x&state=" + state, "", 405},
	} {
		req, err := http.NewRequest(tt.method, "http://"+callback.Host+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(name, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || resp.Header.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, body)
		}
	}
	h.browse(f.URL)
	if err := h.wait(f); err != nil {
		t.Error(err)
	}
}

// An answer counts once, also while the first one is being dealt with.
func TestFlow_Replay(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	f := h.begin(h.client())
	held, release := h.as.HoldTokens()
	defer release()
	callback, state := oauth.CallbackOf(f.URL)
	replay := callback.String() + "?" + url.Values{"code": {"stolen"}, "state": {state}}.Encode()
	pages := make(chan string, 2)
	browse := func(url string) {
		_, page, err := oauthtest.Browse(context.Background(), url)
		pages <- fmt.Sprint(page, err)
	}
	go browse(f.URL)
	<-held
	go browse(replay)
	release()
	if err := h.wait(f); err != nil {
		t.Error(err)
	}
	connected := 0
	for range 2 {
		switch page := <-pages; {
		case strings.Contains(page, "pml is connected"):
			connected++
		case strings.Contains(page, "could not connect"):
			t.Errorf("the replay was dealt with: %s", page)
		}
	}
	if n := h.as.Exchanges(); connected != 1 || n != 1 {
		t.Errorf("%d pages say connected, %d codes were sent", connected, n)
	}
	if conn, err := net.Dial("tcp", callback.Host); err == nil {
		conn.Close()
		t.Error("the callback is heard after the flow is over")
	}
}

// A process is killed after the person has got the URL: the next one gives the
// same URL, hears the same callback and completes the flow.
func TestFlow_Killed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	p := start(t, h, "child-begin")
	first := p.line(t)
	c := h.client()
	f := h.begin(c) // the child lives and hears
	if f.URL != first {
		t.Fatalf("another URL:\n%s\n%s", first, f.URL)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	callback, _ := oauth.CallbackOf(first)
	dialUntilHeard(t, callback.Host)
	h.browse(first)
	if err := h.wait(f); err != nil || !c.Connected(h.server()) {
		t.Error(err)
	}
	if n, _ := h.as.Counts(); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

// Nobody is left when the next process begins.
func TestFlow_KilledBefore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	p := start(t, h, "child-begin")
	first := p.line(t)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	f := h.begin(h.client())
	if f.URL != first {
		t.Fatalf("another URL:\n%s\n%s", first, f.URL)
	}
	h.browse(first)
	if err := h.wait(f); err != nil {
		t.Error(err)
	}
}

// dialUntilHeard polls: which tick the survivor hears on is nobody's to tell.
func dialUntilHeard(t *testing.T, addr string) {
	t.Helper()
	again, deadline := time.NewTicker(5*time.Millisecond), time.After(3*time.Minute)
	defer again.Stop()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("nobody hears the callback")
		}
	}
}

// Another process completes the flow: all who wait go on.
func TestFlow_Together(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	var flows []*oauth.Flow
	for range 4 {
		flows = append(flows, h.begin(h.client()))
	}
	h.browse(flows[3].URL)
	for _, f := range flows {
		if err := h.wait(f); err != nil {
			t.Error(err)
		}
	}
	if n, _ := h.as.Counts(); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

// A port that somebody else has taken is not the callback of anybody.
func TestFlow_PortTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	f := h.begin(c)
	callback, _ := oauth.CallbackOf(f.URL)
	f.Close()
	l, err := net.Listen("tcp4", callback.Host)
	if err != nil {
		t.Skip("the port went to another test: ", err)
	}
	defer l.Close()
	again := h.begin(c)
	if other, _ := oauth.CallbackOf(again.URL); other.Host == callback.Host {
		t.Error("a callback that a stranger hears")
	}
	h.browse(again.URL)
	if err := h.wait(again); err != nil {
		t.Error(err)
	}
}

// A flow is taken up only as what it was begun for.
func TestFlow_NotTakenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	f := h.begin(c)
	names, err := filepath.Glob(filepath.Join(h.dir, "*.flow.json"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	before, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	h.browse(f.URL)
	if err := h.wait(f); err != nil {
		t.Fatal(err)
	}
	// Killed between keeping the tokens and removing the flow.
	if err := os.WriteFile(names[0], before, 0o600); err != nil {
		t.Fatal(err)
	}
	second := h.begin(c)
	if second.URL == f.URL {
		t.Error("a flow that was completed is taken up again")
	}
	for _, change := range []func(*oauth.Server){
		func(s *oauth.Server) { s.Scope = "more" },
		func(s *oauth.Server) { s.ClientID = "other" },
	} {
		s := h.server()
		change(&s)
		other, err := c.Begin(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if other.URL == second.URL {
			t.Errorf("taken up for %+v", s)
		}
		other.Close()
	}
	h.wantCode(h.wait(second), core.CodeAuth, "begun anew")
}

func TestFlow_Expires(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	f := h.begin(c)
	h.clock.add(31 * time.Minute)
	h.wantCode(h.wait(f), core.CodeTimeout)
	if again := h.begin(c); again.URL == f.URL {
		t.Error("an expired flow is taken up again")
	}
}

func TestFlow_CloseAndDisconnect(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	f := h.begin(c)
	f.Close()
	h.wantCode(h.wait(f), core.CodeCancelled)
	again := h.begin(c)
	if again.URL != f.URL {
		t.Error("a flow that was closed gets another URL")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.wantCode(again.Wait(ctx), core.CodeCancelled)
	if err := c.Disconnect(h.server()); err != nil {
		t.Fatal(err)
	}
	h.wantCode(h.wait(again), core.CodeAuth, "elsewhere")
	h.connect(c)
	if err := c.Disconnect(h.server()); err != nil || c.Connected(h.server()) || h.header(c) != "" {
		t.Error("connected after Disconnect", err)
	}
}

// A server that has forgotten pml is noticed before a person is sent to it.
func TestFlow_ForgottenClient(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	h.as.ForgetClients()
	h.as.Revoke()
	if c.Authorizer(h.server()).Rejected(context.Background(), h.header(c)) || c.Connected(h.server()) {
		t.Error("counts as connected")
	}
	h.connect(c)
	if n, _ := h.as.Counts(); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
	// The registration is kept, the tokens are refused only after the flow began.
	h.as.Revoke()
	c.Authorizer(h.server()).Rejected(context.Background(), h.header(c))
	h.as.ForgetClients()
	h.connect(c)
	if n, _ := h.as.Counts(); n != 3 {
		t.Errorf("%d registrations, want 3", n)
	}
}

func TestFlow_GivenClient(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "s3cret-of-hand"} {
		h := newHarness(t, oauthtest.Behaviour{RefuseRegistration: true})
		h.as.AddClient("by-hand", secret)
		s := h.server()
		s.ClientID, s.ClientSecret = "by-hand", secret
		c := h.client()
		f, err := c.Begin(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		h.browse(f.URL)
		if err := h.wait(f); err != nil || !c.Connected(s) {
			t.Error(err)
		}
	}
}

// A wrong secret of a client that was registered by hand is what the error speaks of,
// without showing it; with the right one the same client is connected.
func TestFlow_GivenClientRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{RefuseRegistration: true})
	h.as.AddClient("by-hand", "s3cret-of-hand")
	c := h.client()
	for _, secret := range []string{"wr0ng-of-hand", "s3cret-of-hand"} {
		s := h.server()
		s.ClientID, s.ClientSecret = "by-hand", secret
		f, err := c.Begin(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		_, _, _ = oauthtest.Browse(t.Context(), f.URL)
		err = h.wait(f)
		if right := secret == "s3cret-of-hand"; right != (err == nil) {
			t.Errorf("%s: %v", secret, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "client_secret") || strings.Contains(err.Error(), secret)) {
			t.Errorf("%v", err)
		}
	}
}

// A server that wants more than was granted: what was granted stays.
func TestFlow_MoreScopes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	for _, tt := range []struct{ need, want string }{{"a", "a"}, {"b", "b a"}} {
		h.as.Set(func(b *oauthtest.Behaviour) { b.Scope = tt.need })
		s := h.server()
		s.Scope = tt.need
		f, err := c.Begin(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if got := strings.Join(f.Scopes, " "); got != tt.want {
			t.Errorf("scopes %q, want %q", got, tt.want)
		}
		h.browse(f.URL)
		if err := h.wait(f); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFlow_Files(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	h.begin(h.client())
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) < 4 {
		t.Fatal(entries, err)
	}
	info, err := os.Stat(h.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasSuffix(e.Name(), ".flow.json") {
			if err := os.Chmod(filepath.Join(h.dir, e.Name()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err = c.Authorizer(h.server()).Header(context.Background())
	h.wantCode(err, core.CodeStoreFailed, "chmod 600")
	if next := core.AsError(err).Next; len(next) != 3 || next[0] != "chmod" {
		t.Error(next)
	}
	if c.Connected(h.server()) {
		t.Error("connected by a file that others can read")
	}
	if len(c.Secrets()) == 0 {
		t.Error("what others can read is not redacted")
	}
}

// A client registered by hand: its own port and scopes, nobody else's flow, and
// a secret that was replaced meanwhile.
func TestFlow_GivenClientSettings(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{NoRegistration: true, Lifetime: time.Hour})
	h.as.AddClient("by-hand", "old-s3cret-of-hand")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	s := h.server()
	s.ClientID, s.ClientSecret, s.Scopes, s.RedirectPort = "by-hand", "old-s3cret-of-hand", []string{"mine"}, port
	c := h.client()
	_, err = c.Begin(context.Background(), s)
	h.wantCode(err, core.CodeAuth, "redirect_port", strconv.Itoa(port))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := c.Begin(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	want := map[string]string{"client_id": "by-hand", "scope": "mine", "redirect_uri": fmt.Sprintf("http://127.0.0.1:%d/callback", port)}
	for name, value := range want {
		if q.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, q.Get(name), value)
		}
	}
	f.Close()
	// The entry has lost its client: pml registers itself, and does not go on as that one.
	own := h.server()
	_, err = c.Begin(context.Background(), own)
	h.wantCode(err, core.CodeAuth, "client_id", "redirect_port")
	if f, err = c.Begin(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	h.browse(f.URL)
	if err := h.wait(f); err != nil {
		t.Fatal(err)
	}
	h.as.AddClient("by-hand", "new-s3cret-of-hand")
	s.ClientSecret = "new-s3cret-of-hand"
	h.clock.add(2 * time.Hour)
	if header, err := c.Authorizer(s).Header(context.Background()); err != nil || header == "" {
		t.Errorf("refreshed with the new secret: %q, %v", header, err)
	}
}
