package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	proto "github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// mcp-go's own client speaks every revision to it, both eras.
func TestHTTP_Revisions(t *testing.T) {
	t.Parallel()
	for _, version := range proto.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f, _ := gated(t, false)
			srv, e := serveHTTP(t, f, nil)
			tr, err := transport.NewStreamableHTTP(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			c := client.NewClient(tr, client.WithProtocolVersion(version))
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			speak(t, c, version)
			if n := e.Sessions(); (n == 1) == proto.IsModernProtocol(version) {
				t.Errorf("%d sessions", n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// A session is its opener's only, ends by DELETE or by being idle, and cannot
// be made up.
func TestHTTP_Sessions(t *testing.T) {
	t.Parallel()
	now := newClock()
	srv, e := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.Clock, o.SessionIdle = now, time.Hour })
	open := func(headers ...string) string {
		res := post(t, srv.URL, initialize, headers...)
		id := res.header.Get("Mcp-Session-Id")
		if res.code != http.StatusOK || len(id) < 32 {
			t.Fatalf("initialize: %d, session %q", res.code, id)
		}
		return id
	}
	ann, bob := open("X-Who", "ann"), open("X-Who", "bob")
	here := open(api.HeaderWorkspace, "/here")
	if ann == bob {
		t.Error("the same id twice")
	}
	tests := []struct {
		name    string
		want    int
		headers []string
	}{
		{"Own", http.StatusOK, []string{"X-Who", "ann", "Mcp-Session-Id", ann}},
		{"SomebodyElse", http.StatusNotFound, []string{"X-Who", "bob", "Mcp-Session-Id", ann}},
		{"Socket", http.StatusNotFound, []string{"Mcp-Session-Id", ann}},
		{"OtherWorkspace", http.StatusNotFound, []string{"Mcp-Session-Id", here, api.HeaderWorkspace, "/there"}},
		{"OwnWorkspace", http.StatusOK, []string{"Mcp-Session-Id", here, api.HeaderWorkspace, "/here"}},
		{"MadeUp", http.StatusNotFound, []string{"X-Who", "ann", "Mcp-Session-Id", "mcp-session-00000000-0000-4000-8000-000000000000"}},
		{"None", http.StatusBadRequest, []string{"X-Who", "ann"}},
		{"Nobody", http.StatusUnauthorized, []string{"X-Who", "nobody", "Mcp-Session-Id", ann}},
		{"UnknownRevision", http.StatusBadRequest, []string{"X-Who", "ann", "Mcp-Session-Id", ann, "Mcp-Protocol-Version", "2020-01-01"}},
	}
	for _, tt := range tests {
		if res := post(t, srv.URL, ping, tt.headers...); res.code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, res.code, tt.want)
		}
	}
	end := func(who, id string) int {
		return request(t, http.MethodDelete, srv.URL, "", "X-Who", who, "Mcp-Session-Id", id).code
	}
	if got := end("bob", ann); got != http.StatusNotFound {
		t.Errorf("somebody else's DELETE: %d", got)
	}
	if got := end("ann", ann); got != http.StatusNoContent {
		t.Errorf("DELETE: %d", got)
	}
	if res := post(t, srv.URL, ping, "X-Who", "ann", "Mcp-Session-Id", ann); res.code != http.StatusNotFound {
		t.Errorf("after DELETE: %d", res.code)
	}
	now.add(59 * time.Minute)
	if res := post(t, srv.URL, ping, "X-Who", "bob", "Mcp-Session-Id", bob); res.code != http.StatusOK {
		t.Errorf("before it is idle: %d", res.code)
	}
	now.add(61 * time.Minute)
	if res := post(t, srv.URL, ping, "X-Who", "bob", "Mcp-Session-Id", bob); res.code != http.StatusNotFound {
		t.Errorf("idle: %d", res.code)
	}
	if n := e.Sessions(); n != 1 { // of here, which nobody has asked for since
		t.Errorf("%d sessions are left", n)
	}
}

