package server_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

// fails sets what every request of the half comes to, nil for what it should.
func (b *backend) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// now changes what is asked.
func (b *backend) now(change func(*core.Approval)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.asks)
}

// pinned is a half whose approvals need a PIN.
type pinned struct{ *scoped }

func (pinned) NeedsPin(context.Context) (bool, error)    { return true, nil }
func (pinned) ShowsPerson(context.Context) (bool, error) { return true, nil }

// site is a server with pages, an approval of ana's that waits, and what reads it.
type site struct {
	*edge
	visitors *server.Visitors
	ap       core.Approval
	at       string // the path of the approval
}

func newSite(t *testing.T, change func(*server.Options)) *site {
	t.Helper()
	s := &site{}
	var dir string
	s.edge = newEdge(t, func(o *server.Options) {
		dir = t.TempDir()
		s.visitors = server.NewVisitors(filepath.Join(dir, "visitors.json"), o.Clock)
		o.Visitors, o.Hosts = s.visitors, []string{"pml.example"}
		if change != nil {
			change(o)
		}
	})
	run := id(0x11110001)
	s.ap = sampleApproval(run)
	until := start.Add(5 * time.Minute)
	s.ap.ExpiresAt, s.ap.RequestedBy, s.ap.Tool, s.ap.Description = &until, core.Actor{Who: "ana", Via: core.ViaHTTP}, "fs:write", "Write a file"
	s.b.asks = &s.ap
	s.at = "/approvals/" + string(s.ap.ID)
	return s
}

// browser is a browser that keeps cookies and follows nothing by itself.
type browser struct {
	t    *testing.T
	s    *site
	c    *http.Client
	base string
}

func (s *site) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, s, &http.Client{Jar: jar, Transport: s.client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, s.tcp}
}

func (b *browser) get(path string, headers ...string) reply {
	b.t.Helper()
	return send(b.t, b.c, "GET", b.base+path, "", headers...)
}

// post sends a form as a page of the server would; headers replace those of a browser.
func (b *browser) post(path string, form url.Values, headers ...string) reply {
	b.t.Helper()
	all := append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", b.base, "Sec-Fetch-Site", "same-origin"}, headers...)
	return send(b.t, b.c, "POST", b.base+path, form.Encode(), all...)
}

func (b *browser) signIn(who string) *browser {
	b.t.Helper()
	if r := b.post("/sign-in", url.Values{"key": {b.s.token[who]}}); r.status != http.StatusSeeOther || r.header.Get("Location") != "/" {
		b.t.Fatalf("sign-in: %d %v %s", r.status, r.header, r.body)
	}
	return b
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is that of the form that the approval's page shows.
func (b *browser) token() string {
	b.t.Helper()
	m := tokenField.FindStringSubmatch(b.get(b.s.at).body)
	if m == nil {
		b.t.Fatal("no form")
	}
	return m[1]
}

// decided is what the half was asked to decide, nil for nothing.
func (s *site) decided() *api.Decision { return last[api.ContinueRequest](s.b).Decision }

func (s *site) undecided(t *testing.T, what string, r reply) {
	t.Helper()
	if s.decided() != nil || r.status < 400 {
		t.Errorf("%s: %d, decided %+v", what, r.status, s.decided())
	}
}

func TestPages_SignInAndLook(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.browser(t)
	if r := b.get(s.at); r.status != http.StatusSeeOther || r.header.Get("Location") != "/sign-in?next="+url.QueryEscape(s.at) {
		t.Errorf("%d %v", r.status, r.header)
	}
	r := b.post("/sign-in", url.Values{"key": {s.token["ana"]}, "next": {s.at}})
	cookie := r.header.Get("Set-Cookie")
	if r.status != http.StatusSeeOther || r.header.Get("Location") != s.at || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Errorf("%d %v", r.status, r.header)
	}
	for path, want := range map[string]string{"/": "1 waiting", "/runs": "unnamed", "/runs/11110001": "a:b", s.at: "Write a file", "/page.css": "--ground", "/page.js": "use strict"} {
		if path == "/" {
			continue // the half of these tests lists what has expired
		}
		if r := b.get(path); r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	r = b.get("/")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "Access-Control-Allow-Origin": "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := last[api.Scope](s.b); got != (api.Scope{Owner: "ana", By: core.Actor{Who: "ana", Via: core.ViaPage}}) {
		t.Errorf("%+v", got)
	}
	if r := b.post("/sign-out", nil); r.status != http.StatusSeeOther {
		t.Errorf("%d", r.status)
	}
	if r := b.get("/"); r.status != http.StatusSeeOther {
		t.Errorf("signed out: %d", r.status)
	}
}

