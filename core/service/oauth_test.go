package service_test

import (
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// protected is an MCP server that wants authorization, and the authorization
// server beside it, up to the consent of a person. registration is the path of
// the endpoint at which programs register themselves; ""
// for a server that has none.
func protected(t *testing.T, registration string) *httptest.Server {
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	answer := func(status int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		}
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+srv.URL+`/meta", scope="mail.read"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/meta", answer(http.StatusOK, map[string]any{
		"resource": srv.URL + "/mcp", "authorization_servers": []string{srv.URL}, "scopes_supported": []string{"mail.read"},
	}))
	meta := map[string]any{
		"issuer": srv.URL, "authorization_endpoint": srv.URL + "/consent", "token_endpoint": srv.URL + "/token", "registration_endpoint": srv.URL + registration,
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
	}
	if registration == "" {
		delete(meta, "registration_endpoint")
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", answer(http.StatusOK, meta))
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		asked["client_id"] = "pml-test"
		answer(http.StatusCreated, asked)(w, r)
	})
	return srv
}

// A server that wants OAuth asks for it with the address that a person opens;
// the process that listens for the answer can end all the same.
func TestOAuth_AsksAndEnds(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	srv := protected(t, "/register")
	m.configure(c, map[string]any{"permissions": map[string]any{"allow": []string{"mail"}}}, map[string]any{"mail": map[string]any{"url": srv.URL + "/mcp"}})
	list, err := c.CheckServers(c.ctx(), "mail")
	if err != nil || len(list) != 1 || list[0].State != api.ServerNeeds || len(list[0].Needs) != 1 || list[0].Needs[0].Type != core.ApproveOAuth {
		t.Fatalf("%v %+v", err, list)
	}
	r := c.execute(`return await mcp.mail.read({})`, api.StatusApprovalRequired)
	if r.ApprovalType != core.ApproveOAuth || !strings.Contains(string(r.Context), srv.URL+"/consent?") || !strings.Contains(string(r.Context), "mail.read") {
		t.Errorf("%+v", r)
	}
	callback := callbackOf(t, r.Context)
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", callback); err != nil {
		t.Errorf("nobody listens for the answer: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	left := 0
	err = filepath.WalkDir(filepath.Join(m.home, "credentials"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return err
	})
	if err != nil || left == 0 {
		t.Errorf("nothing is kept of a flow that was begun: %v", err)
	}
	// What was begun is forgotten with the server.
	set, err := c.RemoveServers(c.ctx(), "mail")
	if err == nil {
		_, err = c.Write(c.ctx(), set, true, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Purge(c.ctx(), "mail"); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(m.home, "credentials", "*.json"))
	if err != nil || len(kept) > 0 {
		t.Errorf("%v %v", kept, err)
	}
	c.close()
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", callback); err == nil {
		t.Errorf("somebody still listens at %s", conn.RemoteAddr())
	}
}

// callbackOf is where the answer to an approval's address is listened for.
func callbackOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var shown struct {
		URL string `json:"auth_url"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(shown.URL)
	if err == nil {
		u, err = url.Parse(u.Query().Get("redirect_uri"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// A server whose authorization server lets no program register itself names
// the setting; with it pml asks as the client that a person has registered.
func TestOAuth_ClientByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	srv := protected(t, "")
	settings := map[string]any{"permissions": map[string]any{"allow": []string{"mail"}}}
	entry := map[string]any{"url": srv.URL + "/mcp"}
	m.configure(c, settings, map[string]any{"mail": entry})
	list, err := c.CheckServers(c.ctx(), "mail")
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Error, `"oauth": {"client_id"`) {
		t.Fatalf("%v %+v", err, list)
	}
	entry["oauth"] = map[string]any{"client_id": "by-hand", "scopes": []string{"mail.send"}}
	m.configure(c, settings, map[string]any{"mail": entry})
	r := c.execute(`return await mcp.mail.read({})`, api.StatusApprovalRequired)
	for _, want := range []string{"client_id=by-hand", "mail.read", "mail.send"} {
		if r.ApprovalType != core.ApproveOAuth || !strings.Contains(string(r.Context), want) {
			t.Errorf("no %s in %+v", want, r)
		}
	}
}
