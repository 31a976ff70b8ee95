package server_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/server"
)

// Who tries to change something and is refused is in the audit log, by name if a session
// is known, with a code that nobody else can choose; so is who signs in.
func TestPages_Audit(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	out, in := s.browser(t), s.browser(t).signIn("ana")
	if got, want := last[visit](s.b), (visit{core.Actor{Who: "ana", Via: core.ViaPage}, "sign-in", "signed in to the pages with the key ana", false}); got != want {
		t.Errorf("%+v", got)
	}
	const approvals = " POST /approvals/{id}"
	for _, tt := range []struct {
		b          *browser
		path, code string
		headers    []string
	}{
		{out, s.at, "session" + approvals, nil},
		{out, "/halt", "session POST /halt", nil},
		{out, s.at, "host" + approvals, []string{"Host", "evil.example"}},
		{out, "/sign-in", "origin POST /sign-in", []string{"Origin", "https://evil.example"}},
		{out, "/pair", "code POST /pair", nil},
		{out, "/sign-in", "key POST /sign-in", nil},
		{in, s.at, "site" + approvals, []string{"Sec-Fetch-Site", "cross-site"}},
		{in, "/halt", "origin POST /halt", []string{"Origin", "null"}},
		{in, "/halt", "form POST /halt", []string{"Content-Type", "application/json"}},
	} {
		r := tt.b.post(tt.path, url.Values{"key": {"pml_typed"}, "code": {"typed"}, "pin": {"typed"}}, tt.headers...)
		got := last[visit](s.b)
		who := "(not signed in)"
		if tt.b == in {
			who = "ana"
		}
		if r.status < 400 || !got.refused || got.code != tt.code || got.by != (core.Actor{Who: who, Via: core.ViaPage}) || strings.Contains(got.text, "typed") {
			t.Errorf("%s: %d %+v", tt.code, r.status, got)
		}
	}
	before := last[visit](s.b)
	for _, path := range []string{"/", s.at, "/halt", "/pair?code=x"} { // who only looks
		out.get(path, "Host", "evil.example")
	}
	if last[visit](s.b) != before {
		t.Errorf("%+v", last[visit](s.b))
	}
	s.b.fails(core.Errorf(core.CodeStoreFailed, "the disk is full"))
	if r := out.post("/sign-in", url.Values{"key": {s.token["ben"]}}); r.status != 503 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("not in the log: %d %v", r.status, r.header)
	}
	if r := out.post("/halt", nil); r.status != http.StatusUnauthorized {
		t.Errorf("%d", r.status)
	}
}

// Who signs in again and again ends neither the sessions nor the forms of others.
func TestPages_ManySessions(t *testing.T) {
	t.Parallel()
	file := ""
	s := newSite(t, func(o *server.Options) {
		file = filepath.Join(t.TempDir(), "visitors.json")
		o.Visitors, o.Limits.Burst = server.NewVisitors(file, o.Clock), 1000
	})
	s.ap.RequestedBy.Who = "ben"
	ana := s.browser(t).signIn("ana")
	form := url.Values{"token": {ana.token()}, "decision": {"deny"}}
	first := s.browser(t).signIn("ben")
	for range 205 {
		s.browser(t).signIn("ben")
	}
	if r := ana.post(s.at, form); r.status != http.StatusSeeOther {
		t.Errorf("another one's sign-ins: %d", r.status)
	}
	if r := first.get("/runs"); r.status != http.StatusSeeOther {
		t.Errorf("the oldest session of the same key: %d", r.status)
	}
	data, err := os.ReadFile(file)
	must(t, err)
	if n := strings.Count(string(data), `"key": "ben"`); n != 20 {
		t.Errorf("%d sessions", n)
	}
}

// A clock that was years ahead for a while makes no session that lasts for years.
func TestPages_ClockSetBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	old, _, err := s.visitors.Pair(t.Context(), "old")
	must(t, err)
	b := s.browser(t).signIn("ana")
	s.clock.add(-30 * time.Minute) // as a clock is set right
	if r := b.get("/runs"); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	s.clock.add(-24 * time.Hour)
	if r := b.get("/runs"); r.status != http.StatusSeeOther {
		t.Errorf("a session of tomorrow: %d", r.status)
	}
	if r := s.browser(t).post("/pair", url.Values{"code": {old}}); r.status != http.StatusUnauthorized {
		t.Errorf("a code of tomorrow: %d", r.status)
	}
}