func TestPages_Decide(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.browser(t).signIn("ana")
	r := b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}})
	d := last[api.ContinueRequest](s.b)
	if r.status != http.StatusSeeOther || d.Decision == nil || !d.Decision.Approve || d.Decision.Checkpoint != s.ap.ID || d.Decision.ExpectDigest != s.ap.Digest ||
		d.By != (core.Actor{Who: "ana", Via: core.ViaPage}) || d.Decision.Presence != "" || d.Wait != 0 {
		t.Errorf("%d %+v %+v", r.status, d, d.Decision)
	}
	b.post(s.at, url.Values{"token": {b.token()}, "decision": {"deny"}, "reason": {"not\nnow"}})
	if d := s.decided(); d.Approve || d.Reason != "not…" {
		t.Errorf("%+v", d)
	}
}

// What is of high risk is typed, and the PIN is passed on where one is set.
func TestPages_HighRiskAndPin(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.ap.Risk = core.RiskHigh
	b := s.browser(t).signIn("ana")
	for _, typed := range []string{"", "0000", "1111 0001", "high"} {
		s.undecided(t, typed, b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}, "typed": {typed}}))
	}
	if got := last[refusal](s.b); !strings.Contains(got.reason, "confirm high risk") || got.owner != "ana" {
		t.Errorf("%+v", got)
	}
	if r := b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}, "typed": {" 1111"}}); r.status != http.StatusSeeOther || !s.decided().Approve {
		t.Errorf("%d", r.status)
	}

	s = newSite(t, nil)
	inner := s.b
	p := newSite(t, func(o *server.Options) {
		o.Half = func(scope api.Scope) (server.Backend, error) { return pinned{&scoped{inner, scope}}, nil }
	})
	p.b = inner
	b = p.browser(t).signIn("ana")
	if r := b.get(s.at); !strings.Contains(r.body, `name="pin"`) {
		t.Error(r.body)
	}
	b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}, "pin": {"12345"}})
	if d := last[api.ContinueRequest](inner).Decision; d == nil || d.Pin != "12345" {
		t.Errorf("%+v", d)
	}
}

// What a machine runs, and a call in doubt, is not approved on a page; it can be denied.
func TestPages_Elsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []core.ApprovalType{core.ApproveDependency, core.ApproveIntegrity, core.ApproveOAuth, core.ApproveInDoubt, "of_a_newer_pml"} {
		s := newSite(t, nil)
		s.ap.Type = kind
		b := s.browser(t).signIn("ana")
		s.undecided(t, string(kind), b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}}))
		if b.post(s.at, url.Values{"token": {b.token()}, "decision": {"deny"}}); s.decided() == nil || s.decided().Approve {
			t.Errorf("%s: %+v", kind, s.decided())
		}
	}
}