// Too many sessions push the idlest out, one's own before another's.
func TestHTTP_SessionsBounded(t *testing.T) {
	t.Parallel()
	now := newClock()
	srv, e := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.Clock, o.MaxSessions, o.OwnerSessions = now, 3, 2 })
	var ids []string
	for _, who := range []string{"bob", "ann", "ann", "ann"} {
		ids = append(ids, post(t, srv.URL, initialize, "X-Who", who).header.Get("Mcp-Session-Id"))
		now.add(time.Second)
	}
	want := []int{http.StatusOK, http.StatusNotFound, http.StatusOK, http.StatusOK}
	for i, who := range []string{"bob", "ann", "ann", "ann"} {
		if res := post(t, srv.URL, ping, "X-Who", who, "Mcp-Session-Id", ids[i]); res.code != want[i] {
			t.Errorf("session %d: %d, want %d", i, res.code, want[i])
		}
	}
	if n := e.Sessions(); n != 3 {
		t.Errorf("%d sessions", n)
	}
}

// Busy sessions are not pushed out: then there is no room.
func TestHTTP_SessionsBusy(t *testing.T) {
	t.Parallel()
	f, begun, _, let := blocking(t)
	srv, _ := serveHTTP(t, f, func(o *mcp.Options) { o.MaxSessions = 1 })
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	done := make(chan int, 1)
	go func() {
		done <- post(t, srv.URL, callLine("1", "execute", `{"code":"1"}`, ""), "Mcp-Session-Id", id).code
	}()
	<-begun
	if res := post(t, srv.URL, initialize); res.code != http.StatusServiceUnavailable || res.header.Get("Retry-After") == "" {
		t.Errorf("got %d", res.code)
	}
	close(let)
	if got := <-done; got != http.StatusOK {
		t.Errorf("the busy one got %d", got)
	}
}

// The same request id in two sessions is two calls: a cancel reaches its own,
// and the end of a session ends its calls.
func TestHTTP_Cancelled(t *testing.T) {
	t.Parallel()
	f, begun, ended, let := blocking(t)
	srv, _ := serveHTTP(t, f, nil)
	var ids []string
	answers := make([]chan int, 3)
	for i := range answers {
		ids = append(ids, post(t, srv.URL, initialize).header.Get("Mcp-Session-Id"))
		answers[i] = make(chan int, 1)
		go func() {
			answers[i] <- post(t, srv.URL, callLine("1", "execute", `{"code":"1"}`, ""), "Mcp-Session-Id", ids[i]).code
		}()
		<-begun
	}
	if res := post(t, srv.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Session-Id", ids[0]); res.code != http.StatusAccepted {
		t.Errorf("cancel: %d", res.code)
	}
	if got := <-answers[0]; got != http.StatusAccepted {
		t.Errorf("the cancelled call got %d", got)
	}
	if err := <-ended; err == nil {
		t.Error("the cancelled call was not")
	}
	request(t, http.MethodDelete, srv.URL, "", "Mcp-Session-Id", ids[1])
	if err := <-ended; err == nil {
		t.Error("a call survived its session")
	}
	<-answers[1]
	close(let)
	if got := <-answers[2]; got != http.StatusOK {
		t.Errorf("the other call got %d", got)
	}
}

// A client that goes away is not waited for.
func TestHTTP_Disconnected(t *testing.T) {
	t.Parallel()
	f, begun, ended, _ := blocking(t)
	srv, _ := serveHTTP(t, f, nil)
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(callLine("1", "execute", `{"code":"1"}`, "")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Session-Id", id)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Error("the call was answered")
	}
	if err := <-ended; err == nil {
		t.Error("the call goes on")
	}
}

// 100 calls that wait keep a 101st from nothing.
func TestHTTP_ManyWait(t *testing.T) {
	t.Parallel()
	f, begun, _, let := blocking(t)
	srv, _ := serveHTTP(t, f, nil)
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	done := make(chan int, 100)
	for i := range 100 {
		go func() {
			done <- post(t, srv.URL, callLine(strconv.Itoa(i), "execute", `{"code":"1"}`, ""), "Mcp-Session-Id", id).code
		}()
	}
	for range 100 {
		<-begun
	}
	if res := post(t, srv.URL, callLine("1000", "discover", `{"pattern":"*"}`, ""), "Mcp-Session-Id", id); res.code != http.StatusOK {
		t.Errorf("got %d", res.code)
	}
	close(let)
	for range 100 {
		if got := <-done; got != http.StatusOK {
			t.Errorf("got %d", got)
		}
	}
}

