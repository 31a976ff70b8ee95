package client_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

const secret = "pml_very-secret-key"

// open is a client over the real network.
func open(t *testing.T, o client.Options) (*client.Client, error) {
	t.Helper()
	o.Clock = clock{}
	if o.APIKey == "" {
		o.APIKey = secret
	}
	c, err := client.New(o)
	if c != nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// TestProblem_WholeError: an error over the wire is the error that it was.
func TestProblem_WholeError(t *testing.T) {
	t.Parallel()
	want := &core.Error{
		Code: core.CodeAlreadyDecided, Message: "ann was faster", Next: []string{"pml", "approvals", "ls"}, RunID: "r1",
		Location: &core.Position{Line: 1, Column: 2}, Faults: []core.Fault{{Path: "/a", Message: "no"}}, Stack: "at x",
		Failures: []core.Failure{{TaskID: "t", Tool: "a:b", Code: core.CodeDenied, Error: "e"}},
		Decided:  &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}, At: time.Unix(5, 0).UTC(), Reason: "r"},
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem(w, 409, want) }))
	t.Cleanup(ts.Close)
	c, err := open(t, client.Options{URL: ts.URL, Checked: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Workflow(t.Context(), "r1")
	if got := wantCode(t, err, want.Code); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAudit_OlderServer: a server that knows no audit log is as good as away for
// who asks for it.
func TestAudit_OlderServer(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem(w, 404, core.Errorf(core.CodeUsage, "there is no path %s", r.URL.Path))
	}))
	t.Cleanup(ts.Close)
	c, err := open(t, client.Options{URL: ts.URL, Checked: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Audit(t.Context(), api.AuditQuery{})
	if e := wantCode(t, err, core.CodeServerUnreachable); !strings.Contains(e.Message, "older") {
		t.Error(e.Message)
	}
	_, err = c.VerifyAudit(t.Context())
	wantCode(t, err, core.CodeServerUnreachable)
}

// TestAsk_Unreachable: each way not to get an answer has its own words, and the
// key is in none of them.
func TestAsk_Unreachable(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	var leaked string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked = r.Header.Get("Authorization") }))
	t.Cleanup(elsewhere.Close)
	says := func(status int, text string) string {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
			w.Write([]byte(text))
		}))
		t.Cleanup(ts.Close)
		return ts.URL
	}
	tests := []struct {
		name string
		o    client.Options
		code core.Code
		text string
	}{
		{"Refused", client.Options{URL: closed.URL}, core.CodeServerUnreachable, "nobody answers"},
		{"NoSocket", client.Options{Socket: filepath.Join(t.TempDir(), "none")}, core.CodeServerUnreachable, "no socket"},
		{"NoTLS", client.Options{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, core.CodeServerUnreachable, "does not speak TLS"},
		{"Certificate", client.Options{URL: secure.URL}, core.CodeServerUnreachable, "certificate"},
		{"Unauthorized", client.Options{URL: says(401, "go away")}, core.CodeAuth, "PML_API_KEY"},
		{"Redirect", client.Options{URL: says(302, "")}, core.CodeServerUnreachable, "redirect"},
		{"Other", client.Options{URL: says(404, "<html>")}, core.CodeServerUnreachable, "not a pml server"},
		{"NotJSON", client.Options{URL: says(200, "<html>")}, core.CodeServerUnreachable, "not one of a pml server"},
		{"Large", client.Options{URL: says(200, strings.Repeat("x", 2000)), Limits: client.Limits{Body: 1000}}, core.CodeResultTooLarge, "1000 bytes"},
	}
	for _, tt := range tests {
		var log bytes.Buffer
		tt.o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c, err := open(t, tt.o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Status(t.Context())
		e := wantCode(t, err, tt.code)
		if !strings.Contains(e.Message, tt.text) {
			t.Errorf("%s: %q does not say %q", tt.name, e.Message, tt.text)
		}
		if strings.Contains(log.String()+e.Message, secret) {
			t.Errorf("%s: the key is in %q %q", tt.name, e.Message, log.String())
		}
	}
	if leaked != "" {
		t.Errorf("another server was told %q", leaked)
	}
}

func TestNew_Addresses(t *testing.T) {
	t.Parallel()
	for _, o := range []client.Options{
		{}, {URL: "pml.example.com"}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "https://u:" + secret + "@x"}, {URL: "https://x?k=" + secret}, {Socket: "relative"}, {URL: "http://\x00"},
		{URL: "https://x", APIKey: secret + "\r\nX-Api-Key: other"}, {URL: "https://x", APIKey: secret + "\x7f"},
	} {
		_, err := open(t, o)
		if e := wantCode(t, err, core.CodeInvalidConfig); strings.Contains(e.Message, secret) {
			t.Errorf("%q", e.Message)
		}
	}
	for url, want := range map[string]string{"https://x/pml/": "https://x/pml", "unix:///run/p.sock": "/run/p.sock", "unix:/run/p.sock": "/run/p.sock"} {
		c, err := open(t, client.Options{URL: url})
		if err != nil || c.Name() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestIdentify: a key goes to a URL, the folder and the way in to a socket.
func TestIdentify(t *testing.T) {
	t.Parallel()
	s := newServer()
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	sock := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", sock)
	if err != nil {
		t.Skip("no unix sockets here: " + err.Error())
	}
	srv := &http.Server{Handler: s}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	for _, o := range []client.Options{{URL: ts.URL}, {Socket: sock}} {
		o.Workspace, o.Via, o.Version = "/work/ä b", core.ViaTUI, "1.2"
		c, err := open(t, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Approvals(t.Context(), false)
		wantCode(t, err, core.CodeNotFound)
	}
	log := s.log()
	tcp, unix := log[0].header, log[1].header
	if tcp.Get("Authorization") != "Bearer "+secret || tcp.Get(api.HeaderWorkspace)+tcp.Get(api.HeaderVia) != "" {
		t.Errorf("over TCP: %v", tcp)
	}
	if unix.Get("Authorization") != "" || unix.Get(api.HeaderWorkspace) != "/work/%C3%A4%20b" || unix.Get(api.HeaderVia) != "tui" || unix.Get("User-Agent") != "pml/1.2" {
		t.Errorf("over the socket: %v", unix)
	}
	agent, err := open(t, client.Options{URL: ts.URL, Via: core.ViaMCP})
	if err != nil {
		t.Fatal(err)
	}
	_, err = agent.Approvals(t.Context(), false)
	wantCode(t, err, core.CodeNotFound)
	if got := s.log()[2].header.Get(api.HeaderVia); got != "mcp" {
		t.Errorf("an agent over TCP comes as %q", got)
	}
	by := core.Actor{Who: "root", Via: core.ViaElicitation, Client: core.NewClient("clé code", "2.1", "Clé")}
	_, err = agent.Continue(t.Context(), api.ContinueRequest{ID: "11110001-0000-4000-8000-000011110001", Decision: &api.Decision{Checkpoint: "22220001-0000-4000-8000-000011110001"}, By: by})
	wantCode(t, err, core.CodeNotFound)
	if got := s.log()[3].header; got.Get(api.HeaderVia) != "mcp" || got.Get(api.HeaderAgent) != "cl%C3%A9%20code" || got.Get(api.HeaderAgentVersion) != "2.1" || got.Get(api.HeaderAgentTitle) != "Cl%C3%A9" {
		t.Errorf("what an agent's host decides comes as %v", got)
	}
	for risk, want := range map[core.Risk]bool{core.RiskLow: true, core.RiskMedium: true, core.RiskHigh: false, "": false} {
		if got := agent.HostMayDecide(t.Context(), core.Approval{Risk: risk}); got != want {
			t.Errorf("%q: a host's answer counts: %v", risk, got)
		}
	}
}

// TestCheck_OtherProtocol: a server of another protocol is refused before it is
// asked for anything.
func TestCheck_OtherProtocol(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/server" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		answer(w, 200, api.ServerStatus{Version: "9.0", Protocol: 9})
	}))
	t.Cleanup(ts.Close)
	c, err := open(t, client.Options{URL: ts.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Execute(t.Context(), api.ExecuteRequest{Code: "1"})
	if e := wantCode(t, err, core.CodeServerUnreachable); !strings.Contains(e.Message, "9.0") {
		t.Errorf("%q", e.Message)
	}
}

// TestAsk_Pause: too many requests are asked again after the pause that the
// server names.
func TestAsk_Pause(t *testing.T) {
	t.Parallel()
	n := 0
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n <= 2 {
			w.Header().Set("Retry-After", "0")
			problem(w, 429, core.Errorf(core.CodeRateLimited, "slow down"))
			return
		}
		answer(w, 200, api.Page[core.Approval]{})
	}))
	t.Cleanup(ts.Close)
	c, err := open(t, client.Options{URL: ts.URL, Checked: true})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Approvals(t.Context(), true); err != nil || list == nil || n != 3 {
		t.Errorf("%v, %v after %d", list, err, n)
	}
}

// TestResolve: ids, beginnings of ids, approvals and the newest.
func TestResolve(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.handle = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch strings.TrimPrefix(r.URL.Path, "/api/v1") {
		case "/workflows":
			answer(w, 200, api.Page[core.Run]{Items: []core.Run{{ID: "newest"}}})
		case "/workflows/abcd/result", "/workflows/a1b2/result": // the second is the approval's run
			answer(w, 200, api.RunResult{WorkflowID: "abcdef"})
		case "/approvals/a1b2":
			answer(w, 200, core.Approval{ID: "a1b2c3", RunID: "abcdef"})
		default:
			return false
		}
		return true
	}
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	c, err := open(t, client.Options{URL: ts.URL})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]core.ID{"@latest": {"newest"}, " ABCD ": {"abcdef"}, "a1b2": {"abcdef", "a1b2c3"}} {
		id, ap, err := c.Resolve(t.Context(), text)
		if err != nil || id != want[0] || ap != want[1] {
			t.Errorf("%s: %s, %s, %v", text, id, ap, err)
		}
	}
	for _, text := range []string{"ab", "", "ffff", "../x"} {
		_, _, err := c.Resolve(t.Context(), text)
		if !errors.Is(err, &core.Error{Code: core.CodeNotFound}) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
