package oauth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
)

const life = 10 * time.Minute

// file is the one that the server's credentials are in.
func (h *harness) file() string {
	h.t.Helper()
	names, err := filepath.Glob(filepath.Join(h.dir, "*.json"))
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, ".flow.json") })
	if err != nil || len(names) != 1 {
		h.t.Fatal(names, err)
	}
	return names[0]
}

func (h *harness) refreshes() int {
	_, n := h.as.Counts()
	return n
}

// A token is replaced a minute before it expires, not earlier, and again with
// the refresh token that came with it.
func TestToken_Refresh(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life, Rotate: true})
	c := h.client()
	h.connect(c)
	seen := map[string]bool{}
	for i := range 4 {
		if header := h.header(c); h.refreshes() != i || seen[header] {
			t.Fatalf("round %d: %d refreshes", i, h.refreshes())
		}
		h.clock.add(life - 61*time.Second)
		seen[h.header(c)] = true
		if h.refreshes() != i {
			t.Fatalf("round %d: refreshed too early", i)
		}
		h.clock.add(time.Second)
		h.header(c)
	}
	h.clock.add(24 * time.Hour)
	if !c.Connected(h.server()) || h.header(h.client()) == "" {
		t.Error("an expired token is not refreshed by the next process")
	}
}

// A token that lives for less than a minute is not refreshed for each request.
func TestToken_ShortLife(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: 40 * time.Second})
	c := h.client()
	h.connect(c)
	for _, want := range []int{0, 0, 1, 1, 2} {
		h.header(c)
		if n := h.refreshes(); n != want {
			t.Errorf("%d refreshes, want %d", n, want)
		}
		h.clock.add(10 * time.Second)
	}
}

func TestToken_RefreshOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life, Rotate: true})
	c := h.client()
	h.connect(c)
	h.clock.add(life)
	held, release := h.as.HoldTokens()
	var all sync.WaitGroup
	headers := make(chan string, 40)
	for _, c := range []*oauth.Client{c, h.client()} { // two clients, as two processes
		for range 20 {
			all.Go(func() {
				header, err := c.Authorizer(h.server()).Header(context.Background())
				if err != nil {
					t.Error(err)
				}
				headers <- header
			})
		}
	}
	<-held
	release()
	all.Wait()
	close(headers)
	first := <-headers
	for header := range headers {
		if header != first {
			t.Error("two headers")
		}
	}
	if n := h.refreshes(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
}

// Two processes that refresh at once make one request: the second one finds
// the new token when it gets the lock.
func TestToken_TwoProcesses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life, Rotate: true})
	h.connect(h.client())
	h.clock.add(life)
	held, release := h.as.HoldTokens()
	a, b := start(t, h, "child-refresh"), start(t, h, "child-refresh")
	for _, p := range []*process{a, b} {
		if line := p.line(t); line != "ready" {
			t.Fatal(line)
		}
		p.goOn()
	}
	<-held
	release()
	one, two := a.line(t), b.line(t)
	if one != two || !strings.HasPrefix(one, "Bearer access-") || !strings.HasSuffix(one, " <nil>") {
		t.Errorf("%q and %q", one, two)
	}
	if n := h.refreshes(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
}

// A process is killed after it has asked and before it has kept the answer:
// nobody is kept waiting, and the person is asked to connect again.
func TestToken_KilledInRefresh(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life, Rotate: true})
	h.connect(h.client())
	h.clock.add(life)
	held, release := h.as.HoldTokens()
	p := start(t, h, "child-refresh")
	p.line(t)
	p.goOn()
	<-held
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	release()
	c := h.client()
	if header := h.header(c); header != "" || c.Connected(h.server()) || h.refreshes() != 2 {
		t.Errorf("header %q after %d refreshes", header, h.refreshes())
	}
	h.connect(c)
	if h.header(c) == "" {
		t.Error("not connected anew")
	}
}

// A caller that gives up does not lose a refresh token that was rotated.
func TestToken_CallerGivesUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life, Rotate: true})
	c := h.client()
	h.connect(c)
	h.clock.add(life)
	held, release := h.as.HoldTokens()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := c.Authorizer(h.server()).Header(ctx)
		done <- err
	}()
	<-held
	cancel()
	h.wantCode(<-done, core.CodeCancelled)
	release()
	if h.header(h.client()) == "" || h.refreshes() != 1 {
		t.Errorf("%d refreshes", h.refreshes())
	}
}

