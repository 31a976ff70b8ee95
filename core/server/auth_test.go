package server_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

func TestAuth_Socket(t *testing.T) {
	t.Parallel()
	abs := t.TempDir()
	tests := []struct {
		name    string
		headers []string
		status  int
		want    api.Scope
	}{
		{"plain", nil, 200, api.Scope{By: core.Actor{Who: "me", Via: core.ViaHTTP}}},
		{"cli in a folder", []string{"Pml-Workspace", abs + "/x/..", "Pml-Via", "cli"}, 200, api.Scope{Workspace: abs, By: core.Actor{Who: "me", Via: core.ViaCLI}}},
		{"encoded folder", []string{"Pml-Workspace", "/a%20%C3%A9%0A"}, 200, api.Scope{Workspace: "/a é\n", By: core.Actor{Who: "me", Via: core.ViaHTTP}}},
		{"badly encoded folder", []string{"Pml-Workspace", abs + "%2"}, 400, api.Scope{}},
		{"folder with a zero", []string{"Pml-Workspace", abs + "%00"}, 400, api.Scope{}},
		{"tui", []string{"Pml-Via", "tui"}, 200, api.Scope{By: core.Actor{Who: "me", Via: core.ViaTUI}}},
		{"an agent's host sees its folder only", []string{"Pml-Workspace", abs, "Pml-Via", "mcp"}, 200, api.Scope{Workspace: abs, Confined: true, By: core.Actor{Who: "me", Via: core.ViaMCP}}},
		{"an agent's host with all of it", []string{"Pml-Via", "mcp", "Pml-Agent", "claude-code", "Pml-Agent-Version", "2.1", "Pml-Agent-Title", "Claude%20Code%0Ax"}, 200,
			api.Scope{Confined: true, By: core.Actor{Who: "me", Via: core.ViaMCP, Client: core.Client{Name: "claude-code", Version: "2.1", Title: "Claude Code…"}}}},
		{"an agent's host with a name", []string{"Pml-Via", "mcp", "Pml-Agent", "cl%C3%A9%1b"}, 200, api.Scope{Confined: true, By: core.Actor{Who: "me", Via: core.ViaMCP, Client: core.Client{Name: "clé\\x1b"}}}},
		{"a name badly encoded", []string{"Pml-Via", "mcp", "Pml-Agent", "%zz"}, 400, api.Scope{}},
		{"elicitation cannot be claimed", []string{"Pml-Via", "elicitation"}, 400, api.Scope{}},
		{"rule cannot be claimed", []string{"Pml-Via", "rule"}, 400, api.Scope{}},
		{"relative folder", []string{"Pml-Workspace", "x"}, 400, api.Scope{}},
		{"a page", []string{"Origin", "http://localhost:3000"}, 403, api.Scope{}},
	}
	for _, tt := range tests {
		e := newEdge(t, nil)
		r := e.do(t, "GET", "/api/v1/approvals", "", tt.headers...)
		if r.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, r.status, r.body)
		}
		if got := last[api.Scope](e.b); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestAuth_TCP(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) {
		o.Hosts, o.Origins = []string{"pml.example"}, []string{"https://app.example"}
		o.MetricsKeys = []string{"ben"}
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pml_up 1") })
	})
	ana, ben := e.token["ana"], e.token["ben"]
	tests := []struct {
		name, path string
		headers    []string
		status     int
		code       core.Code
	}{
		{"no key", "/api/v1/approvals", nil, 401, core.CodeAuth},
		{"bearer", "/api/v1/approvals", []string{"Authorization", "bearer " + ana}, 200, ""},
		{"x-api-key", "/api/v1/approvals", []string{"x-api-key", ana}, 200, ""},
		{"twice the same", "/api/v1/approvals", []string{"x-api-key", ana, "Authorization", "Bearer " + ana}, 200, ""},
		{"two keys", "/api/v1/approvals", []string{"x-api-key", ana, "Authorization", "Bearer " + ben}, 401, core.CodeAuth},
		{"basic", "/api/v1/approvals", []string{"Authorization", "Basic " + ana, "x-api-key", ana}, 401, core.CodeAuth},
		{"wrong", "/api/v1/approvals", []string{"x-api-key", ana + "x"}, 401, core.CodeAuth},
		{"the hash is no key", "/api/v1/approvals", []string{"x-api-key", hashIn(t, e, "ana")}, 401, core.CodeAuth},
		{"workspace", "/api/v1/approvals", []string{"x-api-key", ana, "Pml-Workspace", "/"}, 400, core.CodeInvalidArguments},
		{"a person on TCP", "/api/v1/approvals", []string{"x-api-key", ana, "Pml-Via", "tui"}, 400, core.CodeInvalidArguments},
		{"an agent's host", "/api/v1/approvals", []string{"x-api-key", ana, "Pml-Via", "mcp", "Pml-Agent", "x"}, 200, ""},
		{"an agent's host, badly encoded", "/api/v1/approvals", []string{"x-api-key", ana, "Pml-Via", "mcp", "Pml-Agent", "%zz"}, 400, ""},
		{"any pml header", "/api/v1/approvals", []string{"x-api-key", ana, "Pml-Owner", "ben"}, 400, core.CodeInvalidArguments},
		{"health", "/healthz", nil, 200, ""},
		{"ready", "/readyz", nil, 401, core.CodeAuth},
		{"ready with a key", "/readyz", []string{"x-api-key", ana}, 200, ""},
		{"metrics", "/metrics", nil, 401, core.CodeAuth},
		{"metrics with a key that may", "/metrics", []string{"x-api-key", ben}, 200, ""},
		{"metrics with a key", "/metrics", []string{"x-api-key", ana}, 403, core.CodePermissionDenied},
		{"document", "/api/v1/openapi.json", nil, 401, core.CodeAuth},
		{"events", "/api/v1/events", nil, 401, core.CodeAuth},
		{"foreign host", "/healthz", []string{"Host", "evil.example"}, 403, core.CodePermissionDenied},
		{"foreign host with a port", "/api/v1/approvals", []string{"Host", "evil.example:80", "x-api-key", ana}, 403, core.CodePermissionDenied},
		{"localhost", "/healthz", []string{"Host", "localhost:9"}, 200, ""},
		{"IPv6", "/healthz", []string{"Host", "[::1]:9"}, 200, ""},
		{"a public address", "/healthz", []string{"Host", "192.0.2.1"}, 403, core.CodePermissionDenied},
		{"known host", "/healthz", []string{"Host", "PML.example:443"}, 200, ""},
		{"foreign page", "/api/v1/approvals", []string{"Origin", "https://evil.example", "x-api-key", ana}, 403, core.CodePermissionDenied},
		{"page of nobody", "/api/v1/approvals", []string{"Origin", "null", "x-api-key", ana}, 403, core.CodePermissionDenied},
		{"known page", "/api/v1/approvals", []string{"Origin", "https://app.example", "x-api-key", ana}, 200, ""},
	}
	for _, tt := range tests {
		r := send(t, e.client, "GET", e.tcp+tt.path, "", tt.headers...)
		if r.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, r.status, r.body)
		}
		if tt.code != "" && r.problem(t).Code != tt.code {
			t.Errorf("%s: %s, want %s", tt.name, r.body, tt.code)
		}
		if tt.status == 401 && r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", tt.name)
		}
	}
	if got := last[api.Scope](e.b); got != (api.Scope{Owner: "ana", By: core.Actor{Who: "ana", Via: core.ViaHTTP}}) {
		t.Errorf("%+v", got)
	}
	if strings.Contains(e.logs.String(), ana) {
		t.Error("a key is in the log")
	}
}