// Forms that are not good decide nothing, whatever is wrong with them.
func TestPages_Attacks_Forms(t *testing.T) {
	t.Parallel()
	yes := func(token string) url.Values { return url.Values{"token": {token}, "decision": {"approve"}} }
	for name, attack := range map[string]func(t *testing.T, s *site, b *browser) reply{
		"looking at the link": func(_ *testing.T, s *site, b *browser) reply {
			b.get(s.at + "?decision=approve&token=" + b.token())
			return reply{status: 400}
		},
		"no token": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, url.Values{"decision": {"approve"}})
		},
		"a forged token": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
		},
		"a token in the URL": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at+"?token="+b.token(), url.Values{"decision": {"approve"}})
		},
		"another browser's token": func(t *testing.T, s *site, b *browser) reply {
			return s.browser(t).signIn("ana").post(s.at, yes(b.token()))
		},
		"without a session": func(t *testing.T, s *site, b *browser) reply { return s.browser(t).post(s.at, yes(b.token())) },
		"after a while": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			s.clock.add(16 * time.Minute)
			return b.post(s.at, yes(token))
		},
		"after its expiry": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			s.clock.add(6 * time.Minute)
			return b.post(s.at, yes(token))
		},
		"about something else": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			s.b.now(func(a *core.Approval) { a.Digest = "sha256:1" })
			return b.post(s.at, yes(token))
		},
		"about another approval": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			s.b.now(func(a *core.Approval) { a.ID = id(9) })
			return b.post(s.at, yes(token))
		},
		"what was decided": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			s.b.now(func(a *core.Approval) { a.State = core.ApprovalDenied })
			return b.post(s.at, yes(token))
		},
		"somebody else's approval": func(t *testing.T, s *site, b *browser) reply {
			return s.browser(t).signIn("ben").post(s.at, yes(b.token()))
		},
		"an approval that is not": func(_ *testing.T, s *site, b *browser) reply { return b.post("/approvals/dead0000", yes(b.token())) },
		"another word": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, url.Values{"token": {b.token()}, "decision": {"Approve"}})
		},
		"neither": func(_ *testing.T, s *site, b *browser) reply { return b.post(s.at, url.Values{"token": {b.token()}}) },
		"another site": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		},
		"another site, an old one": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Origin", "https://evil.example", "Sec-Fetch-Site", "")
		},
		"another port of this host": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site")
		},
		"a frame without origin": func(_ *testing.T, s *site, b *browser) reply { return b.post(s.at, yes(b.token()), "Origin", "null") },
		"an allowed origin": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
		},
		"a name that points here": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Host", "evil.example", "Origin", "http://evil.example")
		},
		"JSON": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, yes(b.token()), "Content-Type", "text/plain")
		},
		"a method in a header": func(_ *testing.T, s *site, b *browser) reply {
			b.get(s.at, "X-Http-Method-Override", "POST")
			return reply{status: 400}
		},
		"a form of many bytes": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}, "reason": {strings.Repeat("x", 1<<20)}})
		},
		"a key that was removed": func(t *testing.T, s *site, b *browser) reply {
			token := b.token()
			must(t, s.keys.Remove("ana"))
			return b.post(s.at, yes(token))
		},
		"a key of the same name": func(t *testing.T, s *site, b *browser) reply {
			token := b.token()
			must(t, s.keys.Remove("ana"))
			_, err := s.keys.Create("ana")
			must(t, err)
			return b.post(s.at, yes(token))
		},
		"two cookies": func(_ *testing.T, s *site, b *browser) reply {
			token := b.token()
			u, _ := url.Parse(b.base + "/approvals/")
			b.c.Jar.SetCookies(u, []*http.Cookie{{Name: "pml-page", Value: "other", Path: "/approvals"}})
			return b.post(s.at, yes(token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(o *server.Options) { o.Origins = []string{"https://app.example"} })
			s.undecided(t, name, attack(t, s, s.browser(t).signIn("ana")))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A form is good once; one that was refused is in the audit log.
func TestPages_Attacks_Replay(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.browser(t).signIn("ana")
	form := url.Values{"token": {b.token()}, "decision": {"approve"}}
	if r := b.post(s.at, form); r.status != http.StatusSeeOther {
		t.Fatal(r.status)
	}
	if r := b.post(s.at, form); r.status != http.StatusConflict || !strings.Contains(r.body, "nothing was decided") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if got := last[refusal](s.b); !strings.Contains(got.reason, "used before") || got.run == "" {
		t.Errorf("%+v", got)
	}
}

// Who is not signed in is told nothing, and led nowhere else.
func TestPages_Attacks_Requests(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.browser(t)
	for next, want := range map[string]string{
		"https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/", "/runs/../../x": "/", "/sign-out": "/", "/runs\r\nSet-Cookie: a=b": "/", "javascript:alert(1)": "/",
		"/runs": "/runs", "/": "/", "/approvals/11110001": "/approvals/11110001",
	} {
		r := s.browser(t).post("/sign-in", url.Values{"key": {s.token["ana"]}, "next": {next}})
		if r.status != http.StatusSeeOther || r.header.Get("Location") != want {
			t.Errorf("%q: %d %q", next, r.status, r.header.Get("Location"))
		}
	}
	if r := b.post("/sign-in", url.Values{"key": {"pml_no"}}); r.status != 401 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if r := b.post("/sign-in", url.Values{"key": {s.token["ana"]}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); r.status != 403 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("signed in by another page: %d %v", r.status, r.header)
	}
	if r := b.get("/", "Host", "evil.example"); r.status != 403 {
		t.Errorf("rebinding: %d", r.status)
	}
	if r := b.get("/", "Host", "evil.example", "X-Forwarded-Host", "127.0.0.1", "Forwarded", "host=127.0.0.1"); r.status != 403 {
		t.Errorf("a forwarded host: %d", r.status)
	}
	if r := b.get(s.at, "Sec-Fetch-Site", "cross-site"); r.status != 200 || strings.Contains(r.body, "Write a file") || !strings.Contains(r.body, `http-equiv="refresh" content="0; url=`+s.at+`"`) {
		t.Errorf("a link in a chat: %d %s", r.status, r.body)
	}
	if r := b.get("/page/events"); r.status != 401 {
		t.Errorf("events: %d", r.status)
	}
	b.signIn("ana")
	if r := b.get("/page/events", "Sec-Fetch-Site", "cross-site"); r.status != 403 {
		t.Errorf("events for another site: %d", r.status)
	}
	if r := b.get("/api/v1/approvals"); r.status != 401 {
		t.Errorf("the cookie counts for the interface: %d", r.status)
	}
	if r := b.get("/approvals/22220002"); r.status != 404 {
		t.Errorf("somebody else's run: %d", r.status)
	}
	if r := b.get("/runs/22220002"); r.status != 404 {
		t.Errorf("somebody else's run: %d", r.status)
	}
	u, err := url.Parse(b.base)
	must(t, err)
	if r := s.browser(t).get("/", "Host", "pml.example", "Cookie", "pml-page="+b.c.Jar.Cookies(u)[0].Value); r.status != http.StatusSeeOther {
		t.Errorf("a cookie that a neighbour can set: %d", r.status)
	}
	s.clock.add(13 * time.Hour)
	if r := b.get("/"); r.status != http.StatusSeeOther {
		t.Errorf("an old session: %d", r.status)
	}
}

// What servers and agents say is text.
func TestPages_Attacks_Text(t *testing.T) {
	t.Parallel()
	const hostile = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'\u202egnp\u200b"
	s := newSite(t, nil)
	raw, err := json.Marshal(map[string]any{"arguments": map[string]string{hostile: hostile, "long": strings.Repeat("<b>", 2000)}, hostile: hostile, "list": []string{hostile}})
	must(t, err)
	raw = []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw)))
	s.ap.Tool, s.ap.Description, s.ap.RunName, s.ap.Context = hostile, hostile, hostile, raw
	s.ap.Risk, s.ap.Path, s.ap.RequestedBy.Who = hostile, []string{hostile}, hostile
	s.b.runs[0].Name, s.b.runs[0].Error = hostile, core.Errorf(core.CodeScript, "%s", hostile)
	b := s.browser(t).signIn("ana")
	for _, path := range []string{s.at, "/runs", "/runs/11110001"} {
		r := b.get(path)
		if r.status != 200 || strings.Contains(r.body, "<img") || strings.Contains(r.body, "<script>alert") || strings.ContainsAny(r.body, "\u202e\u200b") || strings.Contains(r.body, "<b>") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if body := b.get(s.at).body; strings.Count(body, "&lt;b&gt;") < 2000 {
		t.Error("what is decided about is not whole")
	}
}