// Nobody answers: the token is used as long as it is good, and nothing is lost.
func TestToken_RefreshUnreachable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life})
	c := h.client()
	h.connect(c)
	old := h.header(c)
	for name, change := range map[string]func(*oauthtest.Behaviour){
		"Status":  func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 503, "<html>later</html>" },
		"NoJSON":  func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 200, "<html>hello</html>" },
		"NoToken": func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 200, "{}" },
		"OtherType": func(b *oauthtest.Behaviour) {
			b.TokenStatus, b.TokenBody = 200, `{"access_token":"a","token_type":"mac"}`
		},
		"Newline":  func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 200, `{"access_token":"a\r\nX: y"}` },
		"Long":     func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 200, strings.Repeat(" ", 2<<20)+"{}" },
		"SlowDown": func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 429, `{"error":"slow_down"}` },
		"Redirect": func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenBody = 307, "" },
	} {
		h.as.Set(change)
		at := h.clock.Now()
		h.clock.add(life - 30*time.Second)
		if h.header(c) != old {
			t.Errorf("%s: a token that is good is not used", name)
		}
		h.clock.add(30 * time.Second)
		_, err := c.Authorizer(h.server()).Header(context.Background())
		h.wantCode(err, core.CodeServerUnreachable)
		if !c.Connected(h.server()) {
			t.Errorf("%s: the credentials are lost", name)
		}
		h.clock.add(at.Sub(h.clock.Now()))
	}
	h.as.Set(func(b *oauthtest.Behaviour) { b.TokenStatus = 0 })
	h.clock.add(life)
	if header := h.header(c); header == "" || header == old {
		t.Error("not refreshed once the server is back")
	}
	h.as.Close()
	h.clock.add(life)
	_, err := c.Authorizer(h.server()).Header(context.Background())
	h.wantCode(err, core.CodeServerUnreachable)
	if !c.Connected(h.server()) {
		t.Error("the credentials are lost")
	}
}

// A redirect of a request that carries secrets is not followed, not even with
// its method and body.
func TestToken_Redirect(t *testing.T) {
	t.Parallel()
	h, elsewhere := newHarness(t, oauthtest.Behaviour{Lifetime: life}), newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	for _, to := range []string{elsewhere.as.Issuer + "/token", h.as.Issuer + "/register"} {
		h.as.Set(func(b *oauthtest.Behaviour) { b.TokenStatus, b.TokenRedirect = 307, to })
		h.clock.add(life)
		_, err := c.Authorizer(h.server()).Header(context.Background())
		h.wantCode(err, core.CodeServerUnreachable)
	}
	if _, n := elsewhere.as.Counts(); n != 0 {
		t.Error("a refresh token was sent elsewhere")
	}
}

// A refresh token that was revoked is no error: the server asks again.
func TestToken_RefreshRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Lifetime: life})
	c := h.client()
	h.connect(c)
	old := h.header(c)
	h.as.Revoke()
	h.clock.add(life)
	if header := h.header(c); header != "" || c.Connected(h.server()) {
		t.Errorf("header %q", header)
	}
	h.header(c)
	if h.refreshes() != 1 {
		t.Errorf("%d refreshes, want 1: it is not tried again", h.refreshes())
	}
	if c.Authorizer(h.server()).Rejected(context.Background(), old) {
		t.Error("another header can be had")
	}
	h.connect(c)
	if h.header(c) == "" {
		t.Error("not connected anew")
	}
}

// A server that refuses the tokens that it asked for is not refreshed for
// ever: the second refusal counts.
func TestToken_Rejected(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newHarness(t, oauthtest.Behaviour{Rotate: true})
	c := h.client()
	h.connect(c)
	a := c.Authorizer(h.server())
	first := h.header(c)
	if !a.Rejected(ctx, first) || h.header(c) == first {
		t.Fatal("not refreshed")
	}
	if !a.Rejected(ctx, first) || h.refreshes() != 1 {
		t.Error("refreshed again for a header that was replaced already")
	}
	if a.Rejected(ctx, h.header(c)) || c.Connected(h.server()) || h.header(c) != "" {
		t.Error("connected with a token that was refused at once")
	}
	h.connect(c)
	for range 3 { // far apart: each is worth a refresh
		h.clock.add(time.Hour)
		if !a.Rejected(ctx, h.header(c)) {
			t.Error("not refreshed")
		}
	}
	h.as.Set(func(b *oauthtest.Behaviour) { b.NoRefresh = true })
	if err := c.Disconnect(h.server()); err != nil {
		t.Fatal(err)
	}
	h.connect(c)
	if a.Rejected(ctx, h.header(c)) || c.Connected(h.server()) {
		t.Error("connected without any token that is good")
	}
}