func hashIn(t *testing.T, e *edge, name string) string {
	t.Helper()
	list, err := e.keys.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range list {
		if key.Name == name {
			return key.Hash
		}
	}
	t.Fatal("no key")
	return ""
}

func TestAuth_Preflight(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Origins = []string{"https://app.example"} })
	r := send(t, e.client, "OPTIONS", e.tcp+"/api/v1/workflows", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "https://app.example" || r.header.Get("Vary") != "Origin" {
		t.Errorf("%d %v", r.status, r.header)
	}
	r = send(t, e.client, "OPTIONS", e.tcp+"/api/v1/workflows", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// Two users on one server: neither sees nor moves what is the other's.
func TestOwners_AreApart(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	const bens = "/api/v1/workflows/22220002"
	for _, req := range [][2]string{
		{"GET", bens}, {"DELETE", bens}, {"GET", bens + "/dag"}, {"GET", bens + "/checkpoints"}, {"GET", bens + "/checkpoints/0000004d"}, {"GET", bens + "/journal"}, {"GET", bens + "/export"},
		{"GET", bens + "/result"}, {"GET", bens + "/events"}, {"POST", bens + "/continue"}, {"POST", bens + "/abort"}, {"POST", bens + "/retry"},
		{"GET", "/api/v1/events?workflow=22220002"}, {"GET", "/api/v1/approvals/ffff0002"}, {"POST", bens + "/approvals/ffff0002/renew"},
	} {
		for who, want := range map[string]int{"ana": 404, "ben": 0} {
			if req[1] == "/api/v1/events?workflow=22220002" && who == "ben" {
				continue // a stream that does not end
			}
			r := e.as(t, who, req[0], req[1], "")
			if want == 404 && (r.status != 404 || r.problem(t).Code != core.CodeNotFound) || want == 0 && r.status >= 300 {
				t.Errorf("%s, %v: %d %s", who, req, r.status, r.body)
			}
		}
	}
	if r := e.as(t, "ana", "GET", "/api/v1/workflows", ""); strings.Contains(r.body, "22220002") || !strings.Contains(r.body, "11110001") {
		t.Error(r.body)
	}
	if r := e.as(t, "ana", "GET", "/api/v1/approvals", ""); strings.Contains(r.body, "22220002") || !strings.Contains(r.body, "11110001") {
		t.Error(r.body)
	}
}

func TestKeys_LifeCycle(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	get := func() int { return e.as(t, "ana", "GET", "/api/v1/approvals", "").status }
	if get() != 200 {
		t.Fatal("the key does not work")
	}
	// Another process removes it, and makes one of the same name.
	other := server.NewKeys(e.keysDir(), e.clock)
	if err := other.Remove("ana"); err != nil {
		t.Fatal(err)
	}
	if get() != 401 {
		t.Error("a removed key works")
	}
	fresh, err := other.Create("ana")
	if err != nil {
		t.Fatal(err)
	}
	if get() != 401 {
		t.Error("an older key of the same name works")
	}
	e.token["ana"] = fresh
	if get() != 200 {
		t.Error("a new key does not work")
	}
	if _, err := other.Create("ana"); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Errorf("a second key of a name: %v", err)
	}
	if err := other.Remove("anna"); core.CodeOf(err) != core.CodeNotFound || !strings.Contains(err.Error(), "ana") {
		t.Errorf("removing an unknown key: %v", err)
	}
}

func TestKeys_Files(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	keys := server.NewKeys(dir, &clock{now: start})
	if list, err := keys.List(); err != nil || len(list) != 0 {
		t.Fatalf("%v %v", list, err)
	}
	for _, bad := range []string{"", "../x", "a/b", ".x", "A", strings.Repeat("a", 64), "a b"} {
		if _, err := keys.Create(bad); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%q: %v", bad, err)
		}
	}
	token, err := keys.Create("team-1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token, "pml_") || len(token) != len("pml_")+43 {
		t.Errorf("token %q", token)
	}
	file := filepath.Join(dir, "team-1.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), token[4:]) {
		t.Error("the token is kept")
	}
	if info, _ := os.Stat(file); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	// A damaged file says so, and keeps nobody else out.
	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := keys.List()
	if core.CodeOf(err) != core.CodeStoreFailed || len(list) != 1 || list[0].Name != "team-1" || !list[0].CreatedAt.Equal(start) {
		t.Errorf("%v %v", list, err)
	}
	if owner, ok, err := keys.Owner(token); owner != "team-1" || !ok || err != nil {
		t.Errorf("%q %v %v", owner, ok, err)
	}
}