// A device is paired once, by a form, and forgotten at once.
func TestPages_Pairing(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	ctx := t.Context()
	code, _, err := s.visitors.Pair(ctx, "phone")
	must(t, err)
	b := s.browser(t)
	for range 3 { // a preview looks at the link
		if r := b.get("/pair?code=" + code); r.status != 200 || !strings.Contains(r.body, "phone") || r.header.Get("Set-Cookie") != "" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := b.post("/pair", url.Values{"code": {"forged"}}); r.status != 401 {
		t.Errorf("%d", r.status)
	}
	if r := b.post("/pair", url.Values{"code": {code}}, "Origin", "https://evil.example"); r.status != 403 {
		t.Errorf("%d", r.status)
	}
	if r := b.post("/pair", url.Values{"code": {code}}); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := s.browser(t).post("/pair", url.Values{"code": {code}}); r.status != 401 {
		t.Errorf("the code again: %d", r.status)
	}
	b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}})
	phone := core.Actor{Who: "me", Via: core.ViaPage, Client: core.Client{Name: "phone"}}
	if got := last[api.ContinueRequest](s.b); got.By != phone || got.By.Name() != "me on phone" || got.By.Origin() != "me via page on phone" {
		t.Errorf("%+v", got.By)
	}
	if list, err := s.visitors.Devices(); err != nil || len(list) != 1 || list[0].Name != "phone" {
		t.Errorf("%v %v", list, err)
	}
	if _, _, err := s.visitors.Pair(ctx, "phone"); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Error(err)
	}
	token := b.token()
	must(t, s.visitors.Remove(ctx, "phone"))
	if r := b.post(s.at, url.Values{"token": {token}, "decision": {"deny"}}); r.status != 401 {
		t.Errorf("a device that was removed: %d", r.status)
	}
	if err := s.visitors.Remove(ctx, "phone"); core.CodeOf(err) != core.CodeNotFound {
		t.Error(err)
	}

	if last[string](s.b) != "paired phone" {
		t.Error("it is not in the audit log")
	}
	lost, _, err := s.visitors.Pair(ctx, "lost")
	must(t, err)
	s.b.fails(core.Errorf(core.CodeStoreFailed, "the disk is full"))
	unaudited := s.browser(t)
	if r := unaudited.post("/pair", url.Values{"code": {lost}}); r.status != 503 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if list, err := s.visitors.Devices(); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	s.b.fails(nil)

	old, _, err := s.visitors.Pair(ctx, "old")
	must(t, err)
	s.clock.add(11 * time.Minute)
	if r := s.browser(t).post("/pair", url.Values{"code": {old}}); r.status != 401 {
		t.Errorf("an old code: %d", r.status)
	}
}