// The token endpoint refuses the code: the flow fails with what it said, and a
// registration that it does not know is dropped.
func TestToken_ExchangeRefused(t *testing.T) {
	t.Parallel()
	for body, code := range map[string]core.Code{
		`{"error":"invalid_grant","error_description":"\u001b]0;x"}`: core.CodeAuth,
		`{"error":"invalid_client"}`:                                 core.CodeAuth,
		`{"error":"server_error"}`:                                   core.CodeServerUnreachable,
	} {
		h := newHarness(t, oauthtest.Behaviour{TokenStatus: 400, TokenBody: body})
		c := h.client()
		f := h.begin(c)
		if _, page := h.browse(f.URL); !strings.Contains(page, "could not connect demo") || strings.Contains(page, "\x1b") {
			t.Errorf("page %s", page)
		}
		h.wantCode(h.wait(f), code)
		if c.Connected(h.server()) {
			t.Error("connected")
		}
		h.as.Set(func(b *oauthtest.Behaviour) { b.TokenStatus = 0 })
		h.connect(c)
		want := 1
		if strings.Contains(body, "invalid_client") {
			want = 2
		}
		if n, _ := h.as.Counts(); n != want {
			t.Errorf("%s: %d registrations, want %d", body, n, want)
		}
	}
}

// All that must not be shown is told, also what another process has written
// and what was replaced.
func TestToken_Secrets(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{Method: "client_secret_basic", Rotate: true})
	c, other := h.client(), h.client()
	if len(c.Secrets()) != 0 {
		t.Error(c.Secrets())
	}
	h.connect(c)
	var want []string
	all := func() {
		t.Helper()
		want = slices.DeleteFunc(h.as.Secrets(), func(s string) bool { return strings.HasPrefix(s, "code-") })
		for _, secrets := range []map[string]string{c.Secrets(), other.Secrets()} {
			if len(secrets) != len(want) {
				t.Errorf("%d secrets, want %d", len(secrets), len(want))
			}
			for name, value := range secrets {
				if !slices.Contains(want, value) || strings.Contains(name, value) || !strings.Contains(name, h.as.URL) {
					t.Errorf("%q", name)
				}
			}
		}
	}
	all()
	if !c.Authorizer(h.server()).Rejected(context.Background(), h.header(c)) {
		t.Fatal("not refreshed")
	}
	all()
	if len(want) != 5 {
		t.Errorf("%d secrets, want client secret, two access and two refresh tokens", len(want))
	}
}

// A folder that has not changed is not read again.
func TestToken_SecretsCached(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	h.connect(h.client())
	h.clock.at = time.Now().Add(time.Hour)
	c := h.client()
	before := len(c.Secrets())
	file := h.file()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// In place: the folder does not change, so this is not seen.
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), "access-", "another-")), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(c.Secrets()) != before {
		t.Error("the files were read again")
	}
	if err := errors.Join(os.Rename(file, file+"x"), os.Rename(file+"x", file)); err != nil {
		t.Fatal(err)
	}
	if len(c.Secrets()) != before+1 {
		t.Error("a change was not seen")
	}
}

// What a file holds that is not ours to read is not used, and what is broken is
// replaced.
func TestToken_Files(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := h.client()
	h.connect(c)
	file := h.file()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(string(good), `"version": 1`, `"version": 2`, 1))
	_, err = c.Begin(context.Background(), h.server())
	h.wantCode(err, core.CodeStoreNewer)
	write(strings.ReplaceAll(string(good), h.as.URL, "https://other.example/mcp"))
	if h.header(c) != "" {
		t.Error("the token of another server is used")
	}
	for _, text := range []string{"", "{", "[]", `{"version":1,"server":3}`, string(good[:len(good)/2])} {
		write(text)
		if h.header(c) != "" || c.Connected(h.server()) {
			t.Errorf("connected by %q", text)
		}
		h.connect(c)
	}
}

func TestToken_NoRandomness(t *testing.T) {
	t.Parallel()
	h := newHarness(t, oauthtest.Behaviour{})
	c := oauth.New(oauth.Options{Dir: h.dir, Clock: h.clock, Rand: iotest.ErrReader(errors.New("no entropy")), Ticks: fast})
	_, err := c.Begin(context.Background(), h.server())
	h.wantCode(err, core.CodeInternal, "no entropy")
}

func BenchmarkHeader(b *testing.B) {
	dir := b.TempDir()
	clk := &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	as := oauthtest.New(oauthtest.Behaviour{}, clk.Now)
	defer as.Close()
	c := oauth.New(oauth.Options{Dir: dir, Clock: clk})
	s := oauth.Server{Name: "demo", URL: as.URL}
	f, err := c.Begin(context.Background(), s)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, _, err := oauthtest.Browse(context.Background(), f.URL); err != nil {
		b.Fatal(err)
	}
	a := c.Authorizer(s)
	for b.Loop() {
		if header, err := a.Header(context.Background()); err != nil || header == "" {
			b.Fatal(err)
		}
	}
}