// A call without a session and without a revision is answered: there is a client
// that sends nothing else. What needs a session still says so.
func TestHTTP_NoSession(t *testing.T) {
	t.Parallel()
	f, asked := gated(t, false)
	srv, e := serveHTTP(t, f, nil)
	for _, s := range []struct {
		tool, args string
		want       api.Status
	}{
		{"execute", `{"code":"return 1"}`, api.StatusApprovalRequired},
		{"approval_response", `{"workflow_id":"0b9d2a4e","checkpoint_id":"` + string(approvalID) + `","approved":true}`, api.StatusRunning},
		{"continue", `{"workflow_id":"0b9d2a4e"}`, api.StatusComplete},
	} {
		res := post(t, srv.URL, callLine("0", s.tool, s.args, ""))
		var m msg
		if err := json.Unmarshal([]byte(res.body), &m); err != nil || res.code != http.StatusOK || res.header.Get("Mcp-Session-Id") != "" {
			t.Fatalf("%s: %v, %d %s", s.tool, err, res.code, res.body)
		}
		if _, r := m.result(t); r.Status != s.want || string(m.ID) != "0" {
			t.Errorf("%s: %s", s.tool, res.body)
		}
	}
	if len(*asked) != 2 {
		t.Errorf("asked %+v", *asked)
	}
	if n := e.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	for body, want := range map[string]int{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`: http.StatusOK, ping: http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`: http.StatusBadRequest,
	} {
		if res := post(t, srv.URL, body); res.code != want {
			t.Errorf("%s: %d %s", body, res.code, res.body)
		}
	}
	if res := post(t, srv.URL, callLine("1", "continue", `{"workflow_id":"0b9d2a4e"}`, ""), "Mcp-Protocol-Version", "2025-11-25"); res.code != http.StatusBadRequest {
		t.Errorf("with a revision that has sessions: %d", res.code)
	}
}

// modern is a request of revision 2026-07-28.
func modern(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// What is wrong with a request is said with the status that fits.
func TestHTTP_Refused(t *testing.T) {
	t.Parallel()
	srv, _ := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.MaxMessage = 4000 })
	const rev = "2026-07-28"
	tests := []struct {
		name, body string
		status     int
		code       int
		headers    []string
	}{
		{"Text", `hello`, http.StatusUnsupportedMediaType, 0, []string{"Content-Type", "text/plain"}},
		{"NotJSON", `hello`, http.StatusBadRequest, -32700, nil},
		{"Batch", `[` + ping + `]`, http.StatusBadRequest, -32600, nil},
		{"Large", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, http.StatusRequestEntityTooLarge, -32600, nil},
		{"NoHeader", modern("1", "tools/list", ""), http.StatusBadRequest, -32020, nil},
		{"HeadersDiffer", modern("1", "tools/list", ""), http.StatusBadRequest, -32020, []string{"Mcp-Protocol-Version", rev, "Mcp-Method", "ping"}},
		{"NoMeta", ping, http.StatusBadRequest, -32602, []string{"Mcp-Protocol-Version", rev}},
		{"Removed", modern("1", "ping", ""), http.StatusNotFound, -32601, []string{"Mcp-Protocol-Version", rev, "Mcp-Method", "ping"}},
		{"Future", strings.ReplaceAll(modern("1", "tools/list", ""), rev, "2030-01-01"), http.StatusBadRequest, -32022, []string{"Mcp-Protocol-Version", "2030-01-01", "Mcp-Method", "tools/list"}},
		{"Arguments", modern("1", "tools/call", `"name":"abort","arguments":{},`), http.StatusBadRequest, -32602, []string{"Mcp-Protocol-Version", rev, "Mcp-Method", "tools/call", "Mcp-Name", "abort"}},
		{"OK", modern("1", "tools/call", `"name":"discover","arguments":{"pattern":"*"},`), http.StatusOK, 0, []string{"Mcp-Protocol-Version", rev, "Mcp-Method", "tools/call", "Mcp-Name", "discover"}},
		{"Listen", modern("1", "subscriptions/listen", `"notifications":{},`), http.StatusOK, 0, []string{"Mcp-Protocol-Version", rev, "Mcp-Method", "subscriptions/listen"}},
	}
	for _, tt := range tests {
		res := post(t, srv.URL, tt.body, tt.headers...)
		var m msg
		_ = json.Unmarshal([]byte(res.body), &m)
		code := 0
		if m.Error != nil {
			code = m.Error.Code
		}
		if res.code != tt.status || code != tt.code {
			t.Errorf("%s: %d, code %d, want %d and %d: %s", tt.name, res.code, code, tt.status, tt.code, res.body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
		if res := request(t, method, srv.URL, ""); res.code != http.StatusMethodNotAllowed || res.header.Get("Allow") == "" {
			t.Errorf("%s: %d", method, res.code)
		}
	}
}