func TestLimits_Rate(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Rate, o.Limits.Burst = 0.5, 3 })
	for range 3 {
		if r := e.as(t, "ana", "GET", "/api/v1/approvals", ""); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	r := e.as(t, "ana", "GET", "/api/v1/approvals", "")
	if r.status != 429 || r.header.Get("Retry-After") != "2" || r.problem(t).Code != core.CodeRateLimited {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	if r := e.as(t, "ben", "GET", "/api/v1/approvals", ""); r.status != 200 {
		t.Errorf("another key is held up: %d", r.status)
	}
	e.clock.add(2 * time.Second)
	if r := e.as(t, "ana", "GET", "/api/v1/approvals", ""); r.status != 200 {
		t.Errorf("after Retry-After: %d", r.status)
	}
	for range 10 { // this user is not limited
		if r := e.do(t, "GET", "/api/v1/approvals", ""); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
}

// TestAuth_AgentOnTCP: who says with a key that it is an agent's host acts as
// one: a server where only a person decides then refuses it.
func TestAuth_AgentOnTCP(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	r := send(t, e.client, "GET", e.tcp+"/api/v1/approvals", "", "x-api-key", e.token["ana"], "Pml-Via", "mcp")
	want := api.Scope{Owner: "ana", By: core.Actor{Who: "ana", Via: core.ViaMCP}}
	if got := last[api.Scope](e.b); r.status != 200 || got != want {
		t.Errorf("%d %+v, want %+v", r.status, got, want)
	}
}