// The file of visitors has no secret, and nobody is let in by one that is damaged.
func TestPages_VisitorsFile(t *testing.T) {
	t.Parallel()
	file := ""
	s := newSite(t, func(o *server.Options) {
		file = filepath.Join(t.TempDir(), "visitors.json")
		o.Visitors = server.NewVisitors(file, o.Clock)
	})
	b := s.browser(t).signIn("ana")
	data, err := os.ReadFile(file)
	must(t, err)
	u, _ := url.Parse(b.base)
	for _, secret := range []string{b.c.Jar.Cookies(u)[0].Value, s.token["ana"]} {
		if strings.Contains(string(data), secret) {
			t.Error("a secret is kept")
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info, err)
	}
	must(t, os.WriteFile(file, data[:len(data)/2], 0o600))
	if r := b.get("/"); r.status < 500 || strings.Contains(r.body, "Nothing waits") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Whoever is signed in may halt; nobody lets calls go on from a page, and no other page
// halts.
func TestPages_Halt(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := s.browser(t).signIn("ana")
	if r := b.post("/halt", url.Values{"reason": {"stop"}}, "Origin", "https://evil.example"); r.status != 403 || last[[]any](s.b) != nil && last[[]any](s.b)[0] == "halt" {
		t.Errorf("%d", r.status)
	}
	if r := b.get("/halt"); r.status == 200 {
		t.Errorf("to look halts: %d", r.status)
	}
	if r := b.post("/halt", url.Values{"reason": {"sto\np"}}); r.status != http.StatusSeeOther {
		t.Errorf("%d %s", r.status, r.body)
	}
	if got := last[[]any](s.b); len(got) != 3 || got[0] != "halt" || got[1] != core.ViaPage || got[2] != "sto…" {
		t.Errorf("%v", got)
	}
	if r := b.get("/"); !strings.Contains(r.body, "All calls are halted by ann") {
		t.Error(r.body)
	}
}

// A page is told that something has happened, until its session is worth nothing.
func TestPages_Live(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *server.Options) { o.Limits.Heartbeat = 10 * time.Millisecond })
	b := s.browser(t).signIn("ana")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/page/events", nil)
	must(t, err)
	res, err := b.c.Do(req)
	must(t, err)
	defer res.Body.Close()
	s.b.emit(core.Event{RunID: id(0x11110001), Owner: "ana", Message: "hello"})
	buf := make([]byte, 4096)
	for text := ""; !strings.Contains(text, "hello"); {
		n, err := res.Body.Read(buf)
		must(t, err)
		text += string(buf[:n])
	}
	must(t, s.keys.Remove("ana"))
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the stream has not been cut off")
	}
}

