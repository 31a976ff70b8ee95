package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// The id of a request comes back as it was sent, digit for digit, in results and
// in errors.
func TestIDs_ComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for _, id := range []string{
		"9007199254740993", "-9007199254740993", "12345678901234567890123", "1.0", "1e400", "0.1000", `"9007199254740993"`, `"ü"`,
	} {
		for _, rest := range []string{
			`"method":"ping"`, `"method":"tools/list"`, `"method":"no/such"`,
			`"method":"tools/call","params":{"name":"discover","arguments":{"pattern":"*"}}`,
			`"method":"tools/call","params":{"name":"discover","arguments":{"x":1}}`,
			`"method":"resources/read","params":{"uri":"pml://nothing"}`,
		} {
			w.send(`{"jsonrpc":"2.0","id":` + id + `,` + rest + `}`)
			if m := w.next(); string(m.ID) != id {
				t.Errorf("%s of %s: %+v", id, rest, m)
			}
		}
	}
}

// So does the id of a subscription.
func TestIDs_OfSubscriptions(t *testing.T) {
	t.Parallel()
	srv, _ := serveHTTP(t, &fake{t: t}, nil)
	const id, meta = "9007199254740993", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	res := post(t, srv.URL, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{`+meta+`,"notifications":{}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if res.code != http.StatusOK || strings.Count(res.body, id) != 3 || strings.Contains(res.body, "9007199254740992") {
		t.Errorf("%d %s", res.code, res.body)
	}
}

// What is nested too deeply is refused with the id of its request, wherever that
// stands.
func TestDepth(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for _, n := range []int{core.MaxDepth + 20, 9_999, 100_000} {
		deep := strings.Repeat(`[`, n) + strings.Repeat(`]`, n)
		for id, line := range map[string]string{
			`7`:      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute","arguments":{"code":"1","input":` + deep + `}}}`,
			`"last"`: `{"method":"tools/call","params":{"id":"no","name":"execute","arguments":` + deep + `,"id":"no"},"x":"id","jsonrpc":"2.0","id":"last"}`,
			`null`:   deep,
		} {
			w.send(line)
			if m := w.next(); string(m.ID) != id && !(id == "null" && m.ID == nil) || m.Error == nil || m.Error.Code != -32602 && id != "null" {
				t.Errorf("%d: %s %+v", n, m.ID, m.Error)
			}
		}
	}
	w.send(callLine("8", "discover", `{"pattern":"*"}`, ""))
	if m := w.next(); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
}

// An answer that cannot be written is an error, not silence.
func TestAnswers_ThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := &fake{t: t}
	f.execute = func(context.Context, api.ExecuteRequest) (api.Result, error) {
		return api.Result{Status: api.StatusSuccess, Result: json.RawMessage(strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999))}, nil
	}
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	if m := w.next(); string(m.ID) != "1" || m.Error == nil || m.Error.Code != -32603 {
		t.Errorf("%.300s %+v", m.Result, m.Error)
	}
	f.execute = func(context.Context, api.ExecuteRequest) (api.Result, error) {
		return api.Result{Status: api.StatusSuccess, Result: json.RawMessage(`{`)}, nil
	}
	w.send(callLine("2", "execute", `{"code":"1"}`, ""))
	if m := w.next(); string(m.ID) != "2" || m.Error == nil {
		t.Errorf("%.300s %+v", m.Result, m.Error)
	}
}

// A key has so many calls at once, over all of its sessions; others, and what is
// quick, are not held up by them.
func TestHTTP_CallsOfAnOwner(t *testing.T) {
	t.Parallel()
	f := &fake{t: t}
	begun, release := make(chan struct{}), make(chan struct{})
	f.execute = func(context.Context, api.ExecuteRequest) (api.Result, error) {
		begun <- struct{}{}
		<-release
		return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
	}
	srv, _ := serveHTTP(t, f, func(o *mcp.Options) { o.OwnerCalls = 4 })
	open := func(who string) string {
		return post(t, srv.URL, initialize, "X-Who", who).header.Get("Mcp-Session-Id")
	}
	call := func(who, session, id string) answer {
		return post(t, srv.URL, callLine(id, "execute", `{"code":"1"}`, ""), "X-Who", who, "Mcp-Session-Id", session)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		session := open("ann")
		wg.Go(func() {
			if res := call("ann", session, strconv.Itoa(i)); !strings.Contains(res.body, `"result"`) {
				t.Errorf("%d %s", res.code, res.body)
			}
		})
		<-begun
	}
	ann := open("ann")
	if res := call("ann", ann, "9"); !strings.Contains(res.body, "-32000") {
		t.Errorf("one more: %d %s", res.code, res.body)
	}
	if res := post(t, srv.URL, ping, "X-Who", "ann", "Mcp-Session-Id", ann); !strings.Contains(res.body, `"result"`) {
		t.Errorf("a ping: %d %s", res.code, res.body)
	}
	bob := open("bob")
	wg.Go(func() { call("bob", bob, "1") })
	<-begun
	close(release)
	wg.Wait()
	go func() { <-begun }()
	if res := call("ann", ann, "10"); !strings.Contains(res.body, `"result"`) {
		t.Errorf("after they were answered: %d %s", res.code, res.body)
	}
}

// A time-out that no time.Duration has room for is refused.
func TestExecute_LongTimeout(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	w.send(callLine("1", "execute", `{"code":"1","options":{"timeout":9223372036854775807}}`, ""))
	if m := w.next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "31536000000") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
}