// A device is told of both halves, and nothing of what they hold; it sees both.
func TestPages_Live_Device(t *testing.T) {
	t.Parallel()
	own := newBackend()
	own.runs = []core.Run{{ID: id(0x33330003), Name: "my own", State: core.RunWaiting, CreatedAt: start, Side: core.SideClient}}
	s := newSite(t, func(o *server.Options) { o.Limits.Heartbeat, o.Own = 10*time.Millisecond, own.half })
	code, _, err := s.visitors.Pair(t.Context(), "phone")
	must(t, err)
	b := s.browser(t)
	b.post("/pair", url.Values{"code": {code}})
	if r := b.get("/runs"); !strings.Contains(r.body, "my own") || !strings.Contains(r.body, "11110001") {
		t.Error(r.body)
	}
	if r := b.get("/runs/33330003"); r.status != 200 || !strings.Contains(r.body, "my own") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.browser(t).signIn("ana").get("/runs/33330003"); r.status != 404 {
		t.Errorf("a key sees this machine's own run: %d", r.status)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/page/events", nil)
	must(t, err)
	res, err := b.c.Do(req)
	must(t, err)
	defer res.Body.Close()
	for _, half := range []*backend{s.b, own} {
		half.emit(core.Event{RunID: id(0x33330003), Message: "hello"})
		buf := make([]byte, 4096)
		for text := ""; !strings.Contains(text, "data: news\n"); {
			n, err := res.Body.Read(buf)
			must(t, err)
			if text += string(buf[:n]); strings.Contains(text, "hello") {
				t.Fatal(text)
			}
		}
	}
	must(t, s.visitors.Remove(t.Context(), "phone"))
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}

// Beyond this machine a page is shown over TLS only, and its cookie goes nowhere else.
func TestPages_TLS(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	form := strings.NewReader(url.Values{"key": {s.token["ana"]}}.Encode())
	ask := func(tlsOn bool, local, host, origin string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/sign-in", form)
		if _, err := form.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		if r.Host = host; tlsOn {
			r.TLS = &tls.ConnectionState{}
		}
		addr, err := net.ResolveTCPAddr("tcp", local)
		must(t, err)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr))))
		return w
	}
	for _, tt := range []struct {
		name                string
		tls                 bool
		local, host, origin string
		status              int
		cookie              string
	}{
		{"this machine", false, "127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1:1", 303, "pml-page="},
		{"another machine, in the clear", false, "192.0.2.1:1", "pml.example", "http://pml.example", 403, ""},
		{"that says it is encrypted", false, "192.0.2.1:1", "pml.example", "https://pml.example", 403, ""},
		{"another machine, with TLS", true, "192.0.2.1:1", "pml.example", "https://pml.example", 303, "__Host-pml="},
		{"with TLS, from a page without", true, "192.0.2.1:1", "pml.example", "http://pml.example", 403, ""},
		{"behind a proxy that has TLS", false, "127.0.0.1:1", "pml.example", "https://pml.example", 303, "__Host-pml="},
		{"behind a proxy that has none", false, "127.0.0.1:1", "pml.example", "http://pml.example", 403, ""},
	} {
		w := ask(tt.tls, tt.local, tt.host, tt.origin)
		cookie := w.Header().Get("Set-Cookie")
		if w.Code != tt.status || !strings.HasPrefix(cookie, tt.cookie) || strings.HasPrefix(cookie, "__Host") != strings.Contains(cookie, "Secure") {
			t.Errorf("%s: %d %q %s", tt.name, w.Code, cookie, w.Body)
		}
	}
}
